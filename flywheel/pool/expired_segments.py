"""Raw segments that nothing needs any more: all their lines are of days older than the cold tier keeps.

Such a day must have no run due, because a run reads its lines. A segment that also holds a line of a younger day stays
whole. The account of a day stays in the ledger as it was: it says what came, not what is kept.

The file goes first and the ledger second, in one transaction: a file that the ledger did not know would be taken for
new logs. A kill between the two leaves a segment of the ledger without its file, which the next run finishes.
"""

from datetime import date, datetime, timedelta
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.collection.segments import remove_closed_segment
from flywheel.pool.intake import STALE_DAYS
from flywheel.pool.pool import BenchmarkPool
from flywheel.records import utc_day

OLD_SEGMENTS = """
SELECT id FROM segments WHERE written_day < %(last_kept)s AND (stray_lines > 0 OR lines = 0)
UNION SELECT unnest(segments) FROM tasks WHERE day < %(last_kept)s
"""
UNNEEDED_SEGMENTS = """
SELECT id, name, written_day, lines FROM segments
WHERE id = ANY(%(old)s::integer[])
    AND NOT (stray_lines > 0 AND (written_day >= %(last_kept)s OR written_day = ANY(%(stale)s::date[])))
    AND id NOT IN (
        SELECT unnest(segments) FROM tasks
        WHERE segments && %(old)s::integer[] AND (day IS NULL OR day >= %(last_kept)s OR day = ANY(%(stale)s::date[]))
    )
ORDER BY id
"""
FORGET_TASKS = """
WITH kept AS (
    UPDATE tasks SET segments = array_remove(segments, %(id)s::integer)
    WHERE day < %(last_kept)s AND %(id)s = ANY(segments) AND cardinality(segments) > 1
)
DELETE FROM tasks WHERE day < %(last_kept)s AND segments = ARRAY[%(id)s::integer]
"""


class ExpiredSegment(Struct, frozen=True):
    """A segment that may go. ``written_day`` is when its last line was written, ``lines`` what the ledger counted."""

    id: int
    name: str
    written_day: date
    lines: int


def find_expired_segments(connection: Connection[Any], *, last_kept: date) -> tuple[ExpiredSegment, ...]:
    """Segments all of whose lines are of days before the last that is kept, oldest first."""
    old = [segment_id for (segment_id,) in connection.execute(OLD_SEGMENTS, {"last_kept": last_kept})]
    if not old:
        return ()
    stale = [day for day, _ in connection.execute(STALE_DAYS)]
    rows = connection.execute(UNNEEDED_SEGMENTS, {"old": old, "last_kept": last_kept, "stale": stale})
    return tuple(ExpiredSegment(*row) for row in rows)


def remove_segments(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Remove the expired segments that were written on a day, from disk and from the ledger."""
    last_kept = utc_day(now) - timedelta(days=pool.settings.cold_days)
    with pool.exclusive("intake") as connection:
        pool.change_segments(connection)
        for segment in find_expired_segments(connection, last_kept=last_kept):
            if segment.written_day == day:
                remove_closed_segment(pool.settings.segments_dir / segment.name)
                connection.execute(FORGET_TASKS, {"id": segment.id, "last_kept": last_kept})
                connection.execute("DELETE FROM segments WHERE id = %s", (segment.id,))
