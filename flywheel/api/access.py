"""What a caller may do: every route names the action that it needs, and reads through ``Access.read`` alone."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from msgspec import Struct

from flywheel.api.callers import OWNER, Caller, authorized
from flywheel.api.problems import documented
from flywheel.errors import AccessError
from flywheel.pool.access.audit import NOTHING, record
from flywheel.pool.access.decisions import ACTIONS, Action, action_of, why_refused
from flywheel.pool.access.reading import Read, read_as, read_as_service, rows_of
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool

T = TypeVar("T")


class Access(Struct, frozen=True, kw_only=True):
    """A caller who may do what a route is for."""

    pool: BenchmarkPool
    caller: Caller
    action: str
    path: str

    def read(
        self,
        read: Read[T],
        *,
        asked: PointFilter | None = None,
        details: Mapping[str, Any] = NOTHING,
        rows: Callable[[T], int | None] = rows_of,
    ) -> T:
        """What ``read`` finds with the pool and the filter that are the caller's; in the audit before it is returned.

        Raises:
            AccessError: the grant does not allow it.
            NotInPoolError: there is no such thing.
            PoolError: the lake cannot be read.
            DatabaseError: PostgreSQL cannot be used.
        """
        told = {"path": self.path, **details}
        grant = self.caller.grant
        if grant is None:
            return read_as_service(self.pool, OWNER, self.action, read, asked=asked, details=told, rows=rows)
        now = datetime.now(UTC)
        return read_as(self.pool, grant, self.action, read, now=now, asked=asked, details=told, rows=rows)


def allowed(action: str) -> Callable[..., Access]:
    """A dependency: the access of a caller who may do it (a key of ``ACTIONS``). Others are refused and audited."""

    def checked(request: Request, caller: Annotated[Caller, Depends(authorized)]) -> Access:
        pool: BenchmarkPool = request.app.state.pool
        path, grant = request.url.path, caller.grant
        if grant is None:
            return Access(pool=pool, caller=caller, action=action, path=path)
        needed = action_of(action, grant)
        refusal = why_refused(grant, needed, now=datetime.now(UTC))
        if refusal:
            asked = {"path": path, "query": request.url.query}
            record(pool, needed, principal=grant.principal, grant=grant, asked=asked, refusal=refusal)
            raise AccessError(refusal)
        return Access(pool=pool, caller=caller, action=needed, path=path)

    return checked


def refusals(action: str) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes who may not ask a route for this action."""
    found = documented(HTTPStatus.FORBIDDEN)
    found[HTTPStatus.FORBIDDEN.value]["description"] = f"Needs {needs(action)}, or the installation's token."
    return found


def needs(action: str) -> str:
    """Which grants allow an action, in words."""
    demanded = ACTIONS[action]
    words = f"a grant as {' or '.join(demanded.roles)}{limits(demanded)}"
    if not demanded.of_tenants:
        return words
    return f"{words} (one as {' or '.join(ACTIONS[demanded.of_tenants].roles)} for some tenants is answered for these)"


def limits(demanded: Action) -> str:
    """What such a grant may not be limited to."""
    return (" for all tenants" if demanded.whole_pool else "") + (" and all times" if demanded.all_time else "")
