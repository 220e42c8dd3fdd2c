"""The one way in which a caller who is not the service reads: allowed, narrowed, bound by PostgreSQL, audited."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from flywheel.errors import AccessError
from flywheel.pool.access.audit import Asked, described, record
from flywheel.pool.access.decisions import Grant, narrow, why_refused
from flywheel.pool.access.grants import grant_of
from flywheel.pool.access.principals import as_principal
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool

T = TypeVar("T")


def read_as(
    pool: BenchmarkPool,
    grant: Grant,
    action: str,
    read: Callable[[BenchmarkPool, PointFilter], Sequence[T]],
    *,
    now: datetime,
    asked: PointFilter | None = None,
    details: Asked | None = None,
) -> Sequence[T]:
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

    Raises:
        AccessError: the grant does not allow it; the refusal is in the audit.
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
        found = read(as_principal(pool, current), narrow(wanted, current))
    except AccessError as error:
        record(pool, action, principal=grant.principal, grant=grant, asked=conditions, refusal=str(error))
        raise
    record(pool, action, principal=grant.principal, grant=grant, asked=conditions, rows=len(found))
    return found
