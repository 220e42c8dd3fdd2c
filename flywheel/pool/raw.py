"""Raw logs: the closed segments themselves. No line is copied; the ledger knows which lines are a day's."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.collection.segments import Damage, read_segment
from flywheel.errors import PoolError
from flywheel.pool.headers import read_header
from flywheel.pool.pool import BenchmarkPool


class RawLine(Struct, frozen=True, kw_only=True):
    """One line of a day. ``task_key`` is None for a stray line, ``owner_key`` where several tenants have the task."""

    payload: bytes
    segment: str
    log: str
    task_id: str | None
    task_key: bytes | None
    owner_key: bytes | None


class RawDay(Struct, frozen=True, kw_only=True):
    """What arrived for a day."""

    day: date
    lines: int
    bytes: int
    segments: int
    digest: str
    by_log: dict[str, int]


class SegmentLines:
    """The whole lines of a segment. After iterating, ``torn`` counts the frames that could not be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0

    def __iter__(self) -> Iterator[bytes]:
        self.torn = 0
        for frame in read_segment(self.path):
            if isinstance(frame, Damage):
                self.torn += 1
            else:
                yield frame.payload


def read_segment_lines(path: Path) -> SegmentLines:
    """The lines of a closed segment, read as they are asked for."""
    return SegmentLines(path)


class DaySegment(Struct, frozen=True):
    """A segment with lines of a day."""

    name: str
    holds_strays: bool
    written_at: datetime


class DayPlan(Struct, frozen=True):
    """Which segments to read for a day and which tasks in them are the day's, as the ledger stood at one moment."""

    revision: int
    segments: tuple["DaySegment", ...]
    owners: dict[tuple[bytes, bytes], bytes | None]


def plan_day(pool: BenchmarkPool, day: date) -> DayPlan:
    """What the ledger knows about a day; a day it does not know has no lines."""
    with pool.transaction() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        revision = connection.execute("SELECT revision FROM days WHERE day = %s", (day,)).fetchone()
        same: dict[bytes | None, bytes | None] = {}  # a day has few tenants: one copy of each key is enough
        owners = {
            (task_key, same.setdefault(tenant_key, tenant_key) or b""): same.setdefault(owner_key, owner_key)
            for task_key, tenant_key, owner_key in connection.execute(
                "SELECT task_key, tenant_key, owner_key FROM tasks WHERE day = %s", (day,)
            )
        }
        return DayPlan(revision[0] if revision else 0, day_segments(connection, day), owners)


def day_segments(connection: Connection[Any], day: date) -> tuple[DaySegment, ...]:
    """Names of the segments that hold lines of the day, in order of arrival, and whether stray lines are among them."""
    rows = connection.execute(
        "SELECT name, written_day = %(day)s AND stray_lines > 0, written_at FROM segments"
        " WHERE (written_day = %(day)s AND stray_lines > 0)"
        " OR id IN (SELECT unnest(segments) FROM tasks WHERE day = %(day)s) ORDER BY id",
        {"day": day},
    )
    return tuple(DaySegment(name, bool(strays), written_at) for name, strays, written_at in rows)


def read_day(pool: BenchmarkPool, plan: DayPlan) -> Iterator[RawLine]:
    """The lines of a day in order of arrival.

    Raises:
        PoolError: a segment of the ledger is no longer in its folder.
    """
    for segment in plan.segments:
        path = pool.settings.segments_dir / segment.name
        if not path.exists():
            raise PoolError(
                f"segment {segment.name} is in the ledger but not in {path.parent}; restore it from a backup"
            )
        for payload in read_segment_lines(path):
            line = line_of(payload, segment, plan)
            if line is not None:
                yield line


def line_of(payload: bytes, segment: DaySegment, plan: DayPlan) -> RawLine | None:
    """The line, if it is the day's."""
    header = read_header(payload, written_at=segment.written_at)
    if header is None:
        stray = RawLine(payload=payload, segment=segment.name, log="", task_id=None, task_key=None, owner_key=None)
        return stray if segment.holds_strays else None
    key = (header.task_key, header.tenant_key)
    if key not in plan.owners:
        return None
    return RawLine(
        payload=payload,
        segment=segment.name,
        log=header.log_name,
        task_id=header.task_id,
        task_key=header.task_key,
        owner_key=plan.owners[key],
    )


def collect_day(pool: BenchmarkPool, day: date) -> RawDay:
    """Count and digest the lines of a day, where they lie.

    Raises:
        PoolError: the ledger or a segment cannot be read.
    """
    plan = plan_day(pool, day)
    digest = blake2b(digest_size=16)
    by_log: Counter[str] = Counter()
    size = 0
    for line in read_day(pool, plan):
        digest.update(len(line.payload).to_bytes(8, "big") + line.payload)
        by_log[line.log if line.log in KNOWN_LOGS else "unreadable"] += 1
        size += len(line.payload)
    return RawDay(
        day=day,
        lines=by_log.total(),
        bytes=size,
        segments=len(plan.segments),
        digest=digest.hexdigest(),
        by_log=dict(by_log),
    )


KNOWN_LOGS = frozenset({"routing", "execution", "evaluation", "feedback"})
