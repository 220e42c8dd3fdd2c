"""Intake: every line of every closed segment is assigned to a day, once.

A task's day is the UTC day of the earliest timestamp among its known logs, so all its lines are in one partition,
whatever their order and wherever midnight falls. When an earlier log arrives late the task moves, and both days are
out of date. A line without a readable task or time belongs to the day its segment was written.

A log without a tenant belongs to the one tenant that has a routing decision for its task; its ``owner_key`` is that
tenant's key. Where several tenants have one it is nobody's: the owner is null and the gates quarantine it.
"""

from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.collection.live_segment import recover_segments
from flywheel.collection.segments import closed_segments
from flywheel.errors import PoolError
from flywheel.pool.indexing import IndexedSegment, SegmentIndex, read_index
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.watermark import enter_watermark, observe
from flywheel.pool.workers import mapped
from flywheel.records import utc_day

SEGMENTS_FOR_PROCESSES = 3  # fewer are read before a process has started


class IntakeReport(Struct, frozen=True, kw_only=True):
    """What one intake found. ``days`` are those whose lines it changed."""

    new_segments: int
    lines: int
    bytes: int
    torn: int
    stray_lines: int
    days: tuple[date, ...]


class StaleDay(Struct, frozen=True, kw_only=True):
    """A day whose lines changed since it last went through the whole pool. ``version`` grows with every change."""

    day: date
    version: int


def index_segments(pool: BenchmarkPool, *, now: datetime) -> IntakeReport:
    """Read each closed segment that the ledger does not know, in one transaction each, then move the watermark.

    A kill between any two statements loses nothing and counts nothing twice; several intakes may run at once.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    if pool.settings.segments_dir.is_dir():
        recover_segments(pool.settings.segments_dir)  # what a dead writer left open
    total = SegmentIndex()
    torn = 0
    changed: set[date] = set()
    count = 0
    mark = observe(pool.settings.segments_dir, now=now)
    paths = unknown_segments(pool)
    processes = pool.processes if len(paths) >= SEGMENTS_FOR_PROCESSES else 1
    for segment in mapped(read_index, paths, processes=processes):
        with pool.exclusive("intake") as connection:
            if is_known(connection, segment.name):
                continue
            days = enter_segment(connection, segment, now=now)
        index = segment.index
        count += 1
        torn += segment.torn
        total.lines += index.lines
        total.size += index.size
        total.stray_lines += index.stray_lines
        changed |= days
    with pool.transaction() as connection:
        enter_watermark(connection, mark)
    return IntakeReport(
        new_segments=count,
        lines=total.lines,
        bytes=total.size,
        torn=torn,
        stray_lines=total.stray_lines,
        days=tuple(sorted(changed)),
    )


def stale_days(pool: BenchmarkPool) -> tuple[StaleDay, ...]:
    """Days that changed since they were last validated, anonymized, counted and placed in every tier; oldest first."""
    with pool.transaction() as connection:
        rows = connection.execute(STALE_DAYS).fetchall()
    return tuple(StaleDay(day=day, version=revision) for day, revision in rows)


def unknown_segments(pool: BenchmarkPool) -> list[Path]:
    """Closed segments that the ledger does not know, by name."""
    closed = closed_segments(pool.settings.segments_dir)
    with pool.transaction() as connection:
        known = {name for (name,) in connection.execute("SELECT name FROM segments")}
    return [path for path in closed if path.name not in known]


def points_removed(connection: Connection[Any], day: date) -> bool:
    """Whether retention emptied the tables that the day's tiers and statistics are made from."""
    row = connection.execute("SELECT points_removed_at FROM days WHERE day = %s", (day,)).fetchone()
    return row is not None and row[0] is not None


def is_known(connection: Connection[Any], name: str) -> bool:
    """Whether another intake was first, between the listing and the lock."""
    return connection.execute("SELECT 1 FROM segments WHERE name = %s", (name,)).fetchone() is not None


def enter_segment(connection: Connection[Any], segment: IndexedSegment, *, now: datetime) -> set[date]:
    """Enter one segment into the ledger. Returns the days that it changed."""
    index, written_day = segment.index, utc_day(segment.written_at)
    row = connection.execute(
        "INSERT INTO segments (name, lines, bytes, torn, written_at, written_day, stray_lines, indexed_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        (segment.name, index.lines, index.size, segment.torn, segment.written_at, written_day, index.stray_lines, now),
    ).fetchone()
    if row is None:
        raise PoolError(f"PostgreSQL returned no id for segment {segment.name}; run the intake again")
    days = place_tasks(connection, index, segment_id=row[0])
    if index.stray_lines:
        days.add(written_day)
    mark_changed(connection, days, now=now)
    return days


