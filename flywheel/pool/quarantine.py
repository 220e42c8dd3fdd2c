"""Lines that failed a gate, with their reasons, for people to review."""

from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.intake import mark_changed
from flywheel.pool.pool import BenchmarkPool

State = Literal["pending", "approved", "rejected"]


class QuarantinedLine(Struct, frozen=True, kw_only=True):
    """One line that became no point. ``line`` is as it arrived, bytes that are no UTF-8 replaced."""

    id: str
    day: date
    task_id: str | None
    gates: tuple[str, ...]
    reasons: tuple[str, ...]
    state: str
    note: str
    line: str


def list_quarantine(pool: BenchmarkPool, *, day: date | None = None, limit: int = 50) -> tuple[QuarantinedLine, ...]:
    """Quarantined lines, newest day first.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT id, day, task_id, gates, reasons, state, note, line FROM quarantine"
            " WHERE %(day)s::date IS NULL OR day = %(day)s ORDER BY day DESC, id LIMIT %(limit)s",
            {"day": day, "limit": limit},
        ).fetchall()
    return tuple(
        QuarantinedLine(
            id=row[0],
            day=row[1],
            task_id=row[2],
            gates=tuple(row[3]),
            reasons=tuple(row[4]),
            state=row[5],
            note=row[6],
            line=bytes(row[7]).decode(errors="replace"),
        )
        for row in rows
    )


def review(pool: BenchmarkPool, line_id: str, *, state: State, note: str, now: datetime) -> None:
    """Decide about a quarantined line. Its day becomes stale and runs again by itself.

    A task all of whose lines are approved becomes a point whatever its gates say. A line that does not decode stays
    out: approving it says that someone looked.

    Raises:
        PoolError: there is no such line.
    """
    with pool.transaction() as connection:
        row = connection.execute(
            "UPDATE quarantine SET state = %s, note = %s, reviewed_at = %s WHERE id = %s RETURNING day",
            (state, note, now, line_id),
        ).fetchone()
        if row is None:
            raise PoolError(f"no quarantined line has the id {line_id}; `flywheel pool quarantine` lists them")
        mark_changed(connection, [row[0]], now=now)
