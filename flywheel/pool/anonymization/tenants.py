"""The keyed hash of tenants, and its secret: from the settings, or from a file that is made once."""

import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING

from flywheel.secret_files import secret_of

if TYPE_CHECKING:
    from flywheel.settings import Settings

SALT_BYTES = 32


def tenant_hash(tenant_id: str, *, salt: bytes) -> str:
    """64 hex digits: blake2b keyed with the salt. Without it a tenant's hash can be neither made nor guessed."""
    return blake2b(tenant_id.encode(), key=blake2b(salt).digest(), digest_size=32).hexdigest()


def salt_of(settings: "Settings") -> bytes:
    """The secret of the tenant hash: the setting, or ``secrets/tenant_salt`` below the installation's home.

    Raises:
        PoolError: the file cannot be made or read, or others may read it.
    """
    configured = settings.tenant_salt.get_secret_value()
    if configured:
        return configured.encode()
    path = settings.home / "secrets" / "tenant_salt"
    return secret_of(
        path, name="tenant salt", make=lambda: secrets.token_bytes(SALT_BYTES), advice="; or set FLYWHEEL_TENANT_SALT"
    )
