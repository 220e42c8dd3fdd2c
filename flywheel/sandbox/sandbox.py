"""Runs commands that nobody trusts, each in a fresh copy of a workspace that is gone afterwards.

The kernel confines them: limits on time, processor, memory, disk, output and the number of processes; no network but a
loopback of their own; no files but the copy and what they need to read; no view of other processes; another user where
this process is root's. ``Ran.confined`` names what was in force. When the command ends, so does all that it started.
It is a fence for the code of language models, not for people who attack kernels.
"""

import base64
import contextlib
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

from msgspec import Struct

from flywheel.errors import SandboxError
from flywheel.sandbox.fences import (
    HOME,
    Fence,
    bubblewrap,
    bubblewrap_arguments,
    default_readable,
    steps_of,
)
from flywheel.sandbox.workspace import Workspace

PACKAGES = str(Path(__file__).parents[2])
WARDEN = f"import sys; sys.path.append({PACKAGES!r}); from flywheel.sandbox.warden import main; main()"
PYTHON = sys.executable
GRACE_S = 30.0  # for the copy, the start and the end; the warden itself keeps the command's time
FIRST_OWN_USER = 1 << 30  # no system gives out users from there on
ENDINGS = {
    "time": "it ran longer than {wall_s:g} s and was ended",
    "memory": "its processes took more than {memory_mb:,} MB of memory and were ended",
    "disk": "it filled its {disk_mb:,} MB of disk",
    "output": "it wrote more than {output_kb:,} kB of output and was ended",
}


class Limits(Struct, frozen=True, kw_only=True):
    """What a command may use, with all that it starts. Times in seconds.

    ``cpu_s`` and ``memory_bytes`` hold for each process, memory for their sum besides. ``disk_bytes`` is its copy of
    the workspace with all that it writes; it lies in memory where there are mounts. ``processes`` counts threads, too.
    """

    wall_s: float = 120.0
    cpu_s: int = 120
    memory_bytes: int = 2 << 30
    disk_bytes: int = 1 << 30
    file_bytes: int = 256 << 20
    output_bytes: int = 4 << 20
    processes: int = 128
    open_files: int = 1024


