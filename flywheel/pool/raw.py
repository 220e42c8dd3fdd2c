"""Raw logs: the closed segments themselves. No line is copied; the ledger knows which lines are a day's."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.digests import Digest
from flywheel.pool.parts import (
    BYTES_A_PART,
    TASKS_A_PART,
    Owner,
    SegmentJob,
    count_of_parts,
    encode_owners,
    keys_of,
    lines_by_part,
    payloads_of,
)
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.workers import mapped

if TYPE_CHECKING:
    import numpy as np

KNOWN_LOGS = frozenset({"routing", "execution", "evaluation", "feedback"})


class RawDay(Struct, frozen=True, kw_only=True):
    """What arrived for a day. ``digest`` is of the set of its lines, whatever their order."""

    day: date
    lines: int
    bytes: int
    segments: int
    digest: str
    by_log: dict[str, int]


class DaySegment(Struct, frozen=True):
    """A segment with lines of a day."""

    name: str
    holds_strays: bool
    written_at: datetime
    torn: int
    bytes: int
    arrived_at: datetime


class DayPlan(Struct, frozen=True, kw_only=True):
    """Which segments to read for a day and which tasks in them are the day's, as the ledger stood at one moment.

    ``keys`` (uint64, sorted) and ``parts`` (uint16) say where a line goes; ``owners`` are those of each part, encoded.
    """

    revision: int
    segments: tuple[DaySegment, ...]
    keys: "np.ndarray[Any, Any]"
    parts: "np.ndarray[Any, Any]"
    owners: tuple[bytes, ...]


class RawCount(Struct):
    """The running account of a day's raw lines."""

    bytes: int = 0
    by_log: Counter[str] = msgspec.field(default_factory=Counter)
    digest: Digest = msgspec.field(default_factory=Digest)


def plan_day(pool: BenchmarkPool, day: date, *, tasks_a_part: int = TASKS_A_PART) -> DayPlan:
    """What the ledger knows about a day; a day it does not know has no lines."""
    with pool.transaction() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        row = connection.execute(
            "SELECT (SELECT revision FROM days WHERE day = %(day)s), count(DISTINCT task_key) FROM tasks"
            " WHERE day = %(day)s",
            {"day": day},
        ).fetchone()
        assert row is not None
        segments = day_segments(connection, day)
        size = sum(segment.bytes for segment in segments)
        parts = count_of_parts(1 + max(row[1] // tasks_a_part, size // BYTES_A_PART), processes=pool.processes)
        owners = owners_by_part(connection, day, tasks=row[1], parts=parts)
        keys, parts_of_keys = sorted_keys(owners)
        return DayPlan(
            revision=row[0] or 0,
            segments=segments,
            keys=keys,
            parts=parts_of_keys,
            owners=tuple(encode_owners(some) for some in owners),
        )


def owners_by_part(connection: Connection[Any], day: date, *, tasks: int, parts: int) -> list[list[Owner]]:
    """The day's ``tasks`` in slices of about the same size, by when they began."""
    owners: list[list[Owner]] = [[] for _ in range(parts)]
    tenants: dict[bytes | None, bytes | None] = {}  # a day has few: one copy of each key is enough
    with connection.cursor(name="owners", binary=True) as cursor:
        cursor.itersize = TASKS_A_PART
        cursor.execute(OWNERS, {"day": day, "tasks": tasks, "parts": parts})
        for part, task_key, tenant_key, owner_key in cursor:
            tenant = tenants.setdefault(tenant_key, tenant_key) or b""
            owners[part].append(Owner(task_key, tenant, tenants.setdefault(owner_key, owner_key)))
    return owners


def sorted_keys(owners: list[list[Owner]]) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """The keys of all tasks in order, and the part of each."""
    import numpy as np

    keys = keys_of((owner.task_key, owner.tenant_key) for some in owners for owner in some)
    parts = np.repeat(np.arange(len(owners), dtype=np.uint16), [len(some) for some in owners])
    order = np.argsort(keys)
    return keys[order], parts[order]


def day_segments(connection: Connection[Any], day: date) -> tuple[DaySegment, ...]:
    """Names of the segments that hold lines of the day, in order of arrival, and whether stray lines are among them."""
    rows = connection.execute(
        "SELECT name, written_day = %(day)s AND stray_lines > 0, written_at, torn, bytes, indexed_at FROM segments"
        " WHERE (written_day = %(day)s AND stray_lines > 0)"
        " OR id IN (SELECT unnest(segments) FROM tasks WHERE day = %(day)s) ORDER BY id",
        {"day": day},
    )
    return tuple(DaySegment(name, bool(strays), *rest) for name, strays, *rest in rows)


def segment_jobs(pool: BenchmarkPool, plan: DayPlan) -> Iterator[SegmentJob]:
    """The segments of a day as work for ``sort_segment``, in order of arrival.

    Raises:
        PoolError: a segment of the ledger is no longer in its folder.
    """
    for segment in plan.segments:
        path = pool.settings.segments_dir / segment.name
        if not path.exists():
            raise PoolError(
                f"segment {segment.name} is in the ledger but not in {path.parent}; restore it from a backup"
            )
        yield SegmentJob(
            path=path,
            written_at=segment.written_at,
            arrived_at=segment.arrived_at,
            torn=segment.torn,
            holds_strays=segment.holds_strays,
            count=len(plan.owners),
            keys=plan.keys,
            parts=plan.parts,
        )


def collect_day(pool: BenchmarkPool, day: date) -> RawDay:
    """Count and digest the lines of a day, where they lie.

    Raises:
        PoolError: the ledger or a segment cannot be read.
    """
    total = RawCount()
    with pool.transaction() as connection:
        pool.keep_segments(connection)
        plan = plan_day(pool, day)
        processes = pool.processes if len(plan.owners) > 1 else 1
        for count in mapped(count_segment, segment_jobs(pool, plan), processes=processes):
            total.bytes += count.bytes
            total.by_log.update(count.by_log)
            total.digest.update(count.digest)
    return RawDay(
        day=day,
        lines=total.by_log.total(),
        bytes=total.bytes,
        segments=len(plan.segments),
        digest=total.digest.hexdigest(),
        by_log=dict(total.by_log),
    )


def count_segment(job: SegmentJob) -> RawCount:
    """The account of a segment's lines of a day."""
    count = RawCount()
    for lines in lines_by_part(job).values():
        for payload in payloads_of(job.path, lines):
            count.digest.add(payload)
            count.bytes += len(payload)
        count.by_log.update(line.log if line.log in KNOWN_LOGS else "unreadable" for line in lines)
    return count


# Windows, no join: of a day that came since the table was last analyzed the planner expects a row or two, and joins by
# comparing every task with every other one.
OWNERS = """
WITH began AS (
    SELECT task_key, tenant_key, owner_key, min(first_at) OVER (PARTITION BY task_key) AS first_at
    FROM tasks WHERE day = %(day)s
),
placed AS (SELECT *, dense_rank() OVER (ORDER BY first_at, task_key) - 1 AS place FROM began)
SELECT (place * %(parts)s / %(tasks)s)::integer, task_key, tenant_key, owner_key FROM placed
"""
