"""Drops of quality and tool adoption: false alarms are rare, and falls that last are called. By seeded simulation."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from flywheel.pool.health import Course, Mean, Window, drop
from flywheel.pool.settings import HealthSettings

LIMITS = HealthSettings()
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
DAY, WEEK, MONTH = 24, 7 * 24, 30 * 24  # hours
PAST = 3 * MONTH + WEEK + DAY  # what is known before the first look
POOLS = 20


class Pools:
    """Some pools that do as many tasks a day, of which a fraction by day counts; known by the hour."""

    def __init__(self, fractions: np.ndarray, *, tasks_a_day: int, seed: int = 20260302) -> None:
        chance = np.random.default_rng(seed)
        tasks = chance.poisson(tasks_a_day / DAY, (POOLS, len(fractions) * DAY))
        self.tasks = summed(tasks)
        self.counted = summed(chance.binomial(tasks, np.repeat(fractions, DAY)))

    def mean(self, pool: int, first: int, end: int) -> Mean:
        tasks, counted = (int(sums[pool, end] - sums[pool, first]) for sums in (self.tasks, self.counted))
        return Mean(tasks, float(counted))

    def course(self, pool: int, hour: int) -> Course:
        """As ``flywheel.pool.alerts.courses`` reads it."""
        last = (hour - WEEK) // DAY * DAY
        return Course(
            windows=tuple(
                Window(self.mean(pool, hour - hours, hour), BEGAN + timedelta(hours=hour - hours))
                for hours in (DAY, WEEK)
            ),
            earlier=tuple(self.mean(pool, last - (n + 1) * MONTH, last - n * MONTH) for n in range(3)),
        )

    def alarms(self, hours: range, limits: HealthSettings = LIMITS) -> np.ndarray:
        """Whether it calls, by pool and hour."""
        return np.array([[any(drop("it", self.course(pool, hour), limits)) for hour in hours] for pool in range(POOLS)])


def summed(counts: np.ndarray) -> np.ndarray:
    """What came before each hour."""
    return np.concatenate([np.zeros((len(counts), 1), int), counts.cumsum(1)], 1)


@pytest.mark.parametrize(("fraction", "tasks_a_day"), [(0.1, 500), (0.8, 100), (0.8, 10)])
def test_a_steady_pool_raises_hardly_a_false_alarm(fraction: float, tasks_a_day: int) -> None:
    """Looked at every hour, over five years in all; the limit that drift has would raise several a year."""
    pools = Pools(np.full(PAST // DAY + 90, fraction), tasks_a_day=tasks_a_day)
    hours = range(PAST, PAST + 90 * DAY)
    alarms = pools.alarms(hours)
    begun = int((alarms[:, 1:] & ~alarms[:, :-1]).sum())
    assert begun <= 5  # about one a year and quantity
    assert alarms.mean() < 0.002
    loose = pools.alarms(range(PAST, PAST + 90 * DAY, 6), HealthSettings(drop_z=3))
    assert loose.mean() > alarms.mean()


FALLS = {
    "quality of 100 tasks a day falls by an eighth": (0.8, 0.7, 100),
    "adoption at the design point falls to 6 %": (0.1, 0.06, 500),
    "quality of a few tasks a day falls": (0.8, 0.5, 15),
}


@pytest.mark.parametrize("fall", FALLS)
def test_a_fall_that_lasts_is_called_within_ten_days_and_for_two_months(fall: str) -> None:
    before, after, tasks_a_day = FALLS[fall]
    fell = PAST // DAY
    pools = Pools(np.r_[np.full(fell, before), np.full(60, after)], tasks_a_day=tasks_a_day)
    called = pools.alarms(range(PAST, PAST + 60 * DAY, 6))
    assert np.mean(called[:, : 10 * 4].any(axis=1)) >= 0.95
    assert called[:, 14 * 4 :].mean() > 0.8


def test_a_decline_by_an_eighth_over_a_month_is_called() -> None:
    fell = PAST // DAY
    course = np.r_[np.full(fell, 0.8), 0.8 * (1 - 0.125 * np.arange(1, 31) / 30), np.full(30, 0.7)]
    called = Pools(course, tasks_a_day=500).alarms(range(PAST, PAST + 60 * DAY, 6))
    assert np.mean(called[:, : 37 * 4].any(axis=1)) >= 0.95
    assert called[:, 37 * 4 :].mean() > 0.9


def test_a_fall_that_ends_is_called_no_longer_than_a_week() -> None:
    fell = PAST // DAY
    course = np.r_[np.full(fell, 0.8), np.full(10, 0.6), np.full(30, 0.8)]
    called = Pools(course, tasks_a_day=500).alarms(range(PAST, PAST + 40 * DAY, 6))
    assert called[:, 2 * 4 : 10 * 4].all()
    assert not called[:, 17 * 4 :].any()
