"""Holds one command from inside its fence; ``sandbox.py`` starts it as a process of its own.

A Python started with ``-I -S`` imports it: nothing of the surroundings is there but the standard library.
It reads a line of JSON from standard input and then, as a tar stream, the workspace; it writes one line of JSON to
standard output: ``{"broken"}`` where the command could not be confined and was not run, else what became of it. What
the command may see is set up before it is there, what it wrote is read after all its processes are gone.
"""

import binascii
import contextlib
import json
import os
import resource
import select
import signal
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flywheel.sandbox import kernel, usage
from flywheel.sandbox.root import enter_namespaces

FEWER_USERS = 30_000  # from there on, and as many: where there are no more than 65,536 users
TICK_S = 0.05
CLOSER_TICK_S = 0.5  # for what takes longer to look at
INODE_BYTES = 1024  # of the kernel's memory, about, for each file in memory
CHUNK_BYTES = 1 << 16
CHUNKS_A_TICK = 64  # a flood must not keep the clock from being looked at
LARGEST_FILE_BACK_BYTES = 16 << 20


class ConfinementError(Exception):
    """Raised before the command runs: it would not be held."""


def main() -> None:
    """Confine, run, and report on one command."""
    job = json.loads(sys.stdin.buffer.readline())
    results = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if job["fence"] == "namespaces":
            enter_namespaces(job["steps"])
        if os.getpid() != 1 and job["fence"] != "landlock":
            raise ConfinementError(f"it is not in the fence of {job['fence']}")
        line = Warden(job).run()
    except (OSError, ConfinementError, tarfile.TarError) as error:
        line = {"broken": str(error)}
    with open(results, "wb") as out:
        out.write(json.dumps(line).encode())
    os._exit(0)  # what is not read of the workspace is not waited for


