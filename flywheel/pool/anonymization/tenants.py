"""The keyed hash of tenants, and its secret: from the settings, or from a file that is made once.

While the salt is rotated there are two: the present one, which every new hash is made with, and the former one, under
which points may still be found.
"""

import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Struct
from typing_extensions import override

from flywheel.errors import PoolError
from flywheel.secret_files import read_secret, secret_of

if TYPE_CHECKING:
    from pathlib import Path

    from flywheel.settings import Settings

SALT_BYTES = 32
PRESENT_FILE = "tenant_salt"
FORMER_FILE = "tenant_salt_previous"
ID_PURPOSE = b"tenant-salt-id"


class Salt(bytes):
    """The secret, which shows itself to the hash alone: in messages, tracebacks and logs it reads ``Salt(…)``."""

    @override
    def __repr__(self) -> str:
        return "Salt(…)"

    @override
    def __str__(self) -> str:
        return "Salt(…)"

    @override
    def __format__(self, format_spec: str) -> str:
        return "Salt(…)"


class Salts(Struct, frozen=True, kw_only=True):
    """The salt that new hashes are made with, and the former one as long as something may carry its hashes."""

    present: Salt
    former: Salt | None = None

    def hashes(self, tenant_id: str) -> tuple[str, ...]:
        """Every hash that stands for a tenant, the present one first."""
        return tuple(tenant_hash(tenant_id, salt=salt) for salt in (self.present, self.former) if salt is not None)


def tenant_hash(tenant_id: str, *, salt: bytes) -> str:
    """64 hex digits: blake2b keyed with the salt. Without it a tenant's hash can be neither made nor guessed."""
    return blake2b(tenant_id.encode(), key=blake2b(salt).digest(), digest_size=32).hexdigest()


def new_salt() -> Salt:
    """A secret that nobody can guess."""
    return Salt(secrets.token_bytes(SALT_BYTES))


def salt_id(salt: Salt) -> str:
    """16 hex digits that tell one salt from another, and nothing about it: what ledgers know it by."""
    return blake2b(salt, digest_size=8, person=ID_PURPOSE).hexdigest()


def salt_file(settings: "Settings", name: str = PRESENT_FILE) -> "Path":
    """Where an installation keeps a salt that the settings do not give."""
    return settings.home / "secrets" / name


def salt_of(settings: "Settings") -> Salt:
    """The secret of the tenant hash: the setting, or ``secrets/tenant_salt`` below the installation's home.

    Raises:
        PoolError: the file cannot be made or read, or others may read it.
    """
    if settings.tenant_salt.get_secret_value():
        return Salt(settings.tenant_salt.get_secret_value().encode())
    return Salt(
        secret_of(
            salt_file(settings),
            name="tenant salt",
            make=new_salt,
            advice="; or set FLYWHEEL_TENANT_SALT",
        )
    )


def former_salt_of(settings: "Settings") -> Salt | None:
    """The salt that is being rotated away, if there is one: the setting, or a file that the rotation left below home.

    An installation whose salt was a file and is now a setting rotates that file's salt away.

    Raises:
        PoolError: the file cannot be read, or others may read it; or there are several.
    """
    configured = bool(settings.tenant_salt_previous.get_secret_value())
    names = (FORMER_FILE, PRESENT_FILE) if settings.tenant_salt.get_secret_value() else (FORMER_FILE,)
    files = [path for name in names if (path := salt_file(settings, name)).exists()]
    if len(files) + configured > 1:
        given = [*(["the setting tenant_salt_previous"] if configured else []), *map(str, files)]
        raise PoolError(
            f"there are several former tenant salts, of which one can be rotated away at a time: {', '.join(given)}. "
            f"Remove those that were never used or are forgotten (`flywheel keys status` names their ids)"
        )
    if configured:
        return Salt(settings.tenant_salt_previous.get_secret_value().encode())
    if not files:
        return None
    try:
        return Salt(read_secret(files[0], name="former tenant salt", size=SALT_BYTES))
    except PoolError:
        if files[0].exists():
            raise
        return None  # the rotation was finished meanwhile


def salts_of(settings: "Settings") -> Salts:
    """The salts that hashes in the pool may be of.

    Raises:
        PoolError: a file cannot be made or read, or others may read it; or there are several former salts.
    """
    present = salt_of(settings)
    former = former_salt_of(settings)
    if former == present:  # a rotation begins just now, or was killed before it made the new one
        present = salt_of(settings)
    return Salts(present=present, former=None if former == present else former)
