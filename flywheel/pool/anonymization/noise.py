"""Laplace and Gaussian noise with a stated ε: the mechanisms of differential privacy, clipped to a range.

Drawn by opendp, which samples the discrete distributions of Canonne, Kamath and Steinke ("The Discrete Gaussian for
Differential Privacy", 2020) exactly, in integers, from the operating system's generator, on a grid as fine as doubles
are. The sum of a double and a double of noise would have low bits that betray the value (Mironov, "On Significance of
the Least Significant Bits for Differential Privacy", 2012); these results have none. Nothing here can be seeded.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import inf, isfinite, nextafter
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from flywheel.errors import QueryError

if TYPE_CHECKING:
    from opendp.mod import Measurement

Mechanism = Literal["laplace", "gaussian"]


class Noise(Struct, frozen=True, kw_only=True):
    """A mechanism with its guarantee; ``laplace_noise`` and ``gaussian_noise`` make it.

    Attributes:
        mechanism: which distribution.
        epsilon: of one draw for all values, ε > 0.
        delta: δ of the same, 0 for Laplace.
        sensitivity: how far the clipped values of two neighbouring inputs can be apart: the sum of the differences for
            Laplace, the root of the sum of their squares for Gaussian.
        scale: b = sensitivity / ε for Laplace, the standard deviation σ for Gaussian, in units of the values.
        lower: values are clipped to here before the noise comes, which bounds the sensitivity, and after it.
        upper: the other end.
    """

    mechanism: Mechanism
    epsilon: float
    delta: float
    sensitivity: float
    scale: float
    lower: float = 0.0
    upper: float = 1.0


def laplace_noise(*, epsilon: float, sensitivity: float = 1.0) -> Noise:
    """Laplace noise of scale b = sensitivity / ε, which is (ε, 0)-differentially private (Dwork et al. 2006).

    Raises:
        QueryError: ε or the sensitivity is not above 0, or too small for a finite scale.
    """
    check_positive(epsilon=epsilon, sensitivity=sensitivity)
    scale = sensitivity / epsilon
    check_positive(scale=scale)
    while Fraction(sensitivity) / Fraction(scale) > Fraction(epsilon):  # the division was rounded to too little noise
        scale = nextafter(scale, inf)
    return Noise(mechanism="laplace", epsilon=epsilon, delta=0.0, sensitivity=sensitivity, scale=scale)


def gaussian_noise(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> Noise:
    """Gaussian noise that is (ε, δ)-differentially private: the least σ whose zero-concentrated ρ = (Δ/σ)²/2 is.

    The bound is opendp's, of Canonne, Kamath and Steinke (2020); it holds for the discrete distribution that is drawn.
    The analytic calibration of Balle and Wang (2018) is for the continuous one; its σ is 7 % less at ε = 1, δ = 1e-6.

    Raises:
        QueryError: ε, δ or the sensitivity is out of bounds.
    """
    check_positive(epsilon=epsilon, sensitivity=sensitivity)
    if not 0 < delta < 1:
        raise QueryError(f"Gaussian noise needs a delta above 0 and below 1, not {delta:g}; take 1e-6 or less")
    scale = library().binary_search_param(
        lambda sigma: gaussian_measurement(sigma, delta),
        d_in=float(sensitivity),
        d_out=(float(epsilon), float(delta)),
        T=float,
    )
    return Noise(mechanism="gaussian", epsilon=epsilon, delta=delta, sensitivity=sensitivity, scale=scale)


def check_positive(**numbers: float) -> None:
    """Hold parameters against what noise can be made of.

    Raises:
        QueryError: one is not a number above 0.
    """
    for name, number in numbers.items():
        if not (isfinite(number) and number > 0):
            raise QueryError(f"noise cannot be made with {name} {number:g}; it must be above 0")


def add_noise(values: Sequence[float], noise: Noise) -> list[float]:
    """The values, clipped, each with noise of its own, and clipped again: clipping what is noised costs no privacy.

    Raises:
        QueryError: the scale is too small for what the noise claims, so nothing is drawn.
    """
    measurement = measurement_of(noise)
    if not within(measurement, noise):
        raise QueryError(
            f"{noise.mechanism} noise of scale {noise.scale:g} is not private to epsilon {noise.epsilon:g} and "
            f"delta {noise.delta:g} at sensitivity {noise.sensitivity:g}; nothing was drawn"
        )
    drawn: list[float] = measurement([clipped(value, noise) for value in values])
    return [clipped(value, noise) for value in drawn]


def clipped(value: float, noise: Noise) -> float:
    """The nearest value within the noise's range."""
    return min(max(value, noise.lower), noise.upper)


def within(measurement: "Measurement", noise: Noise) -> bool:
    """Whether the library's own proof gives what the noise claims."""
    loss = measurement.map(float(noise.sensitivity))  # type: ignore[no-untyped-call]
    epsilon, delta = (loss, 0.0) if noise.mechanism == "laplace" else loss
    return bool(epsilon <= noise.epsilon and delta <= noise.delta)


def measurement_of(noise: Noise) -> "Measurement":
    """The mechanism as opendp has it."""
    if noise.mechanism == "gaussian":
        return gaussian_measurement(noise.scale, noise.delta)
    dp = library()
    made: Measurement = dp.m.make_laplace(vectors(), dp.l1_distance(T=float), scale=noise.scale)
    return made


def gaussian_measurement(sigma: float, delta: float) -> "Measurement":
    """Gaussian noise whose loss is told as ε at this δ."""
    dp = library()
    concentrated = dp.m.make_gaussian(vectors(), dp.l2_distance(T=float), scale=sigma)
    made: Measurement = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(concentrated), delta=delta)
    return made


def vectors() -> object:
    """Lists of doubles without a NaN."""
    dp = library()
    return dp.vector_domain(dp.atom_domain(T=float, nan=False))


@cache
def library() -> ModuleType:
    """opendp, imported where noise is drawn: it takes seconds. Its noise counts as contributed: proven, not vetted."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
