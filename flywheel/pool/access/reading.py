"""The one way in which a caller who is not the service reads: allowed, narrowed, bound by PostgreSQL, audited."""

from collections.abc import Callable, Sized
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from flywheel.errors import AccessError, NotInPoolError
from flywheel.pool.access.audit import Asked, described, record
from flywheel.pool.access.decisions import ACTIONS, Grant, narrow, why_refused
from flywheel.pool.access.grants import grant_of
from flywheel.pool.access.principals import as_principal
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.statistics import judges_points

T = TypeVar("T")
Read = Callable[[BenchmarkPool, PointFilter], T]


def rows_of(found: object) -> int:
    """How many rows were given out: those of a sequence, or one answer."""
    return len(found) if isinstance(found, Sized) else 1


def read_as(
    pool: BenchmarkPool,
    grant: Grant,
    action: str,
    read: Read[T],
    *,
    now: datetime,
    asked: PointFilter | None = None,
    details: Asked | None = None,
    rows: Callable[[T], int | None] = rows_of,
) -> T:
    """What ``read`` finds with the pool and the filter that the grant leaves of what was asked; audited either way.

    PostgreSQL holds the grant itself. For the lake the filter is all there is: ``read`` must not go beyond it.

    Args:
        pool: the service's.
        grant: whose access it is; looked up anew, so that one revoked meanwhile is refused.
        action: a key of ``ACTIONS``.
        read: asks the pool it is given, within the filter it is given.
        now: the present.
        asked: which points; None for what is no point.
        details: what else was asked, for the audit.
        rows: counts what was found, for the audit; None where it is given out while it is read.

    Raises:
        AccessError: the grant does not allow it; the refusal is in the audit.
        NotInPoolError: there is no such thing, or none that the grant shows; audited as 0 rows.
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    wanted = PointFilter() if asked is None else asked
    conditions = described(wanted) | described(details or {})
    try:
        current = grant_of(pool, grant.id)
        refusal = why_refused(current, action, now=now)
        if refusal:
            raise AccessError(refusal)
        where = narrow(wanted, current)
        if ACTIONS[action].by_hour:
            where = within_hours(where, current)
        found = read(as_principal(pool, current), where)
    except AccessError as error:
        record(pool, action, principal=grant.principal, grant=grant, asked=conditions, refusal=str(error))
        raise
    except NotInPoolError:
        record(pool, action, principal=grant.principal, grant=grant, asked=conditions, rows=0)
        raise
    record(pool, action, principal=grant.principal, grant=grant, asked=conditions, rows=rows(found))
    return found


def read_as_service(
    pool: BenchmarkPool,
    name: str,
    action: str,
    read: Read[T],
    *,
    asked: PointFilter | None = None,
    details: Asked | None = None,
    rows: Callable[[T], int | None] = rows_of,
) -> T:
    """What ``read`` finds with the service's rights, of all that was asked; entered into the audit under a name.

    Raises:
        NotInPoolError: there is no such thing; audited as 0 rows.
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    wanted = PointFilter() if asked is None else asked
    conditions = described(wanted) | described(details or {})
    try:
        found = read(pool, wanted)
    except NotInPoolError:
        record(pool, action, principal=name, asked=conditions, rows=0)
        raise
    record(pool, action, principal=name, asked=conditions, rows=rows(found))
    return found


def within_hours(where: PointFilter, grant: Grant) -> PointFilter:
    """The filter without the hour in which the grant's time range ends: what is counted by the hour is rounded up."""
    if grant.until is None or where.until is None or where.tenants or judges_points(where):
        return where
    hour = grant.until.replace(minute=0, second=0, microsecond=0)
    until = min(where.until, hour)
    return replace(where, until=until if where.since is None else max(until, where.since))
