"""The readings that alerts are judged by, out of PostgreSQL alone and as the ledger stood at one moment."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import sqrt
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.halts import read_open_halts
from flywheel.pool.health import Alert, Course, Failures, Mean, Readings, Rewards, Volume, Window, judge_health
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.settings import HealthSettings
from flywheel.records import utc_day

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
WEEKS = 4  # in which an hour tells what is usual
PERIODS = 3  # a decline over a month is seen against the month before it, and called until a third one has passed


def alerts(pool: BenchmarkPool, *, now: datetime) -> tuple[Alert, ...]:
    """Every alert that is active at this moment, in the order of ``flywheel.pool.health.ALARMS``.

    Raises:
        DatabaseError: PostgreSQL cannot be used, which is not the same as a pool that is well.
    """
    limits = pool.settings.health
    with pool.transaction() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return judge_health(readings(connection, limits, now=now), limits)


def readings(connection: Connection[Any], limits: HealthSettings, *, now: datetime) -> Readings:
    """What the alerts judge. Nothing later than ``now`` is looked at, so that a moment of the past can be judged."""
    quality, adoption = courses(connection, limits, now=now)
    violations, since = privacy_violations(connection)
    return Readings(
        halts=read_open_halts(connection),
        violations=violations,
        violations_since=since,
        volume=volume(connection, limits, now=now),
        failures=failures(connection, limits, now=now),
        quality=quality,
        adoption=adoption,
        rewards=rewards(connection, limits, now=now),
    )


def full_hour(moment: datetime) -> datetime:
    """The start of the UTC hour that the moment is in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def volume(connection: Connection[Any], limits: HealthSettings, *, now: datetime) -> Volume:
    """Points of the last full hour that ended at least ``settle_minutes`` ago."""
    hour = full_hour(now - timedelta(minutes=limits.settle_minutes)) - HOUR
    found = connection.execute(
        "SELECT hour, sum(tasks) FROM agent_statistics WHERE hour BETWEEN %s AND %s AND tasks > 0 GROUP BY hour",
        (hour - WEEKS * WEEK, hour),
    )
    points = {at.astimezone(UTC): int(tasks) for at, tasks in found}
    older = connection.execute("SELECT 1 FROM agent_statistics WHERE hour <= %s LIMIT 1", (hour - WEEK,)).fetchone()
    before = [7 * weeks for weeks in range(1, WEEKS + 1)] if older else range(1, 7)
    return Volume(
        hour=hour,
        points=points.get(hour, 0),
        before={days: points.get(hour - days * DAY, 0) for days in before},
        last_hour=max(points, default=None),
    )


def failures(connection: Connection[Any], limits: HealthSettings, *, now: datetime) -> Failures:
    """Tasks of the days that were validated in the window, whichever days those are."""
    start = now - timedelta(hours=limits.window_hours)
    row = connection.execute(
        "SELECT coalesce(sum(points), 0), coalesce(sum((report->>'quarantined_tasks')::bigint), 0), min(validated_at)"
        " FROM days WHERE validated_at > %s AND validated_at <= %s AND report IS NOT NULL",
        (start, now),
    ).fetchone()
    assert row is not None
    points, failed, since = row
    first = start if since is None else since.astimezone(UTC)
    return Failures(judged=int(points) + int(failed), failed=int(failed), since=first)


def privacy_violations(connection: Connection[Any]) -> tuple[int, datetime | None]:
    """Violations that the last checks found in points that are still there, and since when their days are so."""
    row = connection.execute(
        "SELECT coalesce(sum(privacy_violations), 0), min(coalesce(validated_at, changed_at)) FROM days"
        " WHERE privacy_violations > 0 AND points_removed_at IS NULL"
    ).fetchone()
    assert row is not None
    return int(row[0]), None if row[1] is None else row[1].astimezone(UTC)


MEANS = """
SELECT (hour AT TIME ZONE 'UTC')::date AS date, hour >= %(day)s AS in_day, hour >= %(week)s AS in_week,
    sum(tasks), sum(quality_sum), sum(tasks) FILTER (WHERE tool_tasks IS NOT NULL), sum(tool_tasks)
FROM agent_statistics WHERE hour >= %(first)s AND hour < %(now)s GROUP BY 1, 2, 3
"""


