"""Tokens: a grant's way in over HTTP. Only a keyed hash of each is kept; the secret of the tenant hash is the key's."""

import hmac
import re
import secrets
from datetime import datetime, timedelta
from hashlib import blake2b

from msgspec import Struct

from flywheel.errors import AccessError
from flywheel.pool.access.audit import record
from flywheel.pool.access.decisions import Grant, standing
from flywheel.pool.access.grants import grant_of, grants_in_force
from flywheel.pool.access.principals import service_of
from flywheel.pool.access.roles import ensure_role, rights_needed, sync_role
from flywheel.pool.anonymization.tenants import Salt, salt_id, salts_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenant_salts import hashing

TOKEN = re.compile(r"fwt_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
PURPOSE = b"access-tokens"
UNKNOWN = "the token is not known here"


class Token(Struct, frozen=True, kw_only=True):
    """A token as it is shown, this once."""

    id: str
    token: str
    grant_id: int
    principal: str
    expires_at: datetime


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a token lets nobody in. To be told to its bearer in as few words as possible."""

    reason: str


def issue_token(pool: BenchmarkPool, grant_id: int, *, by: str, now: datetime) -> Token:
    """A token for one grant, as good as the grant and for ``token_days`` at most. Makes the principal's role.

    Raises:
        AccessError: there is no such grant, or it is not in force; or the role cannot be made.
        PoolError: the secret cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    grant = grant_of(pool, grant_id)
    if standing(grant, now=now) != "in force":
        raise AccessError(f"grant {grant_id} of {grant.principal} is {standing(grant, now=now)}; it gets no token")
    token_id = secrets.token_hex(6)
    token = f"fwt_{token_id}_{secrets.token_urlsafe(32)}"
    longest = now + timedelta(days=pool.settings.access.token_days)
    expires_at = min(longest, grant.expires_at or longest)
    with rights_needed(grant.principal), service_of(pool).exclusive("access") as connection:
        ensure_role(connection, grant.principal)
        sync_role(connection, grant.principal, grants_in_force(connection, grant.principal, now=now))
        salt = hashing(service_of(pool), connection).present
        connection.execute(
            "INSERT INTO access_tokens (id, grant_id, digest, salt, issued_at, issued_by, expires_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (token_id, grant_id, token_digest(token, salt=salt), salt_id(salt), now, by, expires_at),
        )
    return Token(id=token_id, token=token, grant_id=grant_id, principal=grant.principal, expires_at=expires_at)


def revoke_token(pool: BenchmarkPool, token_id: str, *, by: str, now: datetime) -> None:
    """End one token; its grant goes on.

    Raises:
        AccessError: there is none that is good.
        DatabaseError: PostgreSQL cannot be used.
    """
    with service_of(pool).transaction() as connection:
        done = connection.execute(
            "UPDATE access_tokens SET revoked_at = %s, revoked_by = %s WHERE id = %s AND revoked_at IS NULL",
            (now, by, token_id),
        )
        if not done.rowcount:
            raise AccessError(f"there is no token {token_id} that could be revoked")


def authenticate(pool: BenchmarkPool, token: str, *, now: datetime) -> Grant | Refusal:
    """The grant that a token is for, where both are good.

    One that was issued under the former salt is good while the salt is rotated, and from its first use on under the
    present one. What is refused to a token that was issued is in the audit; guesses at tokens that never were are not,
    since anybody could fill it with them.

    Raises:
        PoolError: the secret cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    shaped = TOKEN.fullmatch(token)
    if shaped is None:
        return Refusal(reason=UNKNOWN)
    token_id = shaped[1]
    salts = salts_of(pool.settings)
    with service_of(pool).transaction() as connection:
        row = connection.execute(
            "SELECT grant_id, digest, expires_at, revoked_at, salt FROM access_tokens WHERE id = %s", (token_id,)
        ).fetchone()
        present = token_digest(token, salt=salts.present)
        stored = bytes(row[1]) if row else bytes(len(present))
        right = hmac.compare_digest(present, stored)
        if salts.former is not None:
            right |= hmac.compare_digest(token_digest(token, salt=salts.former), stored)
        if row is None:
            return Refusal(reason=UNKNOWN)
        if right and row[4] != salt_id(salts.present):
            connection.execute(
                "UPDATE access_tokens SET digest = %s, salt = %s WHERE id = %s AND digest = %s",
                (present, salt_id(salts.present), token_id, stored),
            )
    grant = grant_of(service_of(pool), row[0])
    reason = why_not_let_in(grant, right=right, expires_at=row[2], revoked_at=row[3], now=now)
    if not reason:
        return grant
    record(pool, "authenticate", principal=grant.principal, grant=grant, asked={"token": token_id}, refusal=reason)
    return Refusal(reason=reason if right else UNKNOWN)


def why_not_let_in(
    grant: Grant, *, right: bool, expires_at: datetime, revoked_at: datetime | None, now: datetime
) -> str:
    """Why a token that was issued lets nobody in; empty where it does."""
    if not right:
        return "the secret of the token is wrong"
    if revoked_at is not None:
        return f"the token was revoked at {revoked_at.isoformat()}"
    if expires_at <= now:
        return f"the token ended at {expires_at.isoformat()}"
    state = standing(grant, now=now)
    return "" if state == "in force" else f"grant {grant.id} is {state}"


def token_digest(token: str, *, salt: Salt) -> bytes:
    """32 bytes: blake2b of the whole token, keyed for this purpose alone."""
    key = blake2b(salt, digest_size=32, person=PURPOSE).digest()
    return blake2b(token.encode(), key=key, digest_size=32).digest()
