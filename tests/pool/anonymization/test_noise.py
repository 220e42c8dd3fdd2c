"""The mechanisms of noise: what their ε really is, seen in samples, and that a weaker one would be found out."""

from collections.abc import Sequence
from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import beta, norm  # type: ignore[import-untyped]

from flywheel.errors import PoolError
from flywheel.pool.anonymization.noise import Noise, add_noise, gaussian_noise, laplace_noise, measurement_of, within

ERROR_RATE = 1e-6
"""How often a mechanism that keeps its promise fails such a test by chance."""
THRESHOLDS = [number / 4 for number in range(-24, 29)]


def observed_epsilon(first: Sequence[float], second: Sequence[float], *, delta: float = 0.0) -> float:
    """A lower bound of ε from the outputs for two neighbouring inputs; too high in ``ERROR_RATE`` of all cases at most.

    For each event "at most t" and "at least t" ε is at least ln((p - δ) / q), with p and q the probabilities under the
    one and the other input. Both are bounded by Clopper and Pearson, with the error rate shared out over all bounds.
    """
    low, high = np.array(first), np.array(second)
    events = [(low <= t, high <= t) for t in THRESHOLDS] + [(low >= t, high >= t) for t in THRESHOLDS]
    error = ERROR_RATE / (4 * len(events))
    best = 0.0
    for here, there in [*events, *((there, here) for here, there in events)]:
        least, most = lower_bound(int(here.sum()), len(here), error), upper_bound(int(there.sum()), len(there), error)
        if least > delta:
            best = max(best, log((least - delta) / most))
    return best


def lower_bound(count: int, size: int, error: float) -> float:
    return float(beta.ppf(error, count, size - count + 1)) if count else 0.0


def upper_bound(count: int, size: int, error: float) -> float:
    return float(beta.ppf(1 - error, count + 1, size - count)) if count < size else 1.0


def outputs(
    noise: Noise, *, clipped: bool = False, low: float = 0.0, high: float = 1.0, size: int
) -> list[list[float]]:
    """What comes out for the two inputs that are farthest apart; without the last clipping the tails can be seen."""
    seen = noise if clipped else replace(noise, lower=-1e9, upper=1e9)
    return [add_noise([value] * size, seen) for value in (low, high)]


def halved(noise: Noise) -> Noise:
    """Half the noise, with the claim that goes with it, so that it is drawn at all."""
    half = replace(noise, scale=noise.scale / 2)
    loss = measurement_of(half).map(noise.sensitivity)  # type: ignore[no-untyped-call]
    return replace(half, epsilon=loss if noise.mechanism == "laplace" else loss[0])


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_laplace_noise_has_its_epsilon_and_half_the_noise_has_not(epsilon: float, clipped: bool) -> None:
    noise = laplace_noise(epsilon=epsilon)
    found = observed_epsilon(*outputs(noise, clipped=clipped, size=10_000))
    assert 0.6 * epsilon < found <= epsilon
    assert observed_epsilon(*outputs(halved(noise), clipped=clipped, size=10_000)) > epsilon


def test_gaussian_noise_has_its_epsilon_and_half_the_noise_has_not() -> None:
    noise = gaussian_noise(epsilon=1.0, delta=0.01)
    assert observed_epsilon(*outputs(noise, size=20_000), delta=0.01) <= 1.0
    assert observed_epsilon(*outputs(halved(noise), size=20_000), delta=0.01) > 1.0


def test_values_out_of_range_tell_no_more_than_its_ends() -> None:
    noise = laplace_noise(epsilon=1.0)
    assert observed_epsilon(*outputs(noise, clipped=True, low=-1_000.0, high=1_000.0, size=10_000)) <= 1.0


@hypothesis_settings(max_examples=30)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20), scale=st.floats(0.01, 100))
def test_what_comes_out_is_within_the_range(values: list[float], scale: float) -> None:
    drawn = add_noise(values, laplace_noise(epsilon=1 / scale))
    assert len(drawn) == len(values)
    assert all(0 <= value <= 1 for value in drawn)


@hypothesis_settings(max_examples=200)
@given(epsilon=st.floats(1e-6, 1e6), sensitivity=st.integers(1, 1_000))
def test_the_scale_is_sensitivity_by_epsilon_and_never_a_rounding_less(epsilon: float, sensitivity: int) -> None:
    noise = laplace_noise(epsilon=epsilon, sensitivity=sensitivity)
    assert noise.scale == pytest.approx(sensitivity / epsilon, rel=1e-15)
    assert Fraction(sensitivity) / Fraction(noise.scale) <= Fraction(epsilon)
    assert within(measurement_of(noise), noise)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 0.01), (4.0, 1e-5)])
def test_gaussian_noise_is_hardly_more_than_the_analytic_mechanism_asks_for(epsilon: float, delta: float) -> None:
    """Balle and Wang 2018, theorem 8: the least σ of the continuous distribution."""
    sigma = gaussian_noise(epsilon=epsilon, delta=delta).scale

    def delta_of(scale: float) -> float:
        shift, bend = 1 / (2 * scale), epsilon * scale
        return float(norm.cdf(shift - bend) - np.exp(epsilon) * norm.cdf(-shift - bend))

    assert delta_of(sigma) <= delta
    assert delta_of(sigma / 1.25) > delta


def test_low_bits_do_not_betray_the_value() -> None:
    """Mironov's attack: 1 plus a double of noise is a multiple of 2**-53, which results of other values need not be."""
    noise = replace(laplace_noise(epsilon=1.0), lower=-1e9, upper=1e9)
    size, grid = 20_000, 2.0**53

    def on_the_grid(values: Sequence[float]) -> float:
        small = np.abs(np.array(values))
        small = small[small < 0.25]
        assert len(small) > 1_000
        return float((small * grid == np.floor(small * grid)).mean())

    naive = 1.0 + np.random.default_rng(0).laplace(size=size)
    assert on_the_grid(list(naive)) == 1.0
    assert all(on_the_grid(add_noise([value] * size, noise)) < 0.5 for value in (0.0, 1.0))


def test_two_draws_differ() -> None:
    noise = replace(laplace_noise(epsilon=1.0), lower=-1e9, upper=1e9)
    drawn = add_noise([0.5] * 100, noise) + add_noise([0.5] * 100, noise)
    assert len(set(drawn)) == 200


def test_noise_that_claims_more_than_it_keeps_is_not_drawn() -> None:
    noise = laplace_noise(epsilon=1.0)
    with pytest.raises(PoolError, match=r"scale 0.5 is not private to epsilon 1 .* nothing was drawn"):
        add_noise([0.5], replace(noise, scale=0.5))
    with pytest.raises(PoolError, match="nothing was drawn"):
        add_noise([0.5], replace(gaussian_noise(epsilon=1.0, delta=1e-6), delta=1e-9))


@pytest.mark.parametrize("number", [0.0, -1.0, float("inf"), float("nan")])
def test_parameters_out_of_bounds_are_refused(number: float) -> None:
    with pytest.raises(PoolError, match="cannot be made with epsilon"):
        laplace_noise(epsilon=number)
    with pytest.raises(PoolError, match="cannot be made with sensitivity"):
        gaussian_noise(epsilon=1.0, delta=0.1, sensitivity=number)
    with pytest.raises(PoolError, match="delta above 0 and below 1"):
        gaussian_noise(epsilon=1.0, delta=number)
