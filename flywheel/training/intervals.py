"""Confidence intervals of evaluation figures. Pure."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from msgspec import Struct


class Interval(Struct, frozen=True, kw_only=True):
    """An estimate with its interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def wilson(successes: float, trials: int, *, confidence: float) -> Interval:
    """A proportion with Wilson's score interval (Wilson 1927), which holds near 0 and 1 too.

    Raises:
        ValueError: there are no trials.
    """
    if trials < 1:
        raise ValueError("a proportion of no trials has no interval")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / trials
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    margin = z / (1 + z**2 / trials) * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    return Interval(value=share, low=max(0.0, centre - margin), high=min(1.0, centre + margin))


def difference(first: tuple[float, int], second: tuple[float, int], *, confidence: float) -> Interval:
    """The second proportion minus the first, each as (successes, trials), of different tasks.

    Newcombe's interval (1998, method 10), which is made of Wilson's and holds near 0 and 1 too.

    Raises:
        ValueError: one of them has no trials.
    """
    a, b = wilson(*first, confidence=confidence), wilson(*second, confidence=confidence)
    value = b.value - a.value
    below, above = math.hypot(b.value - b.low, a.high - a.value), math.hypot(b.high - b.value, a.value - a.low)
    return Interval(value=value, low=value - below, high=value + above)


def mean_interval(values: Sequence[float], *, confidence: float) -> Interval:
    """A mean with its normal interval. One value per task: several answers to one task are averaged before.

    Raises:
        ValueError: there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"a mean of {len(values)} values has no interval")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    margin = z * stdev(values) / math.sqrt(len(values))
    return Interval(value=fmean(values), low=fmean(values) - margin, high=fmean(values) + margin)


def paired_difference(before: Sequence[float], after: Sequence[float], *, confidence: float) -> Interval:
    """Mean of ``after - before`` over the same tasks in the same order, with its interval."""
    return mean_interval([b - a for a, b in zip(before, after, strict=True)], confidence=confidence)
