"""Secrets of an installation: files that are made once, readable by their owner alone."""

import os
import secrets
from collections.abc import Callable
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
        mode = path.stat().st_mode & 0o777
        secret = path.read_bytes()
    except OSError as error:
        raise PoolError(f"the {name} {path} cannot be used: {error}{advice}") from error
    if mode & 0o077:
        raise PoolError(f"the {name} {path} is readable by others (mode {mode:o}); run `chmod 600 {path}`")
    if len(secret) != len(make()):
        raise PoolError(f"the {name} {path} has {len(secret)} bytes, not {len(make())}; restore it from a backup")
    return secret


def make_once(path: Path, make: Callable[[], bytes]) -> None:
    """Make the file unless it is there; of several processes at once one wins, whole."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(scratch, path)  # fails where rename would replace another process's secret
        except FileExistsError:
            return
    finally:
        scratch.unlink()
