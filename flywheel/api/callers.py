"""Who calls. Today everyone who shows the installation's token is one caller, who may ask everything."""

import secrets
from hmac import compare_digest
from typing import TYPE_CHECKING, Annotated

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from msgspec import Struct

from flywheel.errors import FlywheelError
from flywheel.secret_files import secret_of

if TYPE_CHECKING:
    from flywheel.settings import Settings

TOKEN_BYTES = 32
bearer = HTTPBearer(auto_error=False, description="The installation's token: the file `secrets/api_token` in its home.")


class UnauthorizedError(FlywheelError):
    """Raised for a request without the right token. Send ``Authorization: Bearer TOKEN``."""


class Caller(Struct, frozen=True):
    """Who asks."""

    name: str


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


async def authorized(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Caller:
    """The caller of a request.

    Raises:
        UnauthorizedError: it has no token, or another one.
    """
    expected: bytes = request.app.state.token
    if credentials is None or not compare_digest(credentials.credentials.encode(), expected):
        raise UnauthorizedError(
            "this request has no bearer token, or another one than this installation's; send the content of the file "
            "secrets/api_token in its home as `Authorization: Bearer …`"
        )
    return Caller("installation")
