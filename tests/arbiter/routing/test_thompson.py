"""Thompson sampling: who is likely to be the best is chosen as often, and newcomers get their trial."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats  # type: ignore[import-untyped]

from flywheel.arbiter.routing.belief import RESHAPE
from flywheel.arbiter.routing.normals import best_of_normals
from flywheel.arbiter.routing.priors import Prior
from flywheel.arbiter.routing.thompson import ThompsonSampling
from tests.arbiter.routing.pools import ADD, beliefs, propensities, router, shares

FLAT = Prior(record_tasks=0.001)


def by_quadrature(distributions: list[Any]) -> list[float]:
    """P(best) by fine adaptive quadrature, with scipy's distributions."""

    def integrand(x: float, i: int) -> float:
        rest = [d.cdf(x) for j, d in enumerate(distributions) if j != i]
        return float(distributions[i].pdf(x) * np.prod(rest))

    low = max(d.ppf(1e-10) for d in distributions)
    high = max(d.ppf(1 - 1e-10) for d in distributions)
    breaks = sorted({float(np.clip(d.ppf(p), low, high)) for d in distributions for p in (0.001, 0.1, 0.5, 0.9, 0.999)})
    return [
        integrate.quad(integrand, low, high, args=(i,), points=breaks, limit=400)[0] for i in range(len(distributions))
    ]


@pytest.mark.parametrize(
    "known",
    [
        {"a": (0, 0.0), "b": (0, 0.0), "c": (0, 0.0)},
        {"a": (40, 0.6), "b": (60, 0.65), "c": (3, 0.3)},
        {"a": (300, 0.99), "b": (200, 0.985), "c": (5, 0.8)},
        {"a": (10_000, 0.9), "b": (9_000, 0.905), "c": (20, 0.85)},
        {"a": (10_000, 0.02), "b": (10_000, 0.021), "c": (10_000, 0.019)},
    ],
)
def test_the_probability_of_the_largest_draw_is_that_of_fine_quadrature(known: dict[str, tuple[int, float]]) -> None:
    belief = beliefs(known, prior=FLAT).of("add")
    mean, total = belief.mean, (belief.strength + belief.weight) / RESHAPE
    exact = by_quadrature([stats.beta(m * n, (1 - m) * n) for m, n in zip(mean, total, strict=True)])
    assert belief.best(np.arange(3)) == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [([0.5, 0.5], [0.1, 0.1]), ([0.4, 0.5, 0.6], [0.3, 0.01, 0.05]), ([0.9, 0.2, 0.88], [0.01, 0.3, 0.02])],
)
def test_the_best_of_normals_is_that_of_fine_quadrature(mean: list[float], deviation: list[float]) -> None:
    exact = by_quadrature([stats.norm(m, s) for m, s in zip(mean, deviation, strict=True)])
    assert best_of_normals(np.array(mean), np.array(deviation)) == pytest.approx(exact, abs=5e-3)


def test_a_hundred_thousand_tasks_leave_the_probabilities_finite_and_sure() -> None:
    best = beliefs({"a": (100_000, 0.9), "b": (100_000, 0.88)}).of("add").best(np.arange(2))
    assert best == pytest.approx([1, 0], abs=1e-6)


def test_graded_rewards_with_little_spread_are_told_apart_sooner_than_all_or_nothing_ones() -> None:
    rng = np.random.default_rng(0)
    graded, plain = beliefs({}), beliefs({})
    for name, mean in (("a", 0.6), ("b", 0.65)):
        for _ in range(60):
            graded.learn(name, "add", float(np.clip(rng.normal(mean, 0.05), 0, 1)))
        for number in range(60):
            plain.learn(name, "add", float(number < 60 * mean))
    assert graded.of("add").graded
    assert not plain.of("add").graded
    assert graded.of("add").best(np.arange(2))[1] > 0.99
    assert plain.of("add").best(np.arange(2))[1] < 0.99


def test_a_newcomer_gets_its_trial_share_beside_a_nearly_perfect_agent_and_loses_it_when_known() -> None:
    share = {
        tasks: propensities(router({"perfect": (500, 0.99), "new": (tasks, 0.3)}).decide(ADD, np.random.default_rng(0)))
        for tasks in (0, 19, 20)
    }
    assert share[0]["new"] >= 0.1
    assert share[19]["new"] >= 0.1
    assert share[20]["new"] < 0.001


def test_the_reason_says_which_part_of_the_probability_is_a_trial() -> None:
    known = router({"perfect": (500, 0.99), "new": (3, 0.3)})
    reasons = {}
    for seed in range(60):
        choice = known.decide(ADD, np.random.default_rng(seed))
        reasons[choice.selected] = choice.primary_reason
    assert "0.100 on trial, with 3 of 20 tasks done" in reasons["new"]
    assert "on trial" not in reasons["perfect"]


def test_an_agent_of_probability_zero_is_never_drawn() -> None:
    known = router({"perfect": (50_000, 0.99), "hopeless": (50_000, 0.01)}, ThompsonSampling())
    assert propensities(known.decide(ADD, np.random.default_rng(0))) == {"perfect": 1.0, "hopeless": 0.0}
    assert shares(known, draws=200) == {"perfect": 200}
