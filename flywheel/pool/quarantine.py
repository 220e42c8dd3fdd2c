"""Lines that failed a gate, with their reasons, and what people decided about them."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

from msgspec import Struct
from psycopg import Connection, sql

from flywheel.errors import PoolError
from flywheel.pool.gates import WAIVABLE_GATES
from flywheel.pool.intake import mark_changed
from flywheel.pool.pool import BenchmarkPool

State = Literal["pending", "approved", "rejected"]
COLUMNS = sql.SQL("id, day, task_id, gates, reasons, state, note, reviewed_at, line")
SELECTED = sql.SQL("SELECT {} FROM quarantine ").format(COLUMNS)


class QuarantinedLine(Struct, frozen=True, kw_only=True):
    """One line that became no point. ``line`` is as it arrived, bytes that are no UTF-8 replaced."""

    id: str
    day: date
    task_id: str | None
    gates: tuple[str, ...]
    reasons: tuple[str, ...]
    state: State
    note: str
    reviewed_at: datetime | None
    line: str


def list_quarantine(
    pool: BenchmarkPool,
    *,
    day: date | None = None,
    state: State | None = None,
    gate: str | None = None,
    limit: int | None = 50,
) -> tuple[QuarantinedLine, ...]:
    """Quarantined lines, newest day first, those of one task next to each other.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            SELECTED
            + sql.SQL(
                "WHERE (%(day)s::date IS NULL OR day = %(day)s) AND (%(state)s::text IS NULL OR state = %(state)s)"
                " AND (%(gate)s::text IS NULL OR %(gate)s = ANY(gates))"
                " ORDER BY day DESC, task_id, id LIMIT %(limit)s"
            ),
            {"day": day, "state": state, "gate": gate, "limit": limit},
        ).fetchall()
    return tuple(map(line_of, rows))


def quarantined(pool: BenchmarkPool, line_id: str) -> tuple[QuarantinedLine, ...]:
    """The line with this id, or the one whose id begins so, and all that were turned away with it.

    Raises:
        PoolError: no line has the id, or several begin so.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return together(connection, line_id)


def release(pool: BenchmarkPool, line_id: str, *, note: str, now: datetime) -> tuple[QuarantinedLine, ...]:
    """Let a task pass in spite of its gates. Its day runs again by itself, and the task becomes a point.

    All lines that were turned away together are released together. A log of the task that arrives later is judged anew.

    Raises:
        PoolError: there is no such line, or what it failed cannot be waived; the message says what to do instead.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        lines = together(connection, line_id)
        refusal = why_not_released(lines[0])
        if refusal:
            raise PoolError(refusal)
        return decide(connection, lines, state="approved", note=note, now=now)


def reject(pool: BenchmarkPool, line_id: str, *, note: str, now: datetime) -> tuple[QuarantinedLine, ...]:
    """Say that lines are rightly here; also takes a release back. They stay in quarantine and in the account.

    Raises:
        PoolError: there is no such line.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return decide(connection, together(connection, line_id), state="rejected", note=note, now=now)


def why_not_released(line: QuarantinedLine) -> str:
    """Why a line cannot be let through as it is; empty where it can."""
    if line.task_id is not None and WAIVABLE_GATES.issuperset(line.gates):
        return ""
    return (
        f"line {line.id} cannot become a point as it is ({'; '.join(line.reasons)}). Mend the cause and run the day "
        f"{line.day} again, or bring a mended log in with `flywheel ingest`, or reject the line"
    )


def together(connection: Connection[Any], line_id: str) -> tuple[QuarantinedLine, ...]:
    """The line first, then what was turned away with it: of the same day, task and tenant, by the same gates.

    Raises:
        PoolError: no line has the id, or several begin so.
    """
    like_it = sql.SQL("WHERE starts_with(id, %s) ORDER BY id LIMIT 2")
    found = connection.execute(SELECTED + like_it, (line_id,)).fetchall()
    if not found or not line_id:
        raise PoolError(f"no quarantined line has the id {line_id}; `flywheel quarantine list` shows them")
    if len(found) > 1:
        raise PoolError(f"several quarantined lines begin with {line_id}; give more of the id")
    line = line_of(found[0])
    others = connection.execute(
        SELECTED
        + sql.SQL(
            "WHERE day = %(day)s AND task_id = %(task)s AND gates = %(gates)s AND id <> %(id)s AND owner_key IS NOT"
            " DISTINCT FROM (SELECT owner_key FROM quarantine WHERE id = %(id)s) ORDER BY id"
        ),
        {"id": line.id, "day": line.day, "task": line.task_id, "gates": list(line.gates)},
    )
    return (line, *map(line_of, others))


def decide(
    connection: Connection[Any], lines: Sequence[QuarantinedLine], *, state: State, note: str, now: datetime
) -> tuple[QuarantinedLine, ...]:
    """Enter a decision about lines of one day, which becomes stale by it."""
    rows = connection.execute(
        sql.SQL("UPDATE quarantine SET state = %s, note = %s, reviewed_at = %s WHERE id = ANY(%s) RETURNING ")
        + COLUMNS,
        (state, note, now, [line.id for line in lines]),
    ).fetchall()
    mark_changed(connection, [lines[0].day], now=now)
    return tuple(map(line_of, rows))


def line_of(row: tuple[Any, ...]) -> QuarantinedLine:
    """A row of ``COLUMNS``."""
    return QuarantinedLine(
        id=row[0],
        day=row[1],
        task_id=row[2],
        gates=tuple(row[3]),
        reasons=tuple(row[4]),
        state=row[5],
        note=row[6],
        reviewed_at=row[7],
        line=bytes(row[8]).decode(errors="replace"),
    )
