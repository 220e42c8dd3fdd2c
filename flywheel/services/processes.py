"""Child processes that can be found again, whoever started them and whatever became of that process.

Every child gets the variable ``FLYWHEEL_SUPERVISOR`` with the id of its home, and hands it down to its own children
(Dagster's run workers, accelerate). So a supervisor that was killed leaves nothing that the next one cannot find.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

SUPERVISOR_VARIABLE = "FLYWHEEL_SUPERVISOR"


def supervisor_id(home: Path) -> str:
    """The id of an installation: a digest of its home's real path, 16 hex digits."""
    return hashlib.blake2b(str(home.resolve()).encode(), digest_size=8).hexdigest()


def spawn(
    command: Sequence[str], *, environment: Mapping[str, str], log: Path, working_directory: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C reaches the supervisor alone, with its output in a log.

    The log of the start before is kept beside it as ``NAME.log.1``.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd=working_directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def find(supervisor: str) -> list[psutil.Process]:
    """All living processes below this supervisor, except the one that asks and those it was started by."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in own and belongs(process, supervisor)]


def installation_processes(home: Path) -> list[int]:
    """Process ids of an installation, for measuring: this process, the embedded PostgreSQL, everything supervised."""
    server = postmaster_pid(home / "postgres")
    found = [os.getpid(), *(process.pid for process in find(supervisor_id(home)))]
    return found if server is None else [*found, server]


def postmaster_pid(data: Path) -> int | None:
    """Process id that the server of a data folder wrote down; ``None`` where it has ended in order or never ran."""
    try:
        first, *_ = (data / "postmaster.pid").read_text().splitlines() or [""]
    except FileNotFoundError:
        return None
    return int(first) if first else None  # PostgreSQL makes the file before it writes it


def belongs(process: psutil.Process, supervisor: str) -> bool:
    """Whether a process carries this supervisor's variable. One that has ended, or is not ours to read, does not."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get(SUPERVISOR_VARIABLE) == supervisor
    except (psutil.Error, OSError):
        return False


def has_child(pid: int, word: str) -> bool:
    """Whether a living child of this process has ``word`` in its command line."""
    try:
        found = psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return False
    return any(word in command_of(child) for child in found)


def command_of(process: psutil.Process) -> list[str]:
    """The command line of a process; empty where it has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def end(processes: Sequence[psutil.Process], *, grace_s: float) -> int:
    """Ask processes to stop, wait, and kill what remains. Returns how many had to be killed."""
    for process in processes:
        signal_quietly(process, kill=False)
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        signal_quietly(process, kill=True)
    psutil.wait_procs(alive, timeout=grace_s)
    return len(alive)


def signal_quietly(process: psutil.Process, *, kill: bool) -> None:
    """Terminate or kill; a process that has just ended by itself is what was wanted."""
    try:
        if kill:
            process.kill()
        else:
            process.terminate()
    except psutil.NoSuchProcess:
        return


def last_lines(log: Path, count: int = 12) -> str:
    """The end of a log, for error messages. Empty where there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-count:])
