"""The audit of access: a table that only grows. What is read is entered, and committed, before it is given out.

Requests, approvals, revocations and tokens are entered by triggers, whoever makes them; see migration ``0008_access``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from psycopg.types.json import Jsonb

from flywheel.pool.access.decisions import Grant
from flywheel.pool.access.principals import service_of
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import column_text

Asked = PointFilter | Mapping[str, Any]
NOTHING: Mapping[str, Any] = {}


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One access, or a refused one. ``session`` is the database user that entered it; ``rows`` were given out."""

    id: int
    at: datetime
    principal: str
    session: str
    role: str | None
    grant_id: int | None
    action: str
    asked: dict[str, Any]
    rows: int | None
    allowed: bool
    reason: str


def record(
    pool: BenchmarkPool,
    action: str,
    *,
    principal: str,
    grant: Grant | None = None,
    asked: Asked = NOTHING,
    rows: int | None = None,
    refusal: str = "",
) -> None:
    """Enter an access into the audit, in a transaction of its own. A ``refusal`` says why it was not allowed.

    Raises:
        DatabaseError: PostgreSQL cannot be used; then nothing may be given out.
    """
    with service_of(pool).transaction() as connection:
        connection.execute(
            "INSERT INTO access_audit (principal, role, grant_id, action, asked, rows, allowed, reason)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                principal,
                grant.role if grant else None,
                grant.id if grant else None,
                action,
                Jsonb(described(asked)),
                rows,
                not refusal,
                refusal,
            ),
        )


def described(asked: Asked) -> dict[str, Any]:
    """What was asked as plain JSON values, without the conditions that ask for nothing."""
    values = msgspec.structs.asdict(asked) if isinstance(asked, PointFilter) else dict(asked)
    plain: dict[str, Any] = msgspec.to_builtins({name: value for name, value in values.items() if value or value == 0})
    return {name: storable(value) for name, value in plain.items()}


def storable(value: Any) -> Any:
    """The value with texts as PostgreSQL can hold them."""
    if isinstance(value, str):
        return column_text(value)
    return [storable(part) for part in value] if isinstance(value, list | tuple) else value


def list_audit(
    pool: BenchmarkPool,
    *,
    principal: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
    refused: bool = False,
    limit: int = 100,
) -> tuple[AuditEntry, ...]:
    """The audit's entries, newest first; with ``refused`` only what was not allowed.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT id, at, principal, session, role, grant_id, action, asked, rows, allowed, reason FROM access_audit"
            " WHERE (%(principal)s::text IS NULL OR principal = %(principal)s)"
            " AND (%(action)s::text IS NULL OR action = %(action)s)"
            " AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) AND NOT (%(refused)s AND allowed)"
            " ORDER BY id DESC LIMIT %(limit)s",
            {"principal": principal, "action": action, "since": since, "refused": refused, "limit": limit},
        ).fetchall()
    return tuple(AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True))) for row in rows)
