"""What lies in a folder of segments: closed, being written, left behind, and what could not be written."""

import fcntl
from pathlib import Path

from msgspec import Struct

from flywheel.collection.dead_letters import FOLDER, DeadLetter, list_dead_letters
from flywheel.collection.segments import OPEN_SUFFIX, closed_segments


class CollectionStatus(Struct, frozen=True, kw_only=True):
    """Counts of segments. ``closed_bytes`` is their size on disk; orphaned ones have no living writer.

    ``dead_letters`` are logs that could not be written, ``set_aside`` traces that could not be assembled.
    """

    closed_segments: int
    closed_bytes: int
    live_segments: int
    orphaned_segments: int
    dead_letters: tuple[DeadLetter, ...]
    set_aside: tuple[DeadLetter, ...] = ()


def collection_status(
    segments_dir: Path, *, dead_letters: Path | None = None, spans_dir: Path | None = None
) -> CollectionStatus:
    """Look at a folder, and at that of spans if there is one; changes nothing.

    Raises:
        SegmentError: a dead letter cannot be read.
        OSError: the folder cannot be read.
    """
    closed = closed_segments(segments_dir)
    alive = [_is_alive(path) for path in segments_dir.glob(f"*{OPEN_SUFFIX}")]
    return CollectionStatus(
        closed_segments=len(closed),
        closed_bytes=sum(path.stat().st_size for path in closed),
        live_segments=alive.count(True),
        orphaned_segments=alive.count(False),
        dead_letters=tuple(list_dead_letters(dead_letters or segments_dir / FOLDER)),
        set_aside=tuple(list_dead_letters(spans_dir / FOLDER)) if spans_dir else (),
    )


def _is_alive(path: Path) -> bool | None:
    """Whether a writer holds the file's lock; None where it was handed over meanwhile."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return True
    return False