class Ran(Struct, frozen=True, kw_only=True):
    """What became of a command.

    Attributes:
        exit_code: its own; −n where signal n ended it; None where it was never started.
        not_started: why it could not be, such as that there is no such program.
        ended: why it was ended, or ended by a limit, in words; None where it ended by itself.
        output: what it and its processes wrote, errors too, in the order in which it came.
        seconds: how long it ran.
        left: how many processes it left running; they were ended.
        confined: what held it.
        files: the files of the workspace that were asked for and are there.
    """

    exit_code: int | None
    output: bytes
    seconds: float
    confined: tuple[str, ...]
    not_started: str | None = None
    ended: str | None = None
    left: int = 0
    files: dict[str, bytes] = {}

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself and well."""
        return self.exit_code == 0 and self.ended is None and self.not_started is None


def run(
    argv: Sequence[str],
    workspace: Workspace,
    *,
    limits: Limits | None = None,
    readable: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    collect: Sequence[str] = (),
    network: Literal["refused", "refused where possible"] = "refused",
    fence: Fence | None = None,
) -> Ran:
    """Run a command in a copy of the workspace. Whatever it does is a result.

    Args:
        argv: the command. A program without a slash is looked for beside this Python, then in the system.
        workspace: what it works on; it is copied and never written.
        limits: what it may use.
        readable: folders and files it may read besides the system's and this Python's.
        environment: variables besides those of the sandbox; nothing is inherited.
        collect: paths in the workspace of files to bring back, up to 16 MB each.
        network: where there is nothing to refuse it by, refuse to run, or run.
        fence: hold it by this one; by default the first that works here.

    Raises:
        SandboxError: no command can be started or confined here, or what it is to read is not there. Nothing was run.
    """
    limits = limits or Limits()
    if platform.system() != "Linux":
        raise SandboxError("commands are run on Linux alone: elsewhere there is nothing to confine them by")
    if missing := [path for path in readable if not os.path.exists(path)]:
        raise SandboxError(f"a command is to read {', '.join(missing)}, and nothing is there")
    chosen = Fence(fence) if fence else working_fence()
    with contextlib.ExitStack() as stack:
        places = [f"{HOME}/workspace", f"{HOME}/home", "/tmp"]  # noqa: S108 - of its own
        if chosen is Fence.LANDLOCK:
            base = stack.enter_context(tempfile.TemporaryDirectory(prefix="flywheel-", ignore_cleanup_errors=True))
            os.chmod(base, 0o711)  # noqa: S103 - the command's user has to get through
            places = [f"{base}/{name}" for name in ("workspace", "home", "tmp")]
        job = {
            "fence": chosen,
            "argv": list(argv),
            "environment": {**_environment(places), **(environment or {})},
            "places": places,
            "readable": [*default_readable(), *readable],
            "limits": {name: getattr(limits, name) for name in limits.__struct_fields__},
            "collect": list(collect),
            "network": network,
            "user": FIRST_OWN_USER + secrets.randbelow(FIRST_OWN_USER),
        }
        said = _warden(job, workspace, limits)
    return _read(said, chosen, limits)


@cache
def working_fence() -> Fence:
    """The first fence that works here.

    Raises:
        SandboxError: none does. It says why of each.
    """
    reasons = []
    for fence in Fence:
        try:
            ran = run((PYTHON, "-I", "-S", "-c", ""), Workspace(), limits=PROBE, fence=fence)
        except SandboxError as error:
            reasons.append(f"{fence}: {error}")
            continue
        if ran.succeeded:
            return fence
        reasons.append(
            f"{fence}: Python does not start in it: {ran.not_started or ran.output.decode(errors='replace')}"
        )
    raise SandboxError(f"nothing here can confine a command: {'; '.join(reasons)}")


PROBE = Limits(wall_s=20.0, processes=1)


def _environment(places: Sequence[str]) -> dict[str, str]:
    programs = dict.fromkeys((os.path.dirname(PYTHON), "/usr/local/bin", "/usr/bin", "/bin"))
    return {
        "PATH": os.pathsep.join(programs),
        "HOME": places[1],
        "TMPDIR": places[2],
        "LANG": "C.UTF-8",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
    }


def _warden(job: dict[str, Any], workspace: Workspace, limits: Limits) -> dict[str, Any]:
    """What the warden says."""
    steps = steps_of(job["readable"], disk_bytes=limits.disk_bytes)
    command = [PYTHON, "-I", "-S", "-c", WARDEN]
    if job["fence"] is Fence.BUBBLEWRAP:
        program = bubblewrap()
        if program is None:
            raise SandboxError("bwrap is not installed")
        command = bubblewrap_arguments(program, steps) + command
    line = json.dumps({**job, "steps": steps}).encode() + b"\n"
    with tempfile.TemporaryFile() as errors:
        process = _started(command, errors)
        output = _exchange(process, line, workspace, limits.wall_s + GRACE_S)
        errors.seek(0)
        why = errors.read(2_000).decode(errors="replace").strip()
    try:
        said: dict[str, Any] = json.loads(output)
    except ValueError:
        raise SandboxError(f"a command could not be confined: {why or _death(process.returncode)}") from None
    if "broken" in said:
        raise SandboxError(f"a command could not be confined: {said['broken']}")
    return said


def _started(command: Sequence[str], errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"no process for a command can be started: {error}") from error


def _exchange(process: "subprocess.Popen[bytes]", line: bytes, workspace: Workspace, wall_s: float) -> bytes:
    """Hand over job and workspace; what it writes until it ends, or is ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(wall_s, process.kill)
    timer.start()
    try:
        with process.stdout as stdout:
            # Where it died before it read its job, its empty output says so.
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(line)
                workspace.write_tar(stdin)
            return stdout.read()
    finally:
        timer.cancel()
        process.kill()  # what it holds goes with it
        process.wait()


def _death(code: int) -> str:
    return f"its warden ended by {signal.Signals(-code).name}" if code < 0 else f"its warden ended with code {code}"


def _read(said: dict[str, Any], fence: Fence, limits: Limits) -> Ran:
    exit_code = said["exit"]
    ended = ENDINGS.get(said["ended"])
    if ended is None and exit_code == -signal.SIGXCPU:
        ended = f"it used its {limits.cpu_s} s of processor time and was ended"
    elif ended is None and exit_code == -signal.SIGKILL:
        ended = "it was killed: for memory or processor time, or by one of its own"
    amounts = {
        "wall_s": limits.wall_s,
        "memory_mb": limits.memory_bytes >> 20,
        "disk_mb": limits.disk_bytes >> 20,
        "output_kb": limits.output_bytes >> 10,
    }
    return Ran(
        exit_code=None if "not_started" in said else exit_code,
        not_started=said.get("not_started"),
        ended=ended.format(**amounts) if ended else None,
        output=base64.b64decode(said["output"]),
        seconds=said["seconds"],
        left=said["left"],
        confined=(f"by {fence}", *_view(fence), *LIMITED, *said["confined"]),
        files={name: base64.b64decode(content) for name, content in said["files"].items()},
    )


LIMITED = ("processor time", "memory", "disk", "output")


def _view(fence: Fence) -> tuple[str, ...]:
    """What namespaces and mounts keep away; Landlock says for itself."""
    if fence is Fence.LANDLOCK:
        return ()
    return ("no network", "no other processes", "no files outside its folder and what it needs")
