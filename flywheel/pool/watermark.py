"""The watermark: up to when all that collectors wrote is in the ledger, and what that says about a day.

It is the least of two moments: when the folder of segments was looked at, and when the oldest segment that was open
then was opened, because its lines cannot be seen before it is closed. Every segment that was closed by then is indexed
before the watermark is entered. So what it says stays true; what nobody can see from here is what a collector on
another machine has not handed over yet, and clocks that are wrong: for these a day has an allowed lateness.

It may fall: a collector whose clock is slow opens a segment that is older than the watermark, and its lines may be of
a day that was complete.
"""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from psycopg import Connection

from flywheel.collection.segments import OPEN_SUFFIX
from flywheel.pool.headers import FIRST_MOMENT

OPENED = re.compile(r"\d{8}T\d{12}")
"""How the name of an open segment begins: when it was opened, UTC, to the microsecond."""

Completeness = Literal["open", "stale", "waiting", "complete"]


class Watermark(Struct, frozen=True, kw_only=True):
    """All lines that were written before ``at`` are in the ledger, as the folder was at ``observed_at``.

    ``held_by`` is the open segment that holds it back, None where none does; ``open_segments`` there were.
    """

    at: datetime
    observed_at: datetime
    held_by: str | None
    open_segments: int


def observe(folder: Path, *, now: datetime) -> Watermark:
    """The watermark that holds once all segments are indexed that are closed after this returned.

    In this order nothing falls between: what is closed in the meantime counts as open, and is indexed as well.
    """
    opened = {path.name: at for path in folder.glob(f"*{OPEN_SUFFIX}") if (at := opened_at(path)) is not None}
    held_by = min(opened, key=lambda name: (opened[name], name), default=None)
    if held_by is None or opened[held_by] >= now:
        return Watermark(at=now, observed_at=now, held_by=None, open_segments=len(opened))
    return Watermark(at=opened[held_by], observed_at=now, held_by=held_by, open_segments=len(opened))


def opened_at(path: Path) -> datetime | None:
    """When an open segment was opened, at the latest; None where it is closed by now.

    Its name says so by its writer's clock. If that is fast, the file was written to before: then that counts. A name
    that says nothing holds the watermark back to the pool's beginning: anything may be in the file.
    """
    try:
        written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    named = OPENED.match(path.name)
    try:
        at = datetime.strptime(f"{named.group()}+0000", "%Y%m%dT%H%M%S%f%z") if named else FIRST_MOMENT
    except ValueError:  # digits, and no time
        at = FIRST_MOMENT
    return min(at, written_at)


def enter_watermark(connection: Connection[Any], mark: Watermark) -> None:
    """Make it the pool's, unless the folder was looked at since."""
    connection.execute(
        "INSERT INTO watermark (at, observed_at, held_by, open_segments) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (singleton) DO UPDATE SET at = excluded.at, observed_at = excluded.observed_at,"
        " held_by = excluded.held_by, open_segments = excluded.open_segments"
        " WHERE watermark.observed_at <= excluded.observed_at",
        (mark.at, mark.observed_at, mark.held_by, mark.open_segments),
    )


def read_watermark(connection: Connection[Any]) -> Watermark | None:
    """The pool's watermark; None before anybody looked for segments."""
    row = connection.execute("SELECT at, observed_at, held_by, open_segments FROM watermark").fetchone()
    return None if row is None else Watermark(**dict(zip(Watermark.__struct_fields__, row, strict=True)))


def watermark_now(connection: Connection[Any]) -> str | None:
    """The pool's watermark as a batch names it, ISO 8601 in UTC."""
    mark = read_watermark(connection)
    return None if mark is None else mark.at.astimezone(UTC).isoformat()


def completeness(
    day: date, mark: Watermark | None, *, allowed_lateness: timedelta, stale: bool, waiting: bool
) -> Completeness:
    """How far a day is.

    ``open``: the watermark has not passed its end and the allowed lateness, so more lines are to be expected.
    ``stale``: lines came that its last run did not know. ``waiting``: some of its tasks lack a log. ``complete``:
    nothing more is expected; a log that comes all the same makes it stale, and it runs again.
    """
    ends_at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    if mark is None or mark.at < ends_at + allowed_lateness:
        return "open"
    if stale:
        return "stale"
    return "waiting" if waiting else "complete"
