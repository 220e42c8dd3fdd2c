"""Halts: something personal was found in a day's anonymized points, and the pool waits for a person (SPEC section 11).

While a halt is open no segment is indexed, no day runs by itself, and no batch or export is made. Collectors go on
writing their segments, which wait; retention goes on. Running the day again by hand tries mended detectors and lifts
nothing: only a person does, and what was lifted stays in the ledger.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct
from psycopg import Connection, sql

from flywheel.errors import PoolError
from flywheel.pool.anonymization.day import Violations, enter_violations
from flywheel.pool.pool import BenchmarkPool

COLUMNS = sql.SQL("id, day, reason, opened_at, lifted_at, lifted_by, note")
SELECTED = sql.SQL("SELECT {} FROM halts ").format(COLUMNS)


class Halt(Struct, frozen=True, kw_only=True):
    """A halt for the sake of one day. It is open until ``lifted_at``."""

    id: int
    day: date
    reason: str
    opened_at: datetime
    lifted_at: datetime | None
    lifted_by: str | None
    note: str


def halt_on_violations(pool: BenchmarkPool, day: date, *, now: datetime) -> Violations:
    """Look for what is left in the day's anonymized points, and open the day's halt if anything is.

    A day has one open halt at most, which keeps its first reason. A clean day opens none and lifts none. The count and
    the halt are one transaction: after a kill before its commit neither is there, and the day's next run looks again.

    Raises:
        PoolError: the lake cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"halt:{day}") as connection:
        found = enter_violations(pool, connection, day)
        if found.count:
            connection.execute(
                "INSERT INTO halts (day, reason, opened_at) VALUES (%s, %s, %s)"
                " ON CONFLICT (day) WHERE lifted_at IS NULL DO NOTHING",
                (day, reason_of(found), now),
            )
    return found


def reason_of(found: Violations) -> str:
    """Why a day halts the pool: counts by type, never a value."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.by_type.items()))
    return f"{found.count:,} privacy violations in {found.points:,} points ({kinds})"


def open_halts(pool: BenchmarkPool) -> tuple[Halt, ...]:
    """The halts that nobody lifted, oldest day first.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return read_open_halts(connection)


def read_open_halts(connection: Connection[Any]) -> tuple[Halt, ...]:
    """The same, in the caller's transaction."""
    return tuple(map(halt_of, connection.execute(SELECTED + sql.SQL("WHERE lifted_at IS NULL ORDER BY day"))))


def list_halts(pool: BenchmarkPool) -> tuple[Halt, ...]:
    """All halts there ever were, the open ones first, then by the time they were opened, newest first.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    newest_first = sql.SQL("ORDER BY lifted_at IS NOT NULL, opened_at DESC, id DESC")
    with pool.transaction() as connection:
        return tuple(map(halt_of, connection.execute(SELECTED + newest_first)))


def halt_of(row: tuple[Any, ...]) -> Halt:
    """A row of ``COLUMNS``, its times in UTC whatever the server's zone."""
    in_utc: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
    return Halt(**dict(zip(Halt.__struct_fields__, in_utc, strict=True)))


def halted_because(halts: Sequence[Halt]) -> str:
    """One sentence that says since when and why the pool is halted and how that ends; empty where it is not."""
    if not halts:
        return ""
    reasons = "; ".join(f"{halt.day}, since {halt.opened_at:%Y-%m-%d %H:%M} UTC: {halt.reason}" for halt in halts)
    return (
        f"the pool is halted by {reasons}. Run the day again with mended detectors, then lift it: "
        f"flywheel pool lift {halts[0].day} --by NAME --note TEXT"
    )


def lift(pool: BenchmarkPool, day: date, *, by: str, note: str, now: datetime) -> Halt:
    """Lift the day's halt in a person's name. The day's last check must have found nothing, or its points be gone.

    Raises:
        PoolError: the day halts nothing, nobody or nothing is said, or its points still hold what they should not.
        DatabaseError: PostgreSQL cannot be used.
    """
    if not by.strip() or not note.strip():
        raise PoolError(f"the halt of {day} stays: say who lifts it and what was seen (--by NAME --note TEXT)")
    with pool.exclusive(f"halt:{day}") as connection:
        lifted = connection.execute(
            sql.SQL("UPDATE halts SET lifted_at = %s, lifted_by = %s, note = %s")
            + sql.SQL(" WHERE day = %s AND lifted_at IS NULL RETURNING ")
            + COLUMNS,
            (now, by.strip(), note.strip(), day),
        ).fetchone()
        if lifted is None:
            raise PoolError(f"{day} does not halt the pool; `flywheel pool halts` lists what does")
        refusal = why_not_lifted(connection, day)
        if refusal:
            raise PoolError(f"the halt of {day} stays: {refusal}")
    return halt_of(lifted)


def why_not_lifted(connection: Connection[Any], day: date) -> str:
    """Why the day must go on halting the pool; empty where it need not."""
    row = connection.execute(
        "SELECT privacy_violations, points = 0 OR points_removed_at IS NOT NULL FROM days WHERE day = %s", (day,)
    ).fetchone()
    violations, is_empty = row or (0, True)
    again = f"Mend the detectors or take the points out, run the day {day} of pool_day again, then lift it"
    if is_empty or violations == 0:
        return ""
    if violations is None:
        return f"its points were made anew and not checked since. {again}"
    return f"its last check found {violations:,} privacy violations. {again}"
