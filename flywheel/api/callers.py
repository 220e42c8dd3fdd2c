"""Who calls: the owner of the installation, by its token, or the principal of a grant, by one of the grant's tokens."""

import secrets
from datetime import UTC, datetime
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from msgspec import Struct

from flywheel.errors import FlywheelError
from flywheel.pool.access.decisions import Grant
from flywheel.pool.access.tokens import Refusal, authenticate
from flywheel.secret_files import secret_of

if TYPE_CHECKING:
    from flywheel.settings import Settings

TOKEN_BYTES = 32
OWNER = "flywheel_owner"
"""Whom the audit names for the installation's token. No principal can be called so."""
TOKENS = (
    "send a grant's token (`flywheel access token GRANT_ID` makes it) or the installation's (the file "
    "secrets/api_token in its home) as `Authorization: Bearer …`"
)
bearer = HTTPBearer(
    auto_error=False,
    description="A grant's token, from `flywheel access token GRANT_ID`; or the installation's own, which may read "
    "everything: the file `secrets/api_token` in its home.",
)


class UnauthorizedError(FlywheelError):
    """Raised for a request without a token that is good. Send ``Authorization: Bearer TOKEN``."""


class Caller(Struct, frozen=True):
    """Who asks, and under which grant; the owner of the installation needs none."""

    name: str
    grant: Grant | None = None


def api_token(settings: "Settings") -> bytes:
    """The installation's token as it is sent, 64 hex digits: ``secrets/api_token`` below home, made once.

    Raises:
        PoolError: the file cannot be made or read, or others may read it.
    """
    return secret_of(
        settings.home / "secrets" / "api_token",
        name="API token",
        make=lambda: secrets.token_hex(TOKEN_BYTES).encode(),
    )


def authorized(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Caller:
    """The caller of a request.

    Raises:
        UnauthorizedError: it has no token, or one that is not good; if it was issued here, the audit has it.
        DatabaseError: PostgreSQL cannot be used.
    """
    if credentials is None:
        raise UnauthorizedError(f"this request has no bearer token; {TOKENS}")
    expected: bytes = request.app.state.token
    if compare_digest(credentials.credentials.encode(), expected):
        return Caller(OWNER)
    found = authenticate(request.app.state.pool, credentials.credentials, now=datetime.now(UTC))
    if isinstance(found, Refusal):
        raise UnauthorizedError(f"{found.reason}; {TOKENS}")
    return Caller(found.principal, found)
