"""Thompson sampling: propensities are what happens, and reasons say what was done."""

from collections import Counter

import numpy as np
import pytest

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.strategy import Candidate, Evidence
from flywheel.arbiter.routing.thompson import ThompsonSampling, best_probabilities


def candidate(agent_id: str, tasks: int = 0, quality: float = 0.0) -> Candidate:
    return Candidate(
        profile=AgentProfile(id=agent_id, kind="reference"),
        evidence=Evidence(tasks=tasks, quality_sum=tasks * quality),
        capability=1.0,
    )


@pytest.mark.parametrize(
    "candidates",
    [
        [candidate("a"), candidate("b"), candidate("c")],
        [candidate("a", 40, 0.6), candidate("b", 60, 0.65), candidate("new")],
        [candidate("a", 30, 0.5), candidate("b", 30, 0.55)],
        [candidate("alone", 5, 0.5)],
    ],
)
def test_logged_propensities_are_the_frequencies_of_choice(candidates: list[Candidate]) -> None:
    rng = np.random.default_rng(7)
    strategy = ThompsonSampling()
    draws = 4_000
    chosen: Counter[str] = Counter()
    for _ in range(draws):
        chosen[strategy.choose("add", candidates, rng).selected] += 1
    logged = strategy.choose("add", candidates, rng).scored
    assert sum(scored.propensity for scored in logged) == pytest.approx(1, abs=1e-9)
    for scored in logged:
        expected = scored.propensity
        error = 4 * np.sqrt(expected * (1 - expected) / draws)  # 4 standard errors
        assert chosen[scored.candidate.profile.id] / draws == pytest.approx(expected, abs=error + 1e-3)


def test_the_probability_of_being_best_is_the_closed_form_for_two_agents() -> None:
    # P(Beta(2, 1) > Beta(1, 1)) = E[Beta(2, 1)] = 2/3
    assert best_probabilities([(2.0, 1.0), (1.0, 1.0)]) == pytest.approx([2 / 3, 1 / 3], abs=1e-4)


def test_ten_thousands_of_tasks_leave_the_probabilities_finite_and_sure() -> None:
    best = best_probabilities([(45_001.0, 5_001.0), (44_001.0, 6_001.0)])
    assert best == pytest.approx([1, 0], abs=1e-6)


def test_reasons_never_contradict_the_decision() -> None:
    rng = np.random.default_rng(1)
    candidates = [candidate("good", 50, 0.9), candidate("bad", 50, 0.3), candidate("new", 3, 0.5)]
    kinds: Counter[str] = Counter()
    for _ in range(500):
        choice = ThompsonSampling().choose("add", candidates, rng)
        [selected] = [s for s in choice.scored if s.candidate.profile.id == choice.selected]
        if choice.primary_reason.startswith("trial:"):
            kinds["trial"] += 1
            assert selected.candidate.evidence.tasks < ThompsonSampling().trial_tasks
            assert f"{choice.selected} has {selected.candidate.evidence.tasks}" in choice.primary_reason
        else:
            kinds["won"] += 1
            assert choice.primary_reason.startswith(f"{choice.selected} sampled {selected.score:.3f}")
            assert selected.score == max(scored.score for scored in choice.scored)
    assert min(kinds.values()) > 10
    assert len(kinds) == 2


def test_a_newcomer_gets_its_trial_share_beside_a_nearly_perfect_agent_and_loses_it_when_known() -> None:
    perfect = candidate("perfect", 500, 0.99)
    share = {
        tasks: ThompsonSampling().choose(
            "add", [perfect, candidate("new", tasks, 0.3)], np.random.default_rng(0)
        ).scored[1].propensity
        for tasks in (0, 19, 20)
    }  # fmt: skip
    assert share[0] >= 0.1
    assert share[19] >= 0.1
    assert share[20] < 0.001
