"""Requests for access, what was decided about them, and the table that remembers. Grants are never changed or removed.

PostgreSQL holds the four eyes itself: who approves is neither who asked nor who is given access.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from psycopg import Connection, sql
from psycopg.errors import CheckViolation, InsufficientPrivilege

from flywheel.errors import AccessError
from flywheel.pool.access.audit import record
from flywheel.pool.access.decisions import Fields, Grant, Role, check_principal, needs_approval, standing
from flywheel.pool.access.principals import service_of
from flywheel.pool.access.roles import end_sessions, may_manage_roles, rights_needed, role_of, sync_role
from flywheel.pool.headers import key_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenant_salts import COMPLETE_GRANTS, hashing, remember_tenants

COLUMNS = sql.SQL(", ").join(map(sql.Identifier, Grant.__struct_fields__))
SELECTED = sql.SQL("SELECT {} FROM access_grants ").format(COLUMNS)
FOUR_EYES = "ck_access_grants_four_eyes"


def request_grant(
    pool: BenchmarkPool,
    *,
    principal: str,
    role: Role,
    by: str,
    reason: str,
    now: datetime,
    fields: Fields = "anonymized",
    tenants: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    expires_at: datetime | None = None,
) -> Grant:
    """Ask for access. It is in force at once, unless the setting ``access`` wants an approval.

    Args:
        pool: the pool.
        principal: the PostgreSQL role whose access it will be; it need not exist yet.
        role: what it is for.
        by: who asks.
        reason: why, for those who read it later.
        now: the present.
        fields: ``all`` also shows what was not anonymized, which only reviewers see.
        tenants: names of tenants; only their hashes are kept. None is all.
        since: of points, included.
        until: of points, not included.
        expires_at: when the access ends by itself.

    Raises:
        AccessError: it makes no sense as asked, or no grant would bind a role of that name.
        PoolError: the tenant salt cannot be used, or is not the pool's.
        DatabaseError: PostgreSQL cannot be used.
    """
    check_principal(principal)
    check_request(by=by, reason=reason, tenants=tenants, since=since, until=until, expires_at=expires_at, now=now)
    keys = [key_of(name) for name in tenants] if tenants and role == "reviewer" else None
    values = {
        "principal": principal,
        "role": role,
        "tenant_keys": keys,
        "fields": fields,
        "since": since,
        "until": until,
        "reason": reason,
        "requested_at": now,
        "requested_by": by,
        "needs_approval": needs_approval(pool.settings.access, role, fields),
        "expires_at": expires_at,
    }
    with pool.transaction() as connection:
        role_of(connection, principal)
        grant = insert_grant(pool, connection, values, tenants)
    sync(pool, principal, now=now)
    return grant


def insert_grant(
    pool: BenchmarkPool, connection: Connection[Any], values: dict[str, Any], tenants: Sequence[str] | None
) -> Grant:
    """Enter a grant for tenants by their names, of which it keeps every hash that points may carry."""
    hashes = None
    if tenants:
        salts = hashing(service_of(pool), connection)
        with pool.as_service(connection):
            remember_tenants(connection, tenants, salts)
        hashes = [salts.hashes(name)[0] for name in tenants]
    insert = sql.SQL("INSERT INTO access_grants ({}) VALUES ({}) RETURNING id").format(
        sql.SQL(", ").join(map(sql.Identifier, ("tenants", *values))),
        sql.SQL(", ").join(map(sql.Placeholder, ("tenants", *values))),
    )
    row = connection.execute(insert, {"tenants": hashes, **values}).fetchone()
    assert row is not None
    with pool.as_service(connection):
        connection.execute(COMPLETE_GRANTS)
    return locked(connection, row[0])


def check_request(
    *,
    by: str,
    reason: str,
    tenants: Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
    expires_at: datetime | None,
    now: datetime,
) -> None:
    """Make sure that a request says what it needs to, and asks for something.

    Raises:
        AccessError: it does not.
    """
    if not by.strip() or not reason.strip():
        raise AccessError("a request says who asks and why; give both")
    if tenants is not None and (not tenants or not all(name.strip() for name in tenants)):
        raise AccessError("a request for no tenant shows nothing; name tenants, or none at all for every one")
    if since is not None and until is not None and since >= until:
        raise AccessError(f"the time range from {since.isoformat()} to {until.isoformat()} is empty")
    if expires_at is not None and expires_at <= now:
        raise AccessError(f"the access would end at {expires_at.isoformat()}, which is past")


def approve(pool: BenchmarkPool, grant_id: int, *, by: str, now: datetime) -> Grant:
    """Put a grant that waits into force.

    Raises:
        AccessError: there is none, it does not wait, or ``by`` asked for it or is given it; refusals are audited.
        DatabaseError: PostgreSQL cannot be used.
    """
    with refusals_audited(pool, "grant.approve", grant_id, by=by), pool.transaction() as connection:
        grant = locked(connection, grant_id)
        state = standing(grant, now=now)
        if state != "waiting for approval":
            raise AccessError(f"grant {grant_id} of {grant.principal} is {state}; only one that waits can be approved")
        connection.execute(
            "UPDATE access_grants SET approved_at = %s, approved_by = %s WHERE id = %s", (now, by, grant_id)
        )
        with pool.as_service(connection):
            connection.execute(COMPLETE_GRANTS)  # it may have been asked for in SQL, by hashes of one salt
        approved = locked(connection, grant_id)
    sync(pool, approved.principal, now=now)
    return approved


def revoke(pool: BenchmarkPool, grant_id: int, *, by: str, reason: str, now: datetime) -> Grant:
    """End a grant, and the sessions that its principal has open: a long transaction would go on seeing the past.

    Raises:
        AccessError: there is none, or it is revoked already; refusals are audited.
        DatabaseError: PostgreSQL cannot be used.
    """
    with refusals_audited(pool, "grant.revoke", grant_id, by=by), pool.transaction() as connection:
        grant = locked(connection, grant_id)
        if grant.revoked_at is not None:
            raise AccessError(f"grant {grant_id} of {grant.principal} was revoked at {grant.revoked_at.isoformat()}")
        connection.execute(
            "UPDATE access_grants SET revoked_at = %s, revoked_by = %s, revoked_because = %s WHERE id = %s",
            (now, by, reason, grant_id),
        )
        revoked = locked(connection, grant_id)
    with service_of(pool).transaction() as connection:
        end_sessions(connection, revoked.principal)
    sync(pool, revoked.principal, now=now)
    return revoked


@contextmanager
def refusals_audited(pool: BenchmarkPool, action: str, grant_id: int, *, by: str) -> Iterator[None]:
    """Enter what is refused within into the audit, also what the database refuses.

    Raises:
        AccessError: it was refused.
    """
    try:
        try:
            yield
        except CheckViolation as error:
            if error.diag.constraint_name != FOUR_EYES:
                raise
            raise AccessError(
                f"{by} asked for grant {grant_id} or is given it; somebody else has to approve it"
            ) from error
        except InsufficientPrivilege as error:
            raise AccessError(f"PostgreSQL refuses this to {by}: {error.diag.message_primary}") from error
    except AccessError as error:
        record(pool, action, principal=by, asked={"grant": grant_id}, refusal=str(error))
        raise


def sync(pool: BenchmarkPool, principal: str, *, now: datetime) -> None:
    """Bring the principal's memberships in line with its grants, where its role exists and this user may manage it.

    Rows are held by the grants themselves: without this a membership shows nothing, and a new grant waits for a login.
    """
    with rights_needed(principal), service_of(pool).exclusive("access") as connection:
        if may_manage_roles(connection):
            sync_role(connection, principal, grants_in_force(connection, principal, now=now))


def grant_of(pool: BenchmarkPool, grant_id: int) -> Grant:
    """The grant with this number, as it stands.

    Raises:
        AccessError: there is none.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        row = connection.execute(SELECTED + sql.SQL("WHERE id = %s"), (grant_id,)).fetchone()
    if row is None:
        raise AccessError(f"there is no grant {grant_id}; `flywheel access list --all` shows them")
    return grant_from(row)


