"""Tasks that lack a log: which they are, how many lack what since when, and whose time is over.

What is listed is what each day's last validation found. A log that came since makes its day stale, and the day's next
run, which the sensor starts within seconds, takes the task off the list.
"""

from collections.abc import Collection, Iterable
from datetime import date, datetime
from typing import Any

from msgspec import Struct
from psycopg import Connection, sql

from flywheel.pool.anonymization.tenants import Salts, salts_of
from flywheel.pool.intake import mark_changed
from flywheel.pool.pool import BenchmarkPool

COUNTS = sql.SQL(
    "SELECT array_to_string(missing, '+'), CASE WHEN age < interval '1 hour' THEN '<1h'"
    " WHEN age < interval '1 day' THEN '<1d' WHEN age < interval '3 days' THEN '<3d'"
    " WHEN age < interval '7 days' THEN '<7d' ELSE '>=7d' END, count(*)"
    " FROM (SELECT missing, %(now)s - since AS age FROM waiting_tasks"
    " WHERE %(day)s::date IS NULL OR day = %(day)s) AS waiting GROUP BY 1, 2 ORDER BY 1, 2"
)
LISTED = sql.SQL(
    "SELECT day, task_id, tenant_id, present, missing, since, lines FROM waiting_tasks"
    " WHERE (%(tenants)s::bytea[] IS NULL OR tenant_id = ANY(%(tenants)s))"
    " AND (%(before)s::timestamptz IS NULL OR since <= %(before)s)"
    " ORDER BY since, day, task_key, owner_key LIMIT %(limit)s"
)
# Days that are stale already run again anyway: marking them once more would let them run twice. Locked in order, as
# mark_changed does, so that two transactions cannot wait for each other.
DUE = (
    "SELECT day FROM days WHERE day IN (SELECT day FROM waiting_tasks WHERE since <= %s)"
    " AND revision <= validated_revision ORDER BY day FOR UPDATE"
)


class WaitingTask(Struct, frozen=True, kw_only=True):
    """A task that lacks a log. ``tenant_id`` is the tenant's hash, None where no log names one.

    ``since`` is when the first of its ``lines`` was taken in; at ``expires_at`` they go to quarantine.
    """

    day: date
    task_id: str
    tenant_id: str | None
    present: tuple[str, ...]
    missing: tuple[str, ...]
    since: datetime
    expires_at: datetime
    lines: int


def list_waiting(
    pool: BenchmarkPool,
    *,
    tenants: Collection[str] = (),
    before: datetime | None = None,
    limit: int | None = 50,
) -> tuple[WaitingTask, ...]:
    """Tasks that wait, the longest first.

    Args:
        pool: the pool, or a principal's: it is shown the tasks that its grant shows.
        tenants: hashes of tenants, under the present salt or the former; none: all.
        before: only tasks that have waited since then or longer.
        limit: at most so many.

    Raises:
        PoolError: the tenant salt cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    salts = salts_of(pool.settings)
    with pool.transaction() as connection:
        names = named_by(connection, frozenset(tenants), salts) if tenants else None
        rows = connection.execute(LISTED, {"tenants": names, "before": before, "limit": limit}).fetchall()
    longest_wait = pool.settings.joining.longest_wait
    return tuple(
        WaitingTask(
            day=day,
            task_id=task_id,
            tenant_id=None if tenant is None else salts.hashes(bytes(tenant).decode())[0],
            present=tuple(present),
            missing=tuple(missing),
            since=since,
            expires_at=since + longest_wait,
            lines=lines,
        )
        for day, task_id, tenant, present, missing, since, lines in rows
    )


def named_by(connection: Connection[Any], hashes: frozenset[str], salts: Salts) -> list[bytes]:
    """The names of the tenants with waiting tasks that these hashes stand for."""
    rows = connection.execute("SELECT DISTINCT tenant_id FROM waiting_tasks WHERE tenant_id IS NOT NULL").fetchall()
    return [name for (name,) in rows if not hashes.isdisjoint(salts.hashes(bytes(name).decode()))]


def count_waiting(pool: BenchmarkPool, day: date, *, now: datetime) -> dict[str, int]:
    """How many tasks of a day wait, by what they lack and how long: ``execution+evaluation, <1d``.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows: Iterable[tuple[str, str, int]] = connection.execute(COUNTS, {"now": now, "day": day}).fetchall()
    return {f"{missing}, {age}": tasks for missing, age, tasks in rows}


def expire_waiting(pool: BenchmarkPool, *, now: datetime) -> tuple[date, ...]:
    """Make days stale whose tasks have waited long enough: their next run turns these away. Returns the days.

    A day that is stale already is left alone, so asking again before it ran changes nothing. Only tasks whose time is
    over are read, by an index.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        due = [day for (day,) in connection.execute(DUE, (now - pool.settings.joining.longest_wait,))]
        mark_changed(connection, due, now=now)
    return tuple(due)