class Warden:
    """Runs one command and sees that nothing of it is left.

    ``first`` is whether this process is the first of its namespace: then it sees all others of it and can end them.
    ``user`` is the command's, where it is another than this process's.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.limits = job["limits"]
        self.folder = Path(job["places"][0])
        self.first = os.getpid() == 1
        self.user = chosen_user(int(job["user"])) if os.geteuid() == 0 else None
        self.pid = 0
        self.status: int | None = None
        self.ended: str | None = None
        self.output = bytearray()
        self.disk = -1
        self.look_closer_at = 0.0

    def run(self) -> dict[str, Any]:
        """Everything, from the workspace to the report."""
        kernel.control(kernel.PR_SET_DUMPABLE, 0)  # who has the same user must not trace it
        kernel.control(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self.unpack()
        reading, writing = os.pipe()
        told, telling = os.pipe()
        if self.user is not None:
            os.fchown(writing, self.user, self.user)  # or it could not open /dev/stderr
        started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self.become_command(writing, telling)
        os.close(writing)
        os.close(telling)
        with open(told) as lines:  # to its end, which is when the command's program begins
            said = {name: value for line in lines for name, value in json.loads(line).items()}
        if "broken" in said:
            raise ConfinementError(said["broken"])
        try:
            self.watch(reading, started + self.limits["wall_s"])
            seconds = time.monotonic() - started
            left = len(self.running())
        finally:
            self.end_all()
        self.drain(reading)
        return {**said, **self.report(), "seconds": seconds, "left": left}

    def report(self) -> dict[str, Any]:
        """What is to be said when all is over."""
        full = self.status != 0 and os.fstatvfs(self.disk).f_bavail == 0
        return {
            "exit": None if self.status is None else os.waitstatus_to_exitcode(self.status),
            "ended": self.ended or ("disk" if full else None),
            "output": in_base64(self.output),
            "files": {name: kept for name in self.job["collect"] if (kept := self.kept(name)) is not None},
        }

    def unpack(self) -> None:
        """The workspace, as the user who will work in it."""
        for place in map(Path, self.job["places"]):
            if not place.exists():
                place.mkdir(parents=True)
            if self.user is not None and place.stat().st_uid != self.user:
                os.chown(place, self.user, self.user)
        self.disk = os.open(self.folder, os.O_RDONLY)  # the command may take the folder away
        with self.acting_as_user(), tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
            archive.extraction_filter = lambda member, _folder: member  # from Python 3.14 on there is another
            try:
                for member in archive:
                    self.extract(archive, member)
            except OSError as error:
                limit_mb = self.limits["disk_bytes"] >> 20
                raise ConfinementError(f"the workspace cannot be copied into its {limit_mb:,} MB: {error}") from error

    def extract(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """One file of the workspace. Links may lead anywhere, for there is nothing there; files lie in the folder."""
        parent = os.path.realpath(os.path.dirname(self.folder / member.name))
        if not Path(parent).is_relative_to(self.folder.resolve()):
            raise ConfinementError(f"{member.name} lies outside of the workspace")
        archive.extract(member, self.folder, set_attrs=not member.isdir())

    @contextlib.contextmanager
    def acting_as_user(self) -> Iterator[None]:
        """Make files as the user of the command."""
        if self.user is None:
            yield
            return
        os.setegid(self.user)
        os.seteuid(self.user)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user takes it back

    def become_command(self, writing: int, telling: int) -> None:
        """What the child does. It does not return."""
        try:
            os.setsid()  # what it sends to its group reaches itself alone
            os.chdir(self.folder)
            confined = self.confine()
            tell(telling, {"confined": confined})
            for stream in (1, 2):
                os.dup2(writing, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing runs unconfined
            tell(telling, {"broken": f"{type(error).__name__}: {error}"})
            os._exit(1)
        try:
            os.execvpe(self.job["argv"][0], self.job["argv"], self.job["environment"])  # noqa: S606 - its purpose
        except (OSError, ValueError) as error:
            tell(telling, {"not_started": getattr(error, "strerror", None) or str(error)})
        os._exit(127)

    def confine(self) -> list[str]:
        """Give up rights and set limits; what is in force, in words."""
        kernel.control(kernel.PR_SET_DUMPABLE, 1)  # or its own files in /proc are not its own
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory runs out, it goes and nobody else
        words = []
        if self.user is not None:
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)
            words.append("a user of its own")
        kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # as above
        kernel.control(kernel.PR_SET_NO_NEW_PRIVS, 1)
        words += self.limit_processes()
        kernel.limit(resource.RLIMIT_CPU, self.limits["cpu_s"], spare=1)  # the second, in which it could end itself
        kernel.limit(resource.RLIMIT_DATA, self.limits["memory_bytes"])
        kernel.limit(resource.RLIMIT_FSIZE, min(self.limits["file_bytes"], self.limits["disk_bytes"]))
        kernel.limit(resource.RLIMIT_NOFILE, self.limits["open_files"])
        kernel.limit(resource.RLIMIT_CORE, 0)
        return words + self.fence_by_landlock() if self.job["fence"] == "landlock" else words

    def limit_processes(self) -> list[str]:
        """Linux counts the processes of a user, and in a user namespace those of that namespace (Linux 5.14)."""
        most = self.limits["processes"]
        if self.user is None and not self.first:
            return self.refuse_processes(most)
        if os.geteuid() == 0:
            raise ConfinementError("root's processes are not counted, and no other user can read Python")
        kernel.limit(resource.RLIMIT_NPROC, most)
        counted = "its user namespace" if self.user is None else "its user"
        return [f"at most {most} processes (RLIMIT_NPROC of {counted})" if most > 1 else "no new processes"]

    def refuse_processes(self, most: int) -> list[str]:
        """Where it has its user's other processes about it: none of its own can be told from those."""
        if most > 1:
            raise ConfinementError(
                "it has neither namespaces nor a user of its own, so its processes could not be counted nor ended"
            )
        kernel.limit(resource.RLIMIT_NPROC, 0)
        kernel.refuse_calls(processes=True, others=True)
        return ["no new processes"] if no_new_processes() else []

    def fence_by_landlock(self) -> list[str]:
        """Files by Landlock, and no sockets nor shared memory, where there are no namespaces to be had."""
        reading = kernel.EXECUTE | kernel.READ_FILE | kernel.READ_DIR
        rights = [(place, ~0) for place in self.job["places"]]
        rights += [(path, reading if Path(path).is_dir() else reading & ~kernel.READ_DIR) for path in self.readable()]
        devices = (path for kind, path, *_ in self.job["steps"] if kind == "device")
        rights += [(path, kernel.READ_FILE | kernel.WRITE_FILE) for path in devices]
        if not kernel.landlock(rights):
            raise ConfinementError("this kernel has no Landlock (Linux 5.13), so other files cannot be protected")
        words = ["no files outside its folder and what it needs"]
        if kernel.refuse_calls(meeting=True):
            words.append("no network")
        elif self.job["network"] == "refused":
            raise ConfinementError("neither network namespaces nor a filter of system calls are to be had here")
        return words

    def readable(self) -> list[str]:
        """What it may read, of what its user can."""
        return [path for path in self.job["readable"] if os.access(path, os.R_OK)]

    def watch(self, reading: int, deadline: float) -> None:
        """Read what it writes, until it is over or breaks a limit."""
        os.set_blocking(reading, False)
        poll = select.poll()
        poll.register(os.pidfd_open(self.pid), select.POLLIN)
        poll.register(reading, select.POLLIN)
        look_at = 0.0
        while self.ended is None and self.status is None:
            poll.poll(TICK_S * 1000)
            if not self.drain(reading):
                poll.unregister(reading)
                reading = -1
            self.reap()
            now = time.monotonic()
            if now > deadline:
                self.ended = self.ended or "time"
            if now > look_at and self.status is None:
                look_at = now + TICK_S
                self.ended = self.ended or self.excess(now)

    def drain(self, reading: int) -> bool:
        """Take what is there to be read; False at its end."""
        for _ in range(CHUNKS_A_TICK if reading >= 0 else 0):
            try:
                chunk = os.read(reading, CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.output += chunk
            if len(self.output) > self.limits["output_bytes"]:
                del self.output[self.limits["output_bytes"] :]
                self.ended = self.ended or "output"
                return True
        return True

    def reap(self) -> None:
        """Children that have ended: the command, and what it left behind."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.status = ended[1]

    def excess(self, now: float) -> str | None:
        """The limit that all its processes together break: memory, or disk where the folder has no size of its own."""
        most, running = self.limits["memory_bytes"], self.running()
        if usage.memory_bytes(running, over=most) > most:
            return "memory"
        if now < self.look_closer_at:
            return None
        self.look_closer_at = now + CLOSER_TICK_S
        if usage.kept_bytes(running, segments=self.first) > most:
            return "memory"
        return "disk" if self.used_disk_bytes() > self.limits["disk_bytes"] else None

    def used_disk_bytes(self) -> int:
        """What the workspace takes. A file system of its own holds its size by itself; files of no size it does not."""
        if self.job["fence"] == "landlock":
            return sum(map(usage.disk_bytes, self.job["places"]))
        system = os.fstatvfs(self.disk)
        return (system.f_files - system.f_ffree) * INODE_BYTES

    def running(self) -> list[int]:
        """Its processes."""
        if not self.first and self.user is None:
            return [self.pid] if self.status is None else []
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid > 1 and (self.first or usage.user_of(pid) == self.user)]

    def end_all(self) -> None:
        """End all its processes and wait until they are gone."""
        with contextlib.suppress(ProcessLookupError):
            if self.first:
                os.kill(-1, signal.SIGKILL)
            elif self.user is not None:
                self.end_as_user(self.user)
            elif self.status is None:
                os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitpid(-1, 0):
                if ended[0] == self.pid:
                    self.status = ended[1]

    def end_as_user(self, user: int) -> None:
        """As that user, end all that it may end: that is its own and no other's."""
        if os.fork() == 0:
            os.setresuid(user, user, user)
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            os._exit(0)

    def kept(self, name: str) -> str | None:
        """A file of the workspace, in base64; None where there is no such file in it."""
        path = Path(os.path.realpath(self.folder / name))
        with contextlib.suppress(OSError):  # one that it made unreadable is none either
            if path.is_relative_to(os.path.realpath(self.folder)) and path.is_file():
                return in_base64(path.read_bytes()) if path.stat().st_size <= LARGEST_FILE_BACK_BYTES else None
        return None


def in_base64(content: bytes | bytearray) -> str:
    """As JSON can carry it; the module base64 takes longer to import."""
    return binascii.b2a_base64(content, newline=False).decode()


def tell(telling: int, words: dict[str, Any]) -> None:
    """Write a line to the process that watches."""
    os.write(telling, json.dumps(words).encode() + b"\n")


def chosen_user(own: int) -> int | None:
    """A user whom nobody else is; None where there is none, or where it could not read Python."""
    if not readable_by_anybody(Path(sys.base_prefix)):
        return None
    return next((user for user in (own, FEWER_USERS + own % FEWER_USERS) if can_become(user)), None)


def can_become(user: int) -> bool:
    """Whether there is such a user here."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def readable_by_anybody(folder: Path) -> bool:
    """Whether another user gets there: Python's modules are still to be imported."""
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.resolve().parents))


def no_new_processes() -> bool:
    """Whether it is so: root's processes do not heed the limit, and a filter is not to be had everywhere."""
    try:
        child = os.fork()
    except OSError:
        return True
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False
