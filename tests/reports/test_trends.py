"""A trend is called by a test, and rarely where there is none."""

import random
from datetime import date, timedelta

import pytest

from flywheel.reports.trends import ERROR_RATE, LEAST_DAYS, Trend, trend_of

FIRST = date(2026, 3, 2)


def by_day(*values: float | None) -> dict[date, float]:
    return {FIRST + timedelta(days=number): value for number, value in enumerate(values) if value is not None}


def test_what_rises_improves_and_what_falls_degrades() -> None:
    rising = by_day(*(0.5 + 0.01 * number for number in range(14)))
    found = trend_of(rising, higher_is_better=True)
    assert (found.direction, found.days) == ("improving", 14)
    assert found.tau == pytest.approx(1.0)
    assert found.change_per_day == pytest.approx(0.01)
    assert found.p_value is not None
    assert found.p_value < ERROR_RATE
    assert trend_of({day: -value for day, value in rising.items()}, higher_is_better=True).direction == "degrading"


def test_of_a_latency_less_is_better() -> None:
    assert trend_of(by_day(*range(900, 0, -50)), higher_is_better=False).direction == "improving"


def test_what_is_always_the_same_is_stable() -> None:
    assert trend_of(by_day(*[1.0] * 20), higher_is_better=True) == Trend(
        direction="stable", days=20, change_per_day=0.0, tau=0.0, p_value=1.0
    )


def test_one_wild_day_decides_nothing() -> None:
    assert trend_of(by_day(*[400.0, 410.0] * 10, 90_000.0), higher_is_better=False).direction == "stable"


def test_of_a_few_days_nothing_is_said() -> None:
    assert trend_of(by_day(*(0.1 * number for number in range(LEAST_DAYS - 1))), higher_is_better=True) == Trend(
        direction=None, days=LEAST_DAYS - 1
    )


def test_days_without_tasks_are_no_zeros() -> None:
    found = trend_of(by_day(0.9, None, 0.9, None, 0.9, 0.9, 0.9, None, 0.9, 0.9, 0.9, None), higher_is_better=True)
    assert (found.direction, found.days) == ("stable", 8)


def test_steady_rates_are_called_a_trend_as_rarely_as_is_said() -> None:
    dice = random.Random(7)
    called = 0
    for _ in range(600):
        rates = [sum(dice.random() < 0.8 for _ in range(40)) / 40 for _ in range(28)]
        called += trend_of(by_day(*rates), higher_is_better=True).direction != "stable"
    assert called <= 13  # 600 times 1 %: 6, and three standard errors


def test_a_fall_of_ten_points_in_four_weeks_of_200_tasks_a_day_is_found() -> None:
    dice = random.Random(7)
    found = 0
    for _ in range(100):
        rates = [sum(dice.random() < 0.8 - 0.1 * day / 27 for _ in range(200)) / 200 for day in range(28)]
        found += trend_of(by_day(*rates), higher_is_better=True).direction == "degrading"
    assert found >= 80
