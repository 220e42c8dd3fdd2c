"""Lines that failed a gate, with their reasons, for people to review."""

from datetime import date

from msgspec import Struct

from flywheel.pool.pool import BenchmarkPool


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
        PoolError: PostgreSQL cannot be used.
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
