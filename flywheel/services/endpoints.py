"""Where the running services are: ``services.json`` in home, and the lock that says whether they still run."""

import fcntl
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
from msgspec import Struct

from flywheel.errors import AlreadyRunningError, NotRunningError, ServiceError
from flywheel.settings import Settings


class Endpoints(Struct, frozen=True, kw_only=True):
    """The services of one home. ``database_url`` has a password where the server asks for one: the file is private."""

    pid: int
    profile: str
    started_at: datetime
    database_url: str
    dagster_url: str
    mlflow_url: str
    api_url: str = ""


def endpoints_file(home: Path) -> Path:
    """Where the endpoints of a home are written."""
    return home / "services.json"


def lock_file(home: Path) -> Path:
    """The file whose lock the supervisor of a home holds."""
    return home / "services.lock"


def services_lock(home: Path) -> "HomeLock":
    """The lock of the one supervisor of a home."""
    return HomeLock(
        lock_file(home),
        held=f"the services of {home} already run",
        remedy="see `flywheel status`, or stop that process first",
    )


def write_endpoints(home: Path, endpoints: Endpoints) -> None:
    """Write ``services.json``, readable by its owner alone, whole or not at all."""
    part = endpoints_file(home).with_suffix(".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(endpoints)))
    part.replace(endpoints_file(home))


def running(settings: Settings) -> Endpoints | None:
    """The services that run for this home now, if any."""
    if not is_locked(lock_file(settings.home)) or not endpoints_file(settings.home).exists():
        return None
    try:
        return msgspec.json.decode(endpoints_file(settings.home).read_bytes(), type=Endpoints)
    except msgspec.MsgspecError as error:
        raise ServiceError(f"{endpoints_file(settings.home)} cannot be read: {error}; stop the services") from error


def attach(settings: Settings) -> Endpoints:
    """The services that run for this home.

    Raises:
        NotRunningError: there are none.
    """
    found = running(settings)
    if found is None:
        raise NotRunningError(f"no services are running for {settings.home}; start them with `flywheel up`")
    return found


def with_database(settings: Settings, url: str) -> Settings:
    """The same settings with the URL of a database that runs."""
    return settings.model_copy(update={"database_url": url})


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def try_exclusively(file: IO[str], *, attempts: int = 10, pause_s: float = 0.1) -> bool:
    """Take an exclusive lock, trying again for a second: ``is_locked`` holds a shared one for an instant."""
    for _ in range(attempts):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause_s)
        else:
            return True
    return False


class HomeLock:
    """One process a home does something. The kernel lets go of the lock when the process ends, however it ends.

    Args:
        path: the lock's file.
        held: what another process does that has it, for the message that refuses this one.
        remedy: what to do then.
    """

    def __init__(self, path: Path, *, held: str, remedy: str) -> None:
        self.path = path
        self._held = held
        self._remedy = remedy
        self._file: IO[str] | None = None

    def acquire(self) -> Self:
        """Take the lock.

        Raises:
            AlreadyRunningError: another process has it; the message names it.
        """
        file = self.path.open("a+", encoding="utf-8")
        if not try_exclusively(file):
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise AlreadyRunningError(f"{self._held} ({holder or 'starting'}); {self._remedy}")
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
        file.flush()
        self._file = file
        return self

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes lock two files of one name."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()
