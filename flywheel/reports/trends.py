"""Whether a daily figure gets better, worse or neither, and the test that says so. Pure.

The test is Mann's (1945; Kendall 1975): Kendall's τ between the days and their figures. It asks nothing of how the
figures are distributed, so that it serves rates, scores and times alike, and one wild day does not decide it.
"""

from collections.abc import Mapping
from datetime import date
from typing import Literal

from msgspec import Struct

Direction = Literal["improving", "stable", "degrading"]
TEST = "Mann-Kendall"
LEAST_DAYS = 8
"""Of fewer days hardly any course is beyond chance."""
ERROR_RATE = 0.01
"""How often a figure that does not change is called improving or degrading on any one day."""


class Trend(Struct, frozen=True, kw_only=True):
    """The course of a figure over ``days`` with tasks; None but for these where they are fewer than ``LEAST_DAYS``.

    ``change_per_day`` is the median of the slopes between all pairs of days (Theil 1950, Sen 1968), in the figure's
    unit. ``tau`` is within −1 and 1, ``p_value`` two-sided.
    """

    direction: Direction | None
    days: int
    change_per_day: float | None = None
    tau: float | None = None
    p_value: float | None = None
    test: str = TEST


def trend_of(figures: Mapping[date, float], *, higher_is_better: bool) -> Trend:
    """The trend of a figure by day; days without one are not in it, and not taken for zeros."""
    days = sorted(figures)
    if len(days) < LEAST_DAYS:
        return Trend(direction=None, days=len(days))
    from scipy.stats import kendalltau, theilslopes  # type: ignore[import-untyped]

    values = [figures[day] for day in days]
    if len(set(values)) == 1:  # τ of equal values is none
        return Trend(direction="stable", days=len(days), change_per_day=0.0, tau=0.0, p_value=1.0)
    times = [day.toordinal() for day in days]
    found = kendalltau(times, values)
    tau, p_value = float(found.statistic), float(found.pvalue)
    direction: Direction = "stable"
    if p_value < ERROR_RATE:
        direction = "improving" if (tau > 0) == higher_is_better else "degrading"
    slope = float(theilslopes(values, times).slope)
    return Trend(direction=direction, days=len(days), change_per_day=slope, tau=tau, p_value=p_value)
