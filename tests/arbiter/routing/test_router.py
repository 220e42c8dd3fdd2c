"""The router keeps hard limits, spares who is busy, and falls back to the general pool and says so."""

from collections import Counter

import numpy as np
import pytest

from flywheel.arbiter.routing.objective import Objective
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.strategy import Load
from flywheel.arbiter.routing.task import RoutedTask, assess_complexity
from flywheel.errors import ConfigurationError, NoAgentError
from flywheel.records import Complexity, Strategy
from tests.arbiter.routing.pools import ADD, agent, beliefs, propensities, router

RNG = np.random.default_rng(0)


def test_without_a_capable_agent_the_general_pool_is_the_fallback() -> None:
    of = Router([agent("poet", task_types=("write",))], beliefs({}))
    assert of.decide(RoutedTask(task_type="write"), RNG).strategy is Strategy.MULTI_ARMED_BANDIT
    fallback = of.decide(RoutedTask(task_type="paint"), RNG)
    assert fallback.strategy is Strategy.FALLBACK
    assert fallback.primary_reason.startswith("none of 1 agents takes paint; of all: poet")
    assert [scored.capability for scored in fallback.scored] == [0.0]


def test_without_any_agent_there_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="no agent is active"):
        Router([], beliefs({}))


def test_hard_limits_hold_also_in_the_fallback_and_say_whom_they_left_out() -> None:
    limits = Objective(max_usd_per_million_tokens=2.0, must_have=("safety",))
    agents = [
        agent("dear", usd_per_million_output_tokens=3.0, specializations=("safety",)),
        agent("unsafe", task_types=("add",)),
        agent("fit", usd_per_million_input_tokens=2.0, specializations=("safety", "law"), task_types=("write",)),
    ]
    of = Router(agents, beliefs({}, objective=limits))
    chosen = Counter(of.decide(ADD, RNG).selected for _ in range(50))
    assert chosen == {"fit": 50}
    assert of.decide(ADD, RNG).strategy is Strategy.FALLBACK
    assert of.decide(RoutedTask(task_type="add", must_have=("law",)), RNG).selected == "fit"
    with pytest.raises(
        NoAgentError, match=r"dear costs 3 USD per million tokens, limit 2; .*fit is not specialized in art"
    ):
        of.decide(RoutedTask(task_type="add", must_have=("art",)), RNG)


def test_a_busy_agent_gets_nothing_while_another_has_room() -> None:
    of = router({"good": (100, 0.9), "bad": (100, 0.1)})
    busy = {"good": Load(active=10)}
    choice = of.decide(ADD, RNG, loads=busy)
    assert propensities(choice) == {"bad": 1.0}
    assert choice.primary_reason.startswith("1 that are busy left out; ")
    assert of.decide(ADD, RNG, loads={"good": Load(active=9)}).selected == "good"


def test_when_all_are_busy_the_least_busy_one_has_the_task_wait() -> None:
    of = router({"good": (100, 0.9), "bad": (100, 0.1)})
    choice = of.decide(ADD, RNG, loads={"good": Load(active=12), "bad": Load(active=10, queued=2)})
    assert (choice.selected, choice.strategy) == ("bad", Strategy.FALLBACK)
    assert choice.primary_reason.startswith("all 2 have all they may have; to wait for the least busy: bad")


def test_an_agent_has_no_room_beyond_the_limit_of_its_own_profile() -> None:
    of = Router([agent("good", max_concurrent=1), agent("bad")], beliefs({"good": (100, 0.9), "bad": (100, 0.1)}))
    assert of.decide(ADD, RNG).selected == "good"
    assert of.decide(ADD, RNG, loads={"good": Load(active=1)}).selected == "bad"


def test_an_agent_that_cannot_be_had_is_left_out_and_comes_back() -> None:
    of = router({"good": (100, 0.9), "bad": (100, 0.1)})
    assert of.decide(ADD, RNG, without=frozenset({"good"})).selected == "bad"
    assert of.decide(ADD, RNG).selected == "good"


def test_exchange_rates_make_a_cheap_agent_beat_a_slightly_better_one() -> None:
    for rates, best in ((Objective(), "dear"), (Objective(quality_per_usd=0.5, quality_per_second=0.01), "cheap")):
        known = beliefs({}, objective=rates)
        for number in range(200):
            known.learn("dear", "add", float(number % 10 < 9), cost_usd=0.4, latency_ms=2_000.0)
            known.learn("cheap", "add", float(number % 10 < 8), cost_usd=0.1, latency_ms=500.0)
        choice = Router([agent("dear"), agent("cheap")], known).decide(ADD, RNG)
        assert (choice.selected, choice.propensity > 0.95) == (best, True)
        penalties = [0.9 - 0.22, 0.8 - 0.055] if rates.priced else [0.9, 0.8]
        assert [scored.estimate for scored in choice.scored] == pytest.approx(penalties, abs=0.01)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ({}, Complexity.TRIVIAL),
        ({"context_tokens": 999, "steps": 1}, Complexity.TRIVIAL),
        ({"turns": 4}, Complexity.TRIVIAL),
        ({"tools": 1}, Complexity.STANDARD),
        ({"context_tokens": 1_000}, Complexity.STANDARD),
        ({"steps": 2}, Complexity.STANDARD),
        ({"external_calls": True}, Complexity.STANDARD),
        ({"tools": 3}, Complexity.COMPLEX),
        ({"context_tokens": 5_000}, Complexity.COMPLEX),
        ({"steps": 5}, Complexity.COMPLEX),
        ({"turns": 2, "external_calls": True}, Complexity.COMPLEX),
    ],
)
def test_complexity_is_assessed_by_the_specified_rules(work: dict[str, int], expected: Complexity) -> None:
    assert assess_complexity(**work) is expected  # type: ignore[arg-type]
