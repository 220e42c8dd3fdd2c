"""Which of several normal draws is the largest, held against quadrature of a hundred times as many steps."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr  # type: ignore[import-untyped]

from flywheel.arbiter.routing.normals import best_of_normals

Array = NDArray[np.float64]


def by_fine_steps(mean: Array, deviation: Array, *, steps: int = 20_000) -> Array:
    """The same integral with scipy's log Φ, unrounded."""
    low, high = float((mean - 8.0 * deviation).max()), float((mean + 8.0 * deviation).max())
    z = (np.linspace(low, high, steps) - mean[:, None]) / deviation[:, None]
    log_cumulative = log_ndtr(z)
    density = np.exp(-0.5 * z * z - log_cumulative + log_cumulative.sum(axis=0)) / deviation[:, None]
    chances: Array = density.sum(axis=1) * (high - low) / (steps - 1) / math.sqrt(2.0 * math.pi)
    return chances


@pytest.mark.parametrize("apart", [1.0, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("agents", [1, 2, 5, 30, 100])
def test_it_is_that_of_fine_quadrature_however_far_the_deviations_are_apart(agents: int, apart: float) -> None:
    """As those of a newcomer beside agents of many tasks are."""
    rng = np.random.default_rng(agents)
    deviation = 0.25 * apart ** -rng.random(agents)
    deviation[0], deviation[-1] = 0.25, 0.25 / apart
    mean = rng.uniform(0.4, 0.6, agents)
    best = best_of_normals(mean, deviation)
    assert best.sum() == pytest.approx(1.0, abs=1e-12)
    assert best == pytest.approx(by_fine_steps(mean, deviation), abs=1e-3)


@pytest.mark.parametrize(("apart", "error"), [(150.0, 1e-3), (300.0, 0.025)])
@pytest.mark.parametrize("agents", [2, 10, 100])
def test_a_newcomer_is_weighed_beside_as_many_agents_of_whom_much_is_known(
    agents: int, apart: float, error: float
) -> None:
    deviation = np.full(agents, 0.25 / apart)
    deviation[0] = 0.25
    for ahead in (-0.25, 0.0, 0.05, 0.1, 0.25):
        mean = np.full(agents, 0.5)
        mean[0] += ahead
        assert best_of_normals(mean, deviation) == pytest.approx(by_fine_steps(mean, deviation), abs=error)


def test_agents_of_whom_nothing_tells_one_from_another_are_equally_likely() -> None:
    assert best_of_normals(np.full(100, 0.7), np.full(100, 0.02)) == pytest.approx(0.01, rel=1e-9)


def test_whoever_cannot_be_the_best_has_no_chance() -> None:
    assert best_of_normals(np.array([0.9, 0.1]), np.array([0.05, 0.05])).tolist() == [1.0, 0.0]