def grants_in_force(connection: Connection[Any], principal: str, *, now: datetime) -> tuple[Grant, ...]:
    """The principal's grants that count, oldest first."""
    found = list_grants_of(connection, principal)
    return tuple(grant for grant in found if standing(grant, now=now) == "in force")


def list_grants(pool: BenchmarkPool, *, principal: str | None = None) -> tuple[Grant, ...]:
    """All grants, or a principal's, oldest first.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return list_grants_of(connection, principal)


def list_grants_of(connection: Connection[Any], principal: str | None) -> tuple[Grant, ...]:
    """The same, in the caller's transaction."""
    wanted = sql.SQL("WHERE %(principal)s::text IS NULL OR principal = %(principal)s ORDER BY id")
    return tuple(map(grant_from, connection.execute(SELECTED + wanted, {"principal": principal})))


def locked(connection: Connection[Any], grant_id: int) -> Grant:
    """The grant, which nobody else decides about until the transaction ends.

    Raises:
        AccessError: there is none.
    """
    row = connection.execute(SELECTED + sql.SQL("WHERE id = %s FOR UPDATE"), (grant_id,)).fetchone()
    if row is None:
        raise AccessError(f"there is no grant {grant_id}; `flywheel access list --all` shows them")
    return grant_from(row)


def grant_from(row: Sequence[Any]) -> Grant:
    """A row of ``COLUMNS``."""
    values = dict(zip(Grant.__struct_fields__, row, strict=True))
    tenants, aliases = values.pop("tenants"), values.pop("aliases")
    return Grant(tenants=None if tenants is None else tuple(tenants), aliases=tuple(aliases or ()), **values)