def place_tasks(connection: Connection[Any], index: SegmentIndex, *, segment_id: int) -> set[date]:
    """Merge a segment's tasks into the ledger and decide their owners and days anew. Returns the days that changed."""
    connection.execute(ARRIVING)
    with connection.cursor().copy("COPY arriving FROM STDIN") as copy:
        for (task_key, tenant_key), seen in index.tasks.items():
            copy.write_row((task_key, tenant_key, seen.first_at, seen.routed))
    connection.execute(PLACE_TASKS, {"segment": segment_id})
    connection.execute(STORE_TASKS)
    changed = {day for (day,) in connection.execute(CHANGED_DAYS)}
    connection.execute("DROP TABLE arriving, placed")
    return changed


def mark_changed(connection: Connection[Any], days: Iterable[date], *, now: datetime) -> None:
    """Raise the revision of days, in the caller's transaction."""
    for day in sorted(days):  # in one order everywhere, so that two transactions cannot wait for each other
        connection.execute(
            "INSERT INTO days (day, revision, changed_at) VALUES (%s, 1, %s)"
            " ON CONFLICT (day) DO UPDATE SET revision = days.revision + 1, changed_at = excluded.changed_at",
            (day, now),
        )


ARRIVING = """
CREATE TEMPORARY TABLE arriving (task_key bytea, tenant_key bytea, first_at timestamptz, routed boolean) ON COMMIT DROP
"""

PLACE_TASKS = """
CREATE TEMPORARY TABLE placed ON COMMIT DROP AS
WITH known AS (SELECT * FROM tasks WHERE task_key IN (SELECT task_key FROM arriving)),
merged AS (
    SELECT task_key, tenant_key, arriving.first_at IS NOT NULL AS arrived,
        least(known.first_at, arriving.first_at) AS first_at,
        coalesce(known.routed, false) OR coalesce(arriving.routed, false) AS routed,
        known.day AS old_day, known.owner_key AS old_owner_key,
        CASE WHEN arriving.first_at IS NULL THEN known.segments ELSE known.segments || %(segment)s::integer END
            AS segments
    FROM arriving FULL JOIN known USING (task_key, tenant_key)
),
claims AS (
    SELECT task_key, count(*) AS tenants, (array_agg(tenant_key))[1] AS tenant_key
    FROM merged WHERE tenant_key <> '' AND routed GROUP BY task_key
),
owned AS (
    SELECT merged.*,
        CASE
            WHEN merged.tenant_key <> '' OR claims.tenants IS NULL THEN merged.tenant_key
            WHEN claims.tenants = 1 THEN claims.tenant_key
        END AS owner_key
    FROM merged LEFT JOIN claims USING (task_key)
)
SELECT *, (min(first_at) OVER (PARTITION BY task_key, owner_key) AT TIME ZONE 'UTC')::date AS day FROM owned
"""

STORE_TASKS = """
INSERT INTO tasks (task_key, tenant_key, first_at, routed, owner_key, day, segments)
SELECT task_key, tenant_key, first_at, routed, owner_key, day, segments FROM placed
WHERE arrived OR (old_day, old_owner_key) IS DISTINCT FROM (day, owner_key)
ON CONFLICT (task_key, tenant_key) DO UPDATE SET
    first_at = excluded.first_at, routed = excluded.routed, owner_key = excluded.owner_key, day = excluded.day,
    segments = excluded.segments
"""

CHANGED_DAYS = """
SELECT day FROM placed WHERE arrived
UNION
SELECT unnest(array_remove(ARRAY[old_day, day], NULL)) FROM placed
WHERE old_day IS NOT NULL AND (old_day, old_owner_key) IS DISTINCT FROM (day, owner_key)
"""

STALE_DAYS = """
SELECT days.day, days.revision FROM days
LEFT JOIN tier_days ON tier_days.day = days.day
GROUP BY days.day
HAVING days.revision > least(
    days.validated_revision, days.anonymized_revision, days.statistics_revision,
    CASE WHEN count(tier_days.tier) = 3 THEN min(tier_days.revision) ELSE 0 END
)
ORDER BY days.day
"""
