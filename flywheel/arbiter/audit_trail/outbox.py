"""Where signed verdicts wait: segments in a folder of this installation, until they are in the audit trail.

A segment is deleted after the transaction that appended it. One that was appended and not deleted is found again, and
nothing of it is appended twice. Several processes may deliver one folder; they take turns.
"""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail.contents import Sealed
from flywheel.arbiter.audit_trail.heads import Head, keep_head
from flywheel.arbiter.audit_trail.keys import SigningKey
from flywheel.arbiter.audit_trail.trail import append, holds
from flywheel.collection.folder_lock import in_turn
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.segments import (
    CLOSED_SUFFIX,
    OPEN_SUFFIX,
    Damage,
    closed_segments,
    read_segment,
    remove_closed_segment,
)
from flywheel.errors import AuditTrailError, SegmentError

LOGGER = logging.getLogger(__name__)
APPENDED_AT_ONCE = 1_000
encode_sealed = msgspec.msgpack.Encoder().encode
decode_sealed = msgspec.msgpack.Decoder(Sealed).decode


def deliver(engine: Engine, folder: Path, key: SigningKey, *, head_file: Path | None = None) -> int:
    """Append what waits in closed segments and in those of dead processes. Returns how many verdicts waited.

    Args:
        engine: of the database that has the trail.
        folder: of the segments.
        key: the trail's.
        head_file: where the head after it is kept; None: nowhere.

    Raises:
        SigningKeyError: the trail is signed with another key. All of it waits on.
        SegmentError: a segment cannot be read, or another process works on the folder for too long.
        OSError: the folder or the head cannot be written.
        DatabaseError: PostgreSQL cannot be used. What was not appended waits on.
    """
    if not folder.is_dir():
        return 0
    with in_turn(folder / "delivery.lock"):
        recover_segments(folder)
        count = 0
        for path in closed_segments(folder):
            waiting = list(_sealed_in(path))
            for start in range(0, len(waiting), APPENDED_AT_ONCE):
                with engine.begin() as connection:
                    head = append(connection, waiting[start : start + APPENDED_AT_ONCE], key)
                _keep(engine, head_file, head)
            remove_closed_segment(path)
            count += len(waiting)
    return count


def has_waiting(folder: Path) -> bool:
    """Whether any segment waits, those that are written now included."""
    return any(path.suffix in {CLOSED_SUFFIX, OPEN_SUFFIX} for path in folder.glob("*"))


def waiting_in(folder: Path) -> Iterator[Sealed]:
    """What waits in closed segments; changes nothing.

    Raises:
        SegmentError: a segment cannot be read.
    """
    for path in closed_segments(folder):
        try:
            yield from _sealed_in(path)
        except SegmentError:
            if path.exists():
                raise  # else it was delivered meanwhile


def _keep(engine: Engine, head_file: Path | None, head: Head | None) -> None:
    if head_file is None or head is None:
        return
    try:
        keep_head(head_file, head, holds=partial(holds, engine))
    except AuditTrailError as error:
        LOGGER.error("%s", error)  # what was appended is evidence, too: it goes on


def _sealed_in(path: Path) -> Iterator[Sealed]:
    for item in read_segment(path):
        if isinstance(item, Damage):
            LOGGER.warning("%s has %d unreadable bytes: verdicts in them are not in the audit trail", path, item.size)
            continue
        try:
            yield decode_sealed(item.payload)
        except msgspec.MsgspecError as error:
            raise SegmentError(f"a verdict in {path} is none that this version can read: {error}. It waits") from error
