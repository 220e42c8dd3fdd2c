"""What every strategy keeps to: its probabilities are what happens, and its reasons say what was done."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.arbiter.routing.build import STRATEGY_NAMES, build_strategy
from flywheel.arbiter.routing.epsilon_greedy import EpsilonGreedy
from flywheel.arbiter.routing.linear import LinearEvidence
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.strategy import Load
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.arbiter.routing.ucb import UpperConfidenceBound
from tests.arbiter.routing.pools import ADD, Done, agent, assert_consistent, beliefs, propensities, router, shares

DRAWS = 4_000
KNOWN = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.tuples(st.integers(0, 5_000), st.floats(0, 1)),
    min_size=1,
    max_size=8,
)


def with_regressions(known: dict[str, Done], strategy: str) -> Router:
    linear = LinearEvidence()
    for name, (tasks, mean) in known.items():
        for number in range(min(tasks, 40)):
            linear.learn(name, features_of(ADD), float(number < min(tasks, 40) * mean))
    return router(known, build_strategy(strategy, linear))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
@pytest.mark.parametrize(
    "known",
    [
        {"a": (0, 0.0), "b": (0, 0.0), "c": (0, 0.0)},
        {"a": (40, 0.6), "b": (60, 0.65), "new": (0, 0.0)},
        {"a": (30, 0.5), "b": (30, 0.55)},
        {"alone": (5, 0.5)},
    ],
)
def test_logged_propensities_are_the_frequencies_of_choice(known: dict[str, Done], strategy: str) -> None:
    of = with_regressions(known, strategy)
    logged = propensities(of.decide(ADD, np.random.default_rng(0)))
    chosen = shares(of, draws=DRAWS)
    for name, expected in logged.items():
        # 4 standard errors: a right one fails once in 16,000
        assert chosen[name] / DRAWS == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / DRAWS))


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
@given(known=KNOWN, seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_a_decision_never_contradicts_itself(known: dict[str, Done], strategy: str, seed: int) -> None:
    choice = with_regressions(known, strategy).decide(ADD, np.random.default_rng(seed))
    assert_consistent(choice, list(known))


@given(known=KNOWN, seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_a_decision_stays_what_it_was_when_more_is_learned(known: dict[str, Done], seed: int) -> None:
    of = router(known)
    choice = of.decide(ADD, np.random.default_rng(seed))
    before = choice.primary_reason, propensities(choice)
    again = of.decide(ADD, np.random.default_rng(seed))
    for _ in range(5):
        of.beliefs.learn(choice.selected, "add", 0.0)
    assert (again.primary_reason, propensities(again)) == before


def test_epsilon_decays_as_specified() -> None:
    strategy = EpsilonGreedy()
    assert [strategy.epsilon(n) for n in (0, 100, 10_000)] == pytest.approx([0.2, 0.2 * 0.995**100, 0.01])
    logged = propensities(router({"a": (50, 0.9), "b": (50, 0.1)}, strategy).decide(ADD, np.random.default_rng(0)))
    epsilon = 0.2 * 0.995**100
    assert logged == pytest.approx({"a": 1 - epsilon / 2, "b": epsilon / 2})


def test_ucb_takes_the_less_tried_of_two_equally_good_agents() -> None:
    known = router({"often": (1_000, 0.6), "seldom": (50, 0.6)}, UpperConfidenceBound())
    assert propensities(known.decide(ADD, np.random.default_rng(0))) == {"often": 0.0, "seldom": 1.0}


def test_capability_match_weighs_type_language_and_specialization() -> None:
    task = RoutedTask(task_type="add", languages=("en", "de"), specializations=("numbers",))
    agents = [
        agent("all", task_types=("add",), languages=("de", "en"), specializations=("numbers",)),
        agent("half", languages=("de",)),
    ]
    choice = Router(agents, beliefs({}), strategy=build_strategy("capability-match", LinearEvidence())).decide(
        task, np.random.default_rng(0)
    )
    assert [scored.score for scored in choice.scored] == pytest.approx([1.0, 0.4 + 0.3 * 0.5])
    assert choice.selected == "all"


def test_load_balance_counts_a_waiting_task_half() -> None:
    loads = {"a": Load(active=2), "b": Load(active=1, queued=3), "c": Load(active=0, queued=3)}
    of = router({"a": (0, 0), "b": (0, 0), "c": (0, 0)}, build_strategy("load-balance", LinearEvidence()))
    choice = of.decide(ADD, np.random.default_rng(0), loads=loads)
    assert choice.selected == "c"
    assert "load 1.5 = 0 active + 0.5 × 3 queued" in choice.primary_reason
    assert [scored.load for scored in choice.scored] == pytest.approx([0.2, 0.25, 0.15])


def test_the_contextual_strategy_tells_tasks_of_one_type_apart() -> None:
    linear, rng = LinearEvidence(), np.random.default_rng(0)
    for _ in range(200):
        short, long = RoutedTask(task_type="add", length=5), RoutedTask(task_type="add", length=9_000)
        linear.learn("sprinter", features_of(short), float(rng.random() < 0.9))
        linear.learn("sprinter", features_of(long), float(rng.random() < 0.2))
        linear.learn("runner", features_of(short), float(rng.random() < 0.3))
        linear.learn("runner", features_of(long), float(rng.random() < 0.8))
    of = router({"sprinter": (0, 0), "runner": (0, 0)}, build_strategy("contextual", linear))
    assert propensities(of.decide(short, rng))["sprinter"] > 0.99
    assert propensities(of.decide(long, rng))["runner"] > 0.99
