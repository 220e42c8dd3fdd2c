"""Alerts of a real pool: what its ledger says at a moment."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from flywheel.pool.alerts import alerts, readings
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.halts import halt_on_violations
from flywheel.pool.health import Alert, Mean
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import place_hot
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
Fields = Callable[[int], dict[str, Any]]
UNTOOLED = {"toolCallCount": 0, "toolsUsed": [], "tokensUsed": 50}


def fill(pool: BenchmarkPool, count: int, *, at: datetime = NOON, fields: Fields = lambda _: {}) -> None:
    """Some tasks of a day from a moment on, a minute each, through the pool."""
    name = f"{at:%m%d%H%M}"
    logs: list[Log] = []
    for number in range(count):
        logs += task_logs(f"{name}-{number}", at=at + timedelta(minutes=number), **fields(number))
    write_segment(pool.settings, name, logs, written_at=at + DAY)
    index_segments(pool, now=at + DAY)
    day = at.date()
    validate_day(pool, day, now=at + DAY)
    anonymize_day(pool, day)
    if not find_violations(pool, day).count:
        place_hot(pool, day, now=at + DAY)
    refresh_statistics(pool, day)


def found(pool: BenchmarkPool, now: datetime) -> dict[str, Alert]:
    return {alert.key: alert for alert in alerts(pool, now=now)}


def test_an_empty_pool_and_one_that_just_began_are_well(pool: BenchmarkPool) -> None:
    assert alerts(pool, now=NOON) == ()
    fill(pool, 200)
    for hours in range(24):
        assert alerts(pool, now=NOON + timedelta(hours=hours)) == ()


def test_a_silent_hour_is_told_once_it_has_settled_and_not_for_ever(pool: BenchmarkPool) -> None:
    fill(pool, 10)
    fill(pool, 9, at=NOON + DAY)
    ends = NOON + DAY + timedelta(hours=1)
    assert found(pool, ends + timedelta(minutes=14)) == {}
    alert = found(pool, ends + timedelta(minutes=15))["volume"]
    assert (alert.since, alert.severity) == (NOON + DAY, "warning")
    assert alert.message.startswith("9 points in the hour from 2026-03-03 12:00 UTC, at least 10 expected")
    assert found(pool, ends + timedelta(hours=1, minutes=15)) == {}  # the hour before had none at this time
    for weeks in range(1, 5):
        assert "volume" in found(pool, NOON + weeks * WEEK + timedelta(hours=1, minutes=15))
    assert found(pool, NOON + 5 * WEEK + timedelta(hours=1, minutes=15)) == {}  # nobody feeds the pool any more


def test_few_points_an_hour_are_told_for_four_weeks_also_behind_an_outage(pool: BenchmarkPool) -> None:
    """Ten points an hour until Monday noon, nothing for five days, then three an hour for ever."""
    points = [10] * 7 * 24 + [0] * 5 * 24 + [3] * 35 * 24
    with pool.transaction() as connection:
        for number, tasks in enumerate(points):
            if tasks:
                hour = NOON + timedelta(hours=number)
                connection.execute(
                    "INSERT INTO agent_statistics VALUES (%s, 'a', 'research', %s, %s, 0, %s, 1, 1, 0, 0, 0)",
                    (hour, hour.date(), tasks, float(tasks)),
                )
    fell = NOON + WEEK
    told = {
        hours: "volume" in found(pool, fell + timedelta(hours=hours + 1, minutes=15))
        for hours in range(-24, 29 * 24, 13)
    }
    assert told == {hours: 0 <= hours < 28 * 24 for hours in told}


def test_ten_points_in_the_hour_are_enough(pool: BenchmarkPool) -> None:
    fill(pool, 10)
    fill(pool, 10, at=NOON + DAY)
    assert found(pool, NOON + DAY + timedelta(hours=1, minutes=15)) == {}


def test_failures_are_counted_in_tasks_of_the_days_validated_in_the_window(pool: BenchmarkPool) -> None:
    fill(pool, 100, fields=lambda number: {"toolCallCount": 5} if number < 10 else {})
    now = NOON + DAY + timedelta(hours=1)
    assert found(pool, now) == {}
    fill(pool, 100, at=NOON + DAY, fields=lambda number: {"toolCallCount": 5} if number < 11 else {})
    now = NOON + 2 * DAY + timedelta(hours=1)
    assert "11 of 100 tasks" in found(pool, now)["validation_failures"].message
    assert found(pool, now + DAY) == {}


def test_a_halt_is_an_alert_until_it_is_lifted(pool: BenchmarkPool) -> None:
    fill(pool, 1, fields=lambda _: {"agent": "ann.lee@example.org"})
    halt_on_violations(pool, NOON.date(), now=NOON + DAY)
    alert = found(pool, NOON + 9 * DAY)["privacy"]
    assert (alert.severity, alert.since) == ("critical", NOON + DAY)
    assert "flywheel pool lift 2026-03-02" in alert.message


def test_quality_and_tool_adoption_are_compared_with_the_days_before_the_window(pool: BenchmarkPool) -> None:
    for days in range(2):
        fill(pool, 100, at=NOON + days * DAY)
    worse = NOON + 2 * DAY
    fill(pool, 100, at=worse, fields=lambda number: {"overallScore": 0.55, **(UNTOOLED if number % 2 else {})})
    now = worse + timedelta(hours=3)
    active = found(pool, now)
    assert {"quality_drop", "tool_adoption_drop"} <= set(active)
    assert "mean quality is 0.550 over 100 tasks" in active["quality_drop"].message
    assert "42.1% below the 0.950 of 100 before" in active["quality_drop"].message  # the day between is in neither
    assert "tool adoption is 0.500" in active["tool_adoption_drop"].message


def test_windows_and_earlier_periods_are_of_the_hours_that_they_say(pool: BenchmarkPool) -> None:
    ages = {0: 1, 1: 2, 6: 4, 7: 8, 8: 16, 37: 32, 38: 64, 67: 128, 68: 256, 97: 512, 98: 1024}  # days: tasks
    with pool.transaction() as connection:
        for age, tasks in ages.items():
            hour = NOON - timedelta(hours=1) - age * DAY
            connection.execute(
                "INSERT INTO agent_statistics VALUES (%s, 'a', 'research', %s, %s, 0, %s, 1, 1, %s, 0, 0)",
                (hour, hour.date(), tasks, tasks * 0.75, tasks // 2),
            )
        read = readings(connection, pool.settings.health, now=NOON)
    assert [window.mean.tasks for window in read.quality.windows] == [1, 7]
    assert [window.since for window in read.quality.windows] == [NOON - DAY, NOON - 7 * DAY]
    # The day that the week begins in is partly in it, and so in no period.
    assert [earlier.tasks for earlier in read.quality.earlier] == [16 + 32, 64 + 128, 256 + 512]
    assert read.quality.earlier[0].value == 0.75
    assert [earlier.total for earlier in read.adoption.earlier] == [24, 96, 384]


def test_what_was_counted_by_an_older_version_is_left_out(pool: BenchmarkPool) -> None:
    fill(pool, 60)
    with pool.transaction() as connection:
        connection.execute("UPDATE agent_statistics SET tool_tasks = NULL, reward_sum = NULL, reward_square_sum = NULL")
        read = readings(connection, pool.settings.health, now=NOON + 3 * DAY)
    assert [earlier.tasks for earlier in read.quality.earlier] == [60]
    assert read.adoption.earlier == (Mean(0, 0.0),)
    assert read.rewards == ()


def test_rewards_are_judged_by_whole_blocks_against_earlier_hours(pool: BenchmarkPool) -> None:
    noisy: Fields = lambda number: {"overallScore": 0.8 + 0.02 * (number % 5)}  # noqa: E731
    fill(pool, 130, fields=noisy)
    fill(pool, 60, at=NOON + DAY, fields=noisy)
    with pool.transaction() as connection:
        (read,) = readings(connection, pool.settings.health, now=NOON + 2 * DAY).rewards
    assert (read.task_type, read.block.tasks) == ("tool-calling", 50)
    assert read.since == NOON + timedelta(minutes=100)  # points 101–150 of 190
    assert read.earlier == 60  # of the hours before the block's first
    assert round(read.mean, 9) == 0.84
    fill(pool, 60, at=NOON + DAY + timedelta(hours=4), fields=lambda _: {"overallScore": 0.9})
    alert = found(pool, NOON + 2 * DAY)["reward_drift of tool-calling"]
    assert "the mean reward of the last 50 points of tool-calling is 0.900, of the " in alert.message
    assert "z = +" in alert.message


def test_at_the_end_of_a_day_its_blocks_are_those_before_the_next_days_points(pool: BenchmarkPool) -> None:
    fill(pool, 160)
    midnight = (NOON + DAY).replace(hour=0)

    def block() -> tuple[int, datetime]:
        with pool.transaction() as connection:
            (read,) = readings(connection, pool.settings.health, now=midnight).rewards
        return read.block.tasks, read.since

    assert block() == (50, NOON + timedelta(minutes=100))  # points 101-150 of 160
    fill(pool, 7, at=midnight)
    assert block() == (50, NOON + timedelta(minutes=100))


def test_a_moment_of_the_past_is_judged_as_it_was(pool: BenchmarkPool) -> None:
    for days in range(3):
        fill(pool, 100, at=NOON + days * DAY)
    fill(pool, 100, at=NOON + 3 * DAY, fields=lambda _: {"overallScore": 0.5})
    worse = date(2026, 3, 5)
    assert "quality_drop" in found(pool, datetime.combine(worse, NOON.timetz()) + DAY / 2)
    assert "quality_drop" not in found(pool, datetime.combine(worse, NOON.timetz()) - DAY / 2)


def test_a_server_in_another_zone_changes_nothing(pool: BenchmarkPool) -> None:
    fill(pool, 130)
    fill(pool, 9, at=NOON + DAY)
    halt_on_violations(pool, NOON.date(), now=NOON)
    limits = pool.settings.health
    with pool.transaction() as connection:
        here = readings(connection, limits, now=NOON + DAY + timedelta(hours=2))
        connection.execute("SET LOCAL TIME ZONE 'Asia/Kathmandu'")
        assert readings(connection, limits, now=NOON + DAY + timedelta(hours=2)) == here
