"""Heads: how long the audit trail is and where it ends, signed and kept outside of it.

What is cut off the end of a chain leaves a chain; a head says that there was more.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from flywheel.arbiter.audit_trail.keys import HEAD_DOMAIN, PublicKey, SigningKey
from flywheel.collection.segments import write_whole
from flywheel.errors import AuditTrailError
from flywheel.records import Timestamp, Wire

encoder = msgspec.json.Encoder(order="sorted")


class Head(Wire, frozen=True, kw_only=True):
    """The end of the trail at a moment: its last entry. ``signature`` is on all the rest."""

    version: Literal[1] = 1
    sequence: Annotated[int, Meta(ge=1)]
    hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    at: Timestamp
    signature: str

    def is_signed_by(self, key: PublicKey) -> bool:
        """Whether this key signed it."""
        return key.verifies(self.signature, HEAD_DOMAIN, self.message)

    @property
    def message(self) -> bytes:
        """What is signed."""
        at = f"{self.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
        return encoder.encode({"version": self.version, "sequence": self.sequence, "hash": self.hash, "at": at})


def signed_head(head: Head, key: SigningKey) -> Head:
    """The head with this key's signature."""
    return msgspec.structs.replace(head, signature=key.sign(HEAD_DOMAIN, head.message))


def encoded_head(head: Head) -> bytes:
    """The head as a file holds it."""
    return encoder.encode(head) + b"\n"


def read_head(path: Path) -> Head:
    """The head in a file.

    Raises:
        AuditTrailError: the file cannot be read, or holds no head.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Head)
    except OSError as error:
        raise AuditTrailError(f"the head {path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AuditTrailError(
            f"{path} holds no head of an audit trail, as `flywheel audit head` writes it: {error}"
        ) from error


def keep_head(path: Path, head: Head, *, holds: Callable[[Head], bool]) -> None:
    """Put a head in the place of an older one that the trail still holds; a newer one, of another process, stays.

    Were one replaced that the trail does not hold any more, nobody would notice later what was cut off.

    Raises:
        AuditTrailError: the trail does not hold the one that is kept, which stays; or what is in the file is no head.
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(path):
        kept = read_head(path) if path.exists() else None
        if kept is not None and not holds(kept):
            raise AuditTrailError(lost_head(path, kept))
        if kept is None or kept.sequence < head.sequence:
            write_whole(path, (encoded_head(head),))


def lost_head(path: Path, kept: Head) -> str:
    """What is said where the trail does not hold a head any more."""
    return (
        f"the audit trail does not hold its head of {kept.at:%Y-%m-%d %H:%M:%S} UTC any more, entry {kept.sequence:,}: "
        f"it was tampered with, or restored from an earlier backup. {path} keeps the head; run `flywheel audit verify`"
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
