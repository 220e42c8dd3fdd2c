"""Secrets of an installation: files that are made once, readable by their owner alone."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from filecmp import cmp
from pathlib import Path

from flywheel.errors import PoolError

PRIVATE = 0o600


def secret_of(path: Path, *, name: str, make: Callable[[], bytes], advice: str = "") -> bytes:
    """What the file holds; made by ``make`` where it is not there yet. ``name`` and ``advice`` are for messages.

    Raises:
        PoolError: the file cannot be made or read, others may read it, or it has not the size that is made.
    """
    try:
        make_once(path, make)
    except OSError as error:
        raise PoolError(f"the {name} {path} cannot be used: {error}{advice}") from error
    return read_secret(path, name=name, size=len(make()), advice=advice)


def read_secret(path: Path, *, name: str, size: int, advice: str = "") -> bytes:
    """What the file holds, which is there.

    It is read after everything that can go wrong, so that no traceback has it among its values.

    Raises:
        PoolError: the file cannot be read, others may read it, or it has another size, in bytes.
    """
    try:
        found = path.stat()
        if not found.st_mode & 0o077 and found.st_size == size:
            return path.read_bytes()
    except OSError as error:
        raise PoolError(f"the {name} {path} cannot be used: {error}{advice}") from error
    if found.st_mode & 0o077:
        raise PoolError(
            f"the {name} {path} is readable by others (mode {found.st_mode & 0o777:o}); run `chmod 600 {path}`"
        )
    raise PoolError(f"the {name} {path} has {found.st_size} bytes, not {size}; restore it from a backup")


def make_once(path: Path, make: Callable[[], bytes]) -> None:
    """Make the file unless it is there; of several processes at once one wins, whole."""
    if path.exists():
        return
    with scratch_beside(path, make) as scratch:
        try:
            os.link(scratch, path)  # fails where rename would replace another process's secret
        except FileExistsError:
            return
        sync_folder(path.parent)


def renew(path: Path, make: Callable[[], bytes], *, former: Path) -> None:
    """Keep what the file holds as ``former`` and put a new secret in its place; a reader finds one of the two, whole.

    Where ``former`` is there already, an earlier call was killed in between; this one ends it. One at a time.

    Raises:
        OSError: the folder cannot be written.
    """
    if not former.exists():
        os.link(path, former)
        sync_folder(path.parent)
    if cmp(former, path, shallow=False):
        with scratch_beside(path, make) as scratch:
            scratch.replace(path)
            sync_folder(path.parent)


@contextmanager
def scratch_beside(path: Path, make: Callable[[], bytes]) -> Iterator[Path]:
    """A private file with a new secret in the same folder, on disk whole; gone afterwards."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make what was linked, renamed or removed in a folder outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
