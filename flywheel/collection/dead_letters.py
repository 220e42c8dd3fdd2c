"""Dead letters: logs that could not be written three times, kept as segments in a folder of their own.

A dead letter is a closed segment, so that bringing it back is a rename. Its name ends with the reason. The pool
does not read the folder, but erasure and retention reach it: what lies there is as raw as on the day it was logged.
Who moves, rewrites or removes dead letters does it alone; who adds one adds a file of its own.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from msgspec import Struct

from flywheel.collection.folder_lock import in_turn
from flywheel.collection.segments import (
    CLOSED_SUFFIX,
    Frame,
    closed_segments,
    read_segment,
    remove_closed_segment,
    sync_folder,
    write_closed_segment,
)
from flywheel.errors import NotASegmentError, SegmentError

FOLDER = "dead-letters"
LOCK = "dead-letters.lock"


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A file of dead letters. ``reason`` is the error of the last delivery; ``bytes`` is the file's size."""

    name: str
    reason: str
    logs: int
    bytes: int
    written_at: datetime


def write_dead_letter(folder: Path, payloads: Sequence[bytes], *, reason: str, now: datetime) -> Path:
    """Keep logs that could not be delivered.

    Raises:
        OSError: they cannot be kept either.
    """
    name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{os.getpid()}-{secrets.token_hex(4)}"
    return write_named_dead_letter(folder, name, payloads, reason=reason)


def write_named_dead_letter(folder: Path, name: str, payloads: Sequence[bytes], *, reason: str) -> Path:
    """Keep what nothing can be made of under a name that says what it is; done twice it is kept once.

    Raises:
        OSError: it cannot be kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{reason}{CLOSED_SUFFIX}"
    if not path.exists():
        write_closed_segment(path, payloads)
    return path


@contextmanager
def letters_alone(folder: Path) -> Iterator[bool]:
    """Be the only one who changes what is in a folder of dead letters. False: there is no such folder.

    Raises:
        SegmentError: another process changes it for longer than a minute.
    """
    if not folder.is_dir():
        yield False
        return
    with in_turn(folder / LOCK):
        yield True


def list_dead_letters(folder: Path) -> list[DeadLetter]:
    """What is there, oldest first.

    Raises:
        SegmentError: a file cannot be read.
    """
    letters = []
    for path in closed_segments(folder):
        try:
            letters.append(letter_at(path))
        except (SegmentError, FileNotFoundError):
            if path.exists():
                raise  # else it was brought back or removed meanwhile
    return letters


def letter_at(path: Path) -> DeadLetter:
    """One file of dead letters; one that is no segment has no logs.

    Raises:
        SegmentError: it cannot be read.
    """
    status = path.stat()
    try:
        logs = sum(isinstance(item, Frame) for item in read_segment(path))
    except NotASegmentError:
        logs = 0
    return DeadLetter(
        name=path.name,
        reason=path.stem.partition(".")[2] or "unknown",
        logs=logs,
        bytes=status.st_size,
        written_at=datetime.fromtimestamp(status.st_mtime, UTC),
    )


def expired_letters(folder: Path, *, before: date) -> list[DeadLetter]:
    """The dead letters that were written before a day, by UTC.

    Raises:
        SegmentError: one of them cannot be read.
    """
    return [letter for letter in list_dead_letters(folder) if letter.written_at.date() < before]


def remove_expired_letters(folder: Path, day: date) -> None:
    """Delete the dead letters that were written on a day.

    Raises:
        SegmentError: one cannot be read, or another process changes the folder for longer than a minute.
    """
    with letters_alone(folder) as there:
        for letter in list_dead_letters(folder) if there else ():
            if letter.written_at.date() == day:
                remove_closed_segment(folder / letter.name)


def retry_dead_letters(folder: Path, segments_dir: Path) -> int:
    """Bring all dead letters back among the segments, where the pool finds them. Returns how many files.

    Killed or run twice at once it loses nothing and brings nothing twice.

    Raises:
        SegmentError: one cannot be brought back; the message names it, those before it are back.
    """
    with letters_alone(folder) as there:
        return _bring_back(folder, segments_dir) if there else 0


def _bring_back(folder: Path, segments_dir: Path) -> int:
    count = 0
    for path in closed_segments(folder):
        target = segments_dir / f"{path.stem.partition('.')[0]}{CLOSED_SUFFIX}"
        try:
            segments_dir.mkdir(parents=True, exist_ok=True)
            _move(path, target)
        except OSError as error:
            raise SegmentError(f"{path} cannot be brought back to {segments_dir}: {error}; run it again") from error
        count += 1
    return count


def _move(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
        try:
            shutil.copyfile(path, partial)
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
        path.unlink()
    sync_folder(target.parent)
