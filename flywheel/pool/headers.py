"""The little that must be read of a line to know to which task, tenant and day it belongs."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b

import msgspec
from msgspec import Struct

from flywheel.records import Identifier, Timestamp

NO_TENANT = b""
FIRST_DAY = date(2023, 1, 1)
"""The pool's first partition; what claims to be older is taken for a wrong clock."""
FIRST_MOMENT = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
CLOCK_SKEW = timedelta(days=1)
KEYS_KEPT = 10_000  # the lines of a task lie close to each other, and tenants are few


class Header(Struct, rename="camel", frozen=True, kw_only=True):
    """The keys of a line. Which log it is may be anything here: the gates judge it."""

    task_id: Identifier
    timestamp: Timestamp
    tenant_id: Identifier | None = None
    log: object = None

    @property
    def task_key(self) -> bytes:
        """Digest of the task id, 16 bytes."""
        return key_of(self.task_id)

    @property
    def tenant_key(self) -> bytes:
        """Digest of the tenant id, 16 bytes; empty where the line names no tenant."""
        return NO_TENANT if self.tenant_id is None else key_of(self.tenant_id)

    @property
    def log_name(self) -> str:
        """Which log the line says it is."""
        return self.log if isinstance(self.log, str) else ""


decode_header = msgspec.json.Decoder(Header).decode


def read_header(line: bytes, *, written_at: datetime) -> Header | None:
    """The line's keys; None where its task or its time cannot be read or believed (a stray line).

    A time is believed between the pool's first day and a day after its segment was written: no partition would ever
    come for another one, and the line would be in no account.
    """
    try:
        header = decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return header if FIRST_MOMENT <= header.timestamp <= written_at + CLOCK_SKEW else None


@lru_cache(maxsize=KEYS_KEPT)
def key_of(name: str) -> bytes:
    """A fixed-size key for an identifier of any length."""
    return blake2b(name.encode(), digest_size=16).digest()
