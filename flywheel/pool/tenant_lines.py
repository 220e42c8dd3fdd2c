"""A tenant's raw lines: which they are, and how they leave the segments and the ledger.

A line is the tenant's where it names it. A line without a tenant is the tenant's where it belongs to a task that the
tenant's logs name, unless it is joined under another tenant; so also a line of which nobody can say whose it is. A line
without a readable task or time is the tenant's where one of its strings is the tenant's id. Of single tasks of a tenant
the same holds with the task's id in the place of the tenant's where nothing else tells, and no other tenant is named.

Segments are rewritten first and the ledger is corrected second, in one transaction: it is counted from the files as
they then are, so a run that was killed between the two is finished by the next one.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from psycopg import Connection, sql

from flywheel.collection.segments import (
    OPEN_SUFFIX,
    Damage,
    Frame,
    read_segment,
    remove_partial_segments,
    segment_bytes,
    write_closed_segment,
)
from flywheel.errors import NotASegmentError, PoolError, SegmentError
from flywheel.pool.headers import decode_header, key_of, read_header
from flywheel.pool.indexing import index_lines
from flywheel.pool.intake import mark_changed, unknown_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenants import Tenant

TASKS = """
SELECT DISTINCT theirs.task_key FROM tasks AS theirs
LEFT JOIN tasks AS nobodys ON nobodys.task_key = theirs.task_key AND nobodys.tenant_key = ''
WHERE theirs.tenant_key = %(key)s AND (nobodys.owner_key IS NULL OR nobodys.owner_key IN ('', %(key)s))
"""
THEIRS = sql.SQL(
    "((tenant_key = %(key)s OR tenant_key = '' AND task_key = ANY(%(tasks)s))"
    " AND (%(only)s::bytea[] IS NULL OR task_key = ANY(%(only)s)))"
)
COUNT_TASKS = sql.SQL("SELECT count(*) FROM tasks WHERE {}").format(THEIRS)
TASK_DAYS = sql.SQL("SELECT DISTINCT day FROM tasks WHERE day IS NOT NULL AND {}").format(THEIRS)
DELETE_TASKS = sql.SQL("DELETE FROM tasks WHERE {}").format(THEIRS)
DELETE_WAITING = (
    "DELETE FROM waiting_tasks WHERE (owner_key = %(key)s OR owner_key = '' AND task_key = ANY(%(tasks)s))"
    " AND (%(only)s::bytea[] IS NULL OR task_key = ANY(%(only)s))"
)
SEGMENTS = sql.SQL(
    "SELECT id, name, written_at, written_day, lines, stray_lines FROM segments"
    " WHERE stray_lines > 0 OR torn > 0 OR id IN (SELECT unnest(segments) FROM tasks WHERE {}) ORDER BY id"
).format(THEIRS)
OWNED_QUARANTINE = "SELECT id, day FROM quarantine WHERE owner_key = %s"
QUARANTINE_TO_READ = "SELECT id, day, line, task_id IS NULL FROM quarantine WHERE coalesce(owner_key, '') = ANY(%s)"


class TenantLines(Struct, frozen=True):
    """What tells the lines of a tenant, or of the tasks of it that are ``wanted``.

    Attributes:
        wanted: whose lines.
        tasks: keys of tasks whose lines without a tenant are the tenant's.
        only: keys of the wanted tasks; None where all of the tenant is.
    """

    wanted: Tenant
    tasks: frozenset[bytes]
    only: frozenset[bytes] | None

    @property
    def key(self) -> bytes:
        """The tenant's key in the ledger."""
        return key_of(self.wanted.id)

    @property
    def telling(self) -> Iterable[str]:
        """Names of which one in a line that nothing else is told by makes it one of these."""
        return (self.wanted.id,) if self.wanted.tasks is None else self.wanted.tasks

    @property
    def parameters(self) -> dict[str, Any]:
        """For ``THEIRS``."""
        return {"key": self.key, "tasks": list(self.tasks), "only": None if self.only is None else list(self.only)}

    def hold(self, line: bytes, *, stray: bool) -> bool:
        """Whether a line is among them. ``stray`` lines have no readable task or time."""
        try:
            header = decode_header(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            header = None
        if header is not None and header.tenant_id is not None:
            return header.tenant_id == self.wanted.id and (self.only is None or header.task_key in self.only)
        if header is not None and header.task_key in self.tasks:
            return self.only is None or header.task_key in self.only
        return stray and any(mentions(line, name) for name in self.telling) and not self._names_another(line)

    def _names_another(self, line: bytes) -> bool:
        """Whether a line that has a task's id somewhere says that it is another tenant's."""
        if self.only is None:
            return False
        try:
            return decode_claim(line).tenant_id not in (None, self.wanted.id)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False


class Claim(Struct, rename="camel"):
    """Whose a line says it is, where nothing else of it can be read."""

    tenant_id: str | None = None


decode_claim = msgspec.json.Decoder(Claim).decode


class LedgerSegment(Struct, frozen=True):
    """A segment as the ledger has it."""

    id: int
    name: str
    written_at: datetime
    written_day: date
    lines: int
    stray_lines: int


class Searched(Struct, frozen=True, kw_only=True):
    """A segment without a tenant's lines. ``removed`` counts them; ``damaged``: unreadable bytes go as well."""

    kept: list[bytes]
    removed: int
    damaged: bool


def tenant_lines(connection: Connection[Any], wanted: Tenant) -> TenantLines:
    """What tells this tenant's lines, by the ledger as it is."""
    rows = connection.execute(TASKS, {"key": key_of(wanted.id)})
    only = None if wanted.tasks is None else frozenset(map(key_of, wanted.tasks))
    return TenantLines(wanted, frozenset(task_key for (task_key,) in rows), only)


def mentions(line: bytes, name: str) -> bool:
    """Whether one of the line's JSON strings is the name. Of broken JSON the bytes are searched for it."""
    spelled = {msgspec.json.encode(name), ascii_json(name)}
    if any(spelling in line for spelling in spelled):
        return True
    try:
        return name in strings(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def ascii_json(text: str) -> bytes:
    """The text as a JSON string of ASCII characters, as many writers have it."""
    import json

    return json.dumps(text).encode()


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def search(path: Path, lines: TenantLines, *, written_at: datetime) -> Searched:
    """Read a segment for a tenant's lines.

    Bytes that no frame can be read of go with its lines, because they could be its; in a segment that has none they go
    if they hold its id.

    Raises:
        PoolError: the segment is not in its folder.
    """
    kept: list[bytes] = []
    damages: list[Damage] = []
    removed = 0
    for frame in frames_of(path):
        if isinstance(frame, Damage):
            damages.append(frame)
        elif lines.hold(frame.payload, stray=read_header(frame.payload, written_at=written_at) is None):
            removed += 1
        else:
            kept.append(frame.payload)
    damaged = bool(damages) and (bool(removed) or any(damage_mentions(path, damages, lines.telling)))
    return Searched(kept=kept, removed=removed, damaged=damaged)


def frames_of(path: Path) -> Iterator[Frame | Damage]:
    """The frames of a segment; of a file that is none, one damage."""
    try:
        yield from read_segment(path)
    except NotASegmentError:
        yield Damage(offset=0, size=path.stat().st_size, kind="corrupt")


def damage_mentions(path: Path, damages: Iterable[Damage], names: Iterable[str]) -> Iterator[bool]:
    """Of each damage whether it holds one of these names."""
    content = segment_bytes(path)
    for damage in damages:
        yield any(mentions(bytes(content[damage.offset : damage.offset + damage.size]), name) for name in names)


def ledger_segments(connection: Connection[Any], lines: TenantLines) -> Iterator[LedgerSegment]:
    """The segments in which the tenant's lines may be."""
    for row in connection.execute(SEGMENTS, lines.parameters).fetchall():
        yield LedgerSegment(*row)


def path_of(pool: BenchmarkPool, segment: LedgerSegment) -> Path:
    """Where the segment is.

    Raises:
        PoolError: it is not there.
    """
    path = pool.settings.segments_dir / segment.name
    if not path.exists():
        raise PoolError(f"segment {segment.name} is in the ledger but not in {path.parent}; restore it from a backup")
    return path


class LineCounts(Struct, frozen=True, kw_only=True):
    """How much of a tenant there is, and on which days. ``open_…``: in segments that collectors still write."""

    segment_lines: int
    tasks: int
    quarantined: int
    outcomes: int
    open_segments: int
    open_lines: int
    days: frozenset[date]


def count_lines(pool: BenchmarkPool, wanted: Tenant, *, now: datetime) -> LineCounts:
    """Count a tenant's lines everywhere; changes nothing.

    Raises:
        PoolError: a segment is missing.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        lines = tenant_lines(connection, wanted)
        days, in_segments = set(ledger_days(connection, lines)), 0
        for segment in ledger_segments(connection, lines):
            found = search(path_of(pool, segment), lines, written_at=segment.written_at)
            in_segments += found.removed
            if found.removed and segment.stray_lines:
                days.add(segment.written_day)
        quarantined = quarantined_lines(connection, lines)
        tasks = connection.execute(COUNT_TASKS, lines.parameters).fetchone()
        outcomes = len(outcomes_of(connection, lines))
    for path in unknown_segments(pool):
        in_segments += search(path, lines, written_at=datetime.fromtimestamp(path.stat().st_mtime, UTC)).removed
    still_open = open_lines(pool, lines, now=now)
    return LineCounts(
        segment_lines=in_segments,
        tasks=tasks[0] if tasks else 0,
        quarantined=len(quarantined),
        outcomes=outcomes,
        open_segments=len(still_open),
        open_lines=sum(still_open),
        days=frozenset(days | {day for _, day in quarantined}),
    )


def open_lines(pool: BenchmarkPool, lines: TenantLines, *, now: datetime) -> list[int]:
    """The tenant's lines in each segment that a collector still writes."""
    counts = []
    for path in sorted(pool.settings.segments_dir.glob(f"*{OPEN_SUFFIX}")):
        try:
            counts.append(search(path, lines, written_at=now).removed)
        except SegmentError:
            if path.exists():
                raise  # else it was closed meanwhile
    return counts


def erase_lines(pool: BenchmarkPool, wanted: Tenant, *, now: datetime) -> frozenset[date]:
    """Remove a tenant's lines from segments, ledger and quarantine; the days they were of become stale.

    Nobody indexes a segment or validates one of these days meanwhile. Returns the days.

    Raises:
        PoolError: a segment is missing.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive("intake") as connection:
        lines = tenant_lines(connection, wanted)
        days = {*ledger_days(connection, lines), *(day for _, day in quarantined_lines(connection, lines))}
        found = []
        for segment in ledger_segments(connection, lines):
            searched = search(path_of(pool, segment), lines, written_at=segment.written_at)
            if searched.removed or searched.damaged or len(searched.kept) != segment.lines:
                found.append(segment)
                days |= {segment.written_day} if segment.stray_lines else set()
        for day in sorted(days):
            pool.take(connection, f"validation:{day}")
        pool.change_segments(connection)
        for segment in found:
            rewrite(connection, path_of(pool, segment), segment, lines)
        remove_partial_segments(pool.settings.segments_dir)
        forget_lines(connection, lines)
        mark_changed(connection, days, now=now)
    return frozenset(days)


def ledger_days(connection: Connection[Any], lines: TenantLines) -> Iterator[date]:
    """The days of the tenant's tasks."""
    rows = connection.execute(TASK_DAYS, lines.parameters)
    return (day for (day,) in rows.fetchall())


def rewrite(connection: Connection[Any], path: Path, segment: LedgerSegment, lines: TenantLines) -> None:
    """Replace a segment by one without the tenant's lines, then correct its row in the ledger."""
    searched = search(path, lines, written_at=segment.written_at)
    if searched.removed or searched.damaged:
        modified = path.stat().st_mtime_ns
        write_closed_segment(path, searched.kept)
        os.utime(path, ns=(modified, modified))
    index = index_lines(iter(searched.kept), written_at=segment.written_at)
    connection.execute(
        "UPDATE segments SET lines = %s, bytes = %s, stray_lines = %s WHERE id = %s",
        (index.lines, index.size, index.stray_lines, segment.id),
    )


def forget_lines(connection: Connection[Any], lines: TenantLines) -> None:
    """Delete a tenant's rows from quarantine, waiting tasks, outcomes and tasks."""
    ids = [line_id for line_id, _ in quarantined_lines(connection, lines)]
    connection.execute("DELETE FROM quarantine WHERE id = ANY(%s)", (ids,))
    connection.execute(DELETE_WAITING, lines.parameters)
    outcomes = outcomes_of(connection, lines)
    connection.execute(
        "DELETE FROM task_outcomes WHERE (tenant_id, task_id) IN (SELECT unnest(%s::text[]), unnest(%s::text[]))",
        ([tenant for tenant, _ in outcomes], [task_id for _, task_id in outcomes]),
    )
    connection.execute(DELETE_TASKS, lines.parameters)


def quarantined_lines(connection: Connection[Any], lines: TenantLines) -> list[tuple[str, date]]:
    """Id and day of the tenant's quarantined lines: by their owner, and by their content where that does not tell."""
    whole = lines.only is None
    owned = connection.execute(OWNED_QUARANTINE, (lines.key,)).fetchall() if whole else []
    with connection.cursor(name="quarantine_to_read") as cursor:
        cursor.execute(QUARANTINE_TO_READ, ([b""] if whole else [b"", lines.key],))
        read = [(line_id, day) for line_id, day, line, stray in cursor if lines.hold(bytes(line), stray=stray)]
    return [*owned, *read]


def outcomes_of(connection: Connection[Any], lines: TenantLines) -> list[tuple[str, str]]:
    """Tenant and id of the tenant's tasks that the arbiter remembers.

    Earlier versions did not store whose they are (the tenant is empty): of those the ones that only its logs name.
    """
    wanted = lines.wanted
    own = connection.execute(
        "SELECT tenant_id, task_id FROM task_outcomes"
        " WHERE tenant_id = %s AND (%s::text[] IS NULL OR task_id = ANY(%s))",
        (wanted.id, *(2 * (None if wanted.tasks is None else list(wanted.tasks),))),
    ).fetchall()
    return [*own, *(("", task_id) for task_id in unowned_outcomes(connection, lines))]


def unowned_outcomes(connection: Connection[Any], lines: TenantLines) -> list[str]:
    """Remembered tasks of nobody that only this tenant's logs name."""
    unowned = connection.execute("SELECT task_id FROM task_outcomes WHERE tenant_id = ''")
    found = {key_of(task_id): task_id for (task_id,) in unowned}
    remembered = {key: task_id for key, task_id in found.items() if lines.only is None or key in lines.only}
    rows = connection.execute(
        "SELECT task_key FROM tasks WHERE task_key = ANY(%s) GROUP BY task_key"
        " HAVING bool_or(tenant_key = %s) AND NOT bool_or(tenant_key NOT IN ('', %s))",
        (list(remembered), lines.key, lines.key),
    )
    return [remembered[task_key] for (task_key,) in rows.fetchall()]