def courses(connection: Connection[Any], limits: HealthSettings, *, now: datetime) -> tuple[Course, Course]:
    """Quality and tool adoption: over the last hours, the last week, and whole UTC days before them."""
    day = full_hour(now) - timedelta(hours=limits.window_hours)
    week = min(full_hour(now) - WEEK, day)
    first = week.replace(hour=0) - PERIODS * timedelta(days=limits.baseline_days)
    rows = connection.execute(MEANS, {"day": day, "week": week, "first": first, "now": now}).fetchall()
    quality = [Part(row[0], row[1], row[2], Mean(int(row[3]), row[4])) for row in rows]
    adoption = [Part(row[0], row[1], row[2], Mean(int(row[5] or 0), float(row[6] or 0))) for row in rows]
    return course(quality, day, week, limits), course(adoption, day, week, limits)


class Part(Struct, frozen=True):
    """Tasks of one UTC day, and whether they are in the windows."""

    date: date
    in_day: bool
    in_week: bool
    mean: Mean


def course(parts: Sequence[Part], day: datetime, week: datetime, limits: HealthSettings) -> Course:
    """The windows that begin at ``day`` and ``week``, and three periods of ``baseline_days`` before both.

    A pool that is too young for the week has as its one period the days before the shorter window.
    """
    last_day = Window(mean_of(part for part in parts if part.in_day), day)
    last_week = Window(mean_of(part for part in parts if part.in_week), week)
    periods = [
        mean_of(
            part for part in parts if (week.date() - part.date).days - 1 in range(start, start + limits.baseline_days)
        )
        for start in range(0, PERIODS * limits.baseline_days, limits.baseline_days)
    ]
    earlier = tuple(period for period in periods if period.tasks >= limits.min_tasks)
    if earlier:
        return Course(windows=(last_day, last_week), earlier=earlier)
    return Course(windows=(last_day,), earlier=(mean_of(part for part in parts if part.date < day.date()),))


def mean_of(parts: Iterable[Part]) -> Mean:
    """The mean over all of them."""
    total = Mean()
    for part in parts:
        total = total.and_of(part.mean)
    return total


BLOCKS = """
SELECT types.task_type, count(*), sum(block.total_reward), min(block.timestamp)
FROM (
    SELECT task_type, sum(points)::bigint AS points FROM task_type_profiles WHERE day <= %(day)s GROUP BY task_type
) AS types
CROSS JOIN LATERAL (
    SELECT total_reward, timestamp FROM hot_points
    WHERE hot_points.task_type = types.task_type AND timestamp < %(now)s
    ORDER BY timestamp DESC, id DESC LIMIT %(size)s OFFSET types.points %% %(size)s
) AS block
GROUP BY types.task_type ORDER BY types.task_type
"""
EARLIER = """
SELECT blocks.task_type, sum(tasks), sum(reward_sum), sum(reward_square_sum)
FROM unnest(%(types)s::text[], %(hours)s::timestamptz[]) AS blocks (task_type, block_hour)
JOIN agent_statistics ON agent_statistics.task_type = blocks.task_type
    AND hour < block_hour AND hour >= block_hour - %(past)s AND reward_sum IS NOT NULL
WHERE hour >= %(first)s
GROUP BY blocks.task_type
"""


def rewards(connection: Connection[Any], limits: HealthSettings, *, now: datetime) -> tuple[Rewards, ...]:
    """Each task type's newest whole block in the hot tier, with the ``baseline_days`` before its first hour.

    Blocks are counted by whole days: at the end of a day, or now, they end where the type's points do.
    """
    day = utc_day(now - timedelta(microseconds=1))  # at a day's end that day, not the next one
    blocks = connection.execute(BLOCKS, {"day": day, "now": now, "size": limits.drift_points}).fetchall()
    hours = [full_hour(block[3]) for block in blocks]
    past = timedelta(days=limits.baseline_days)
    first = min(hours, default=now) - past
    earlier = {
        task_type: (int(tasks), total, squares)
        for task_type, tasks, total, squares in connection.execute(
            EARLIER, {"types": [block[0] for block in blocks], "hours": hours, "past": past, "first": first}
        )
    }
    return tuple(
        Rewards(
            task_type=task_type,
            since=since.astimezone(UTC),
            block=Mean(points, total),
            earlier=earlier[task_type][0],
            mean=earlier[task_type][1] / earlier[task_type][0],
            deviation=deviation(*earlier[task_type]),
        )
        for task_type, points, total, since in blocks
        if task_type in earlier
    )


def deviation(count: int, total: float, squares: float) -> float:
    """The standard deviation of a sample from its sums; 0 of fewer than two."""
    return sqrt(max(squares - total * total / count, 0.0) / (count - 1)) if count > 1 else 0.0
