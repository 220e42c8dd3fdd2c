"""A lock of a folder that several processes change; the kernel lets go of it when its process ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flywheel.errors import SegmentError

LOOK_S = 0.1


@contextmanager
def exclusively(lock: Path) -> Iterator[bool]:
    """Hold the lock of this file, if nobody does. The file is made where it is not, and stays."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def in_turn(lock: Path, *, patience_s: float = 60.0) -> Iterator[None]:
    """Hold the lock of this file, waiting for whoever does.

    Raises:
        SegmentError: another process holds it for longer than ``patience_s``.
    """
    deadline = time.monotonic() + patience_s
    while True:
        with exclusively(lock) as held:
            if held:
                yield
                return
        if time.monotonic() > deadline:
            raise SegmentError(
                f"another process has worked on {lock.parent} for {patience_s:.0f} s; run this again later"
            )
        time.sleep(LOOK_S)
