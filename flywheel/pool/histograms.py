"""Histograms on a logarithmic scale: small, exact to sum, good for percentiles of what spans orders of magnitude.

A bucket spans 5 % (the relative error of a percentile), after Masson, Rim and Lee, "DDSketch" (VLDB 2019). They
are kept per day and summed over days, which percentiles themselves cannot be.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, log

GROWTH = 1.05
LOG_GROWTH = log(GROWTH)
BELOW_ONE = "0"

Histogram = Mapping[str, int]  # bucket number as JSON's keys are: text


def bucket_of(value: float) -> str:
    """The bucket of a value ≥ 0; all values up to 1 share one."""
    return BELOW_ONE if value <= 1 else str(ceil(log(value) / LOG_GROWTH))


def histogram(values: Iterable[float]) -> dict[str, int]:
    """Counts by bucket."""
    return dict(Counter(bucket_of(value) for value in values))


def merged(histograms: Iterable[Histogram]) -> dict[str, int]:
    """The histogram of all values together."""
    total: Counter[str] = Counter()
    for one in histograms:
        total.update(one)
    return dict(total)


def percentile(counts: Histogram, share: float) -> float:
    """The upper edge of the bucket that holds the percentile: at most 5 % above it. ``share`` is 0–1.

    Raises:
        ValueError: the histogram is empty.
    """
    needed = share * sum(counts.values())
    seen = 0
    for bucket in sorted(counts, key=int):
        seen += counts[bucket]
        if seen >= needed:
            return float(GROWTH ** int(bucket))
    raise ValueError("an empty histogram has no percentile")
