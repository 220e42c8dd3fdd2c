"""The keyed hash of tenants, and its secret: from the settings, or from a file that is made once."""

import os
import secrets
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from flywheel.errors import PoolError

if TYPE_CHECKING:
    from flywheel.settings import Settings

SALT_BYTES = 32
PRIVATE = 0o600


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
    try:
        make_once(path)
        mode = path.stat().st_mode & 0o777
        salt = path.read_bytes()
    except OSError as error:
        raise PoolError(f"the tenant salt {path} cannot be used: {error}; or set FLYWHEEL_TENANT_SALT") from error
    if mode & 0o077:
        raise PoolError(f"the tenant salt {path} is readable by others (mode {mode:o}); run `chmod 600 {path}`")
    if len(salt) != SALT_BYTES:
        raise PoolError(f"the tenant salt {path} has {len(salt)} bytes, not {SALT_BYTES}; restore it from a backup")
    return salt


def make_once(path: Path) -> None:
    """Make the file with a fresh secret unless it is there; of several processes at once one wins, whole."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(scratch, path)  # fails where rename would replace another process's salt
        except FileExistsError:
            return
    finally:
        scratch.unlink()
