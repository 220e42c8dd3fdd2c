"""Keys of the receiver: each is of one tenant, and decides whose logs come with it and whose tasks are run.

Running tasks costs money: only keys that were made for it may. Of each key only a digest is kept.
"""

import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b

from msgspec import Struct

from flywheel.errors import DatabaseError, FlywheelError, InputError, NotInPoolError
from flywheel.pool.pool import BenchmarkPool

KEY = re.compile(r"fwk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
REMEMBERED = 10_000
LONGEST_TENANT = 512


class UnknownKeyError(FlywheelError):
    """Raised for a request without a key that is good. Send ``Authorization: Bearer KEY``."""


class MayNotRunError(FlywheelError):
    """Raised where tasks are to be run with a key that was made for sending records. Make one with --may-run-tasks."""


class ApiKey(Struct, frozen=True, kw_only=True):
    """What is known of a key, without its secret."""

    id: str
    tenant_id: str
    name: str
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    may_run_tasks: bool = False


class NewKey(Struct, frozen=True, kw_only=True):
    """A key as it is shown, this once."""

    id: str
    key: str
    tenant_id: str
    name: str
    may_run_tasks: bool = False


class Holder(Struct, frozen=True):
    """Whose request it is, and whether tasks may be run with its key."""

    key_id: str
    tenant_id: str
    may_run_tasks: bool = False


class Known(Struct, frozen=True):
    """What PostgreSQL said of a key id, and when (monotonic seconds). Without a digest: there is no such key."""

    digest: bytes
    tenant_id: str
    read_at: float
    may_run_tasks: bool = False


def create_key(
    pool: BenchmarkPool, tenant_id: str, *, name: str, by: str, now: datetime, may_run_tasks: bool = False
) -> NewKey:
    """A key for a tenant, which sends records and, where it may, has tasks run. It is shown once.

    Raises:
        InputError: no tenant is called so.
        DatabaseError: PostgreSQL cannot be used.
    """
    if not tenant_id.strip() or len(tenant_id) > LONGEST_TENANT:
        raise InputError(f"a tenant has a name of 1 to {LONGEST_TENANT} characters; {tenant_id[:40]!r} is none")
    key_id = secrets.token_hex(6)
    key = f"fwk_{key_id}_{secrets.token_urlsafe(32)}"
    with pool.transaction() as connection:
        connection.execute(
            "INSERT INTO api_keys (id, tenant_id, name, digest, created_at, created_by, may_run_tasks)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (key_id, tenant_id, name, key_digest(key), now, by, may_run_tasks),
        )
    return NewKey(id=key_id, key=key, tenant_id=tenant_id, name=name, may_run_tasks=may_run_tasks)


def list_keys(pool: BenchmarkPool) -> list[ApiKey]:
    """All keys, the newest first, revoked ones included."""
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT id, tenant_id, name, created_at, created_by, revoked_at, revoked_by, may_run_tasks FROM api_keys"
            " ORDER BY created_at DESC, id"
        ).fetchall()
    return [ApiKey(**dict(zip(ApiKey.__struct_fields__, row, strict=True))) for row in rows]


def revoke_key(pool: BenchmarkPool, key_id: str, *, by: str, now: datetime) -> None:
    """End a key. Receivers that have it in memory refuse it after ``receiver.key_cache_s``.

    Raises:
        NotInPoolError: there is no such key that is good.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        done = connection.execute(
            "UPDATE api_keys SET revoked_at = %s, revoked_by = %s WHERE id = %s AND revoked_at IS NULL",
            (now, by, key_id),
        )
        if not done.rowcount:
            raise NotInPoolError(f"there is no key {key_id} that could be revoked; `flywheel keys list` shows them")


def forget_keys(pool: BenchmarkPool, tenant_id: str) -> int:
    """Delete a tenant's keys, and with them the answers to its requests. Returns how many there were."""
    with pool.transaction() as connection:
        return connection.execute("DELETE FROM api_keys WHERE tenant_id = %s", (tenant_id,)).rowcount


def key_digest(key: str) -> bytes:
    """32 bytes. A key has 256 random bits, so its digest needs no salt: there is no list to try."""
    return blake2b(key.encode(), digest_size=32, person=b"flywheel-api-key").digest()


class KeyRing:
    """The keys that were used lately, so that not every request asks PostgreSQL. Safe for threads.

    What it says is at most ``cache_s`` old; while PostgreSQL is away, keys it knows are good for ``outage_s``.
    """

    def __init__(
        self,
        pool: BenchmarkPool,
        *,
        cache_s: float,
        outage_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._cache_s = cache_s
        self._outage_s = outage_s
        self._monotonic = monotonic
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()

    def remembered(self, key: str) -> Holder | None:
        """The holder of a key as memory has it; None where PostgreSQL must be asked (``find``).

        Raises:
            UnknownKeyError: the key is not good.
        """
        known = self._recall(id_of(key))
        if known is None or self._monotonic() - known.read_at > self._cache_s:
            return None
        return holder_of(key, known)

    def find(self, key: str) -> Holder:
        """The holder of a key, asking PostgreSQL.

        Raises:
            UnknownKeyError: the key is not good.
            DatabaseError: PostgreSQL cannot be used, and memory does not know the key or has it from too long ago.
        """
        key_id = id_of(key)
        try:
            known = self._read(key_id)
        except DatabaseError:
            found = self._recall(key_id)
            if found is None or not found.digest or self._monotonic() - found.read_at > self._outage_s:
                raise
            known = found
        return holder_of(key, known)

    def _read(self, key_id: str) -> Known:
        asked_at = self._monotonic()  # before it is read: what is revoked meanwhile must not be good for longer
        with self._pool.transaction() as connection:
            row = connection.execute(
                "SELECT digest, tenant_id, may_run_tasks FROM api_keys WHERE id = %s AND revoked_at IS NULL", (key_id,)
            ).fetchone()
        known = Known(bytes(row[0]), row[1], asked_at, row[2]) if row else Known(b"", "", asked_at)
        with self._lock:
            self._known[key_id] = known
            self._known.move_to_end(key_id)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _recall(self, key_id: str) -> Known | None:
        with self._lock:
            return self._known.get(key_id)


def id_of(key: str) -> str:
    """The part of a key that is no secret.

    Raises:
        UnknownKeyError: it does not look like a key.
    """
    shaped = KEY.fullmatch(key)
    if shaped is None:
        raise UnknownKeyError("the key is not known here")
    return shaped[1]


def holder_of(key: str, known: Known) -> Holder:
    """The holder, if the whole key is right.

    Raises:
        UnknownKeyError: it is not, or there is no such key, or it was revoked.
    """
    if not hmac.compare_digest(key_digest(key), known.digest):
        raise UnknownKeyError("the key is not known here, or was revoked")
    return Holder(id_of(key), known.tenant_id, known.may_run_tasks)
