"""Runs untrusted Python with tests, in a process of its own with limits, in a fresh folder.

Confined by the kernel, as far as it offers it: limits on processor time, memory, file size and processes; no network
and no view of other processes (namespaces); no files but its folder's and Python's own (Landlock); another user where
this process is root's. ``TestRun.confined`` names what was in force. It is a fence for answers of language models, not
for people who attack kernels.
"""

import ast
import contextlib
import json
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from flywheel.errors import TaskSourceError

JAIL = Path(__file__).with_name("jail.py")
MAX_OUTPUT_BYTES = 1 << 20
GRACE_S = 5.0  # for starting and ending; the jail itself keeps the time


class Limits(Struct, frozen=True, kw_only=True):
    """What a program may use. ``call_s`` is of each call, ``wall_s`` of all of it; times in seconds."""

    call_s: float = 1.0
    cpu_s: int = 8
    wall_s: float = 20.0
    memory_bytes: int = 512 << 20
    file_bytes: int = 1 << 20


class ProgramTest(Struct, frozen=True):
    """A call, and what it should give, both as Python expressions; ``expect`` is a literal."""

    call: str
    expect: str


class TestResult(Struct, frozen=True, kw_only=True):
    """What a test came to. ``seen`` is the value or the error, in words."""

    __test__ = False  # not one of pytest's

    test: ProgramTest
    passed: bool
    seen: str


class TestRun(Struct, frozen=True, kw_only=True):
    """What all tests of a program came to.

    ``ended`` is how the process ended where it did not reach the last test; None where it did. ``confined`` names what
    held it.
    """

    __test__ = False

    results: tuple[TestResult, ...]
    confined: tuple[str, ...] = ()
    ended: str | None = None

    @property
    def passed_fraction(self) -> float:
        """Share of the tests passed, 0–1."""
        return sum(result.passed for result in self.results) / len(self.results)


def run_tests(program: str, tests: Sequence[ProgramTest], *, limits: Limits | None = None) -> TestRun:
    """Run a program and its tests. Whatever it does is a result; a test that was not reached has failed.

    Raises:
        TaskSourceError: no process can be started or confined here. The program was not run.
    """
    limits = limits or Limits()
    if platform.system() != "Linux":
        raise TaskSourceError("programs are run on Linux alone: elsewhere there is nothing to confine them by")
    with tempfile.TemporaryDirectory(prefix="flywheel-repair-", ignore_cleanup_errors=True) as folder:
        job = {
            "program": program,
            "calls": [test.call for test in tests],
            "folder": folder,
            "limits": {name: getattr(limits, name) for name in limits.__struct_fields__},
        }
        output = _output(json.dumps(job).encode(), folder, limits.wall_s + GRACE_S)
    return _read(output, tests)


def _output(job: bytes, folder: str, wall_s: float) -> bytes:
    """What the jail wrote until it ended, or was ended."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(JAIL)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise TaskSourceError(f"no process for a program's tests can be started: {error}") from error
    timer = threading.Timer(wall_s, process.kill)
    timer.start()
    try:
        return _exchange(process, job)
    finally:
        timer.cancel()
        process.kill()  # its child goes with it
        process.wait()


def _exchange(process: "subprocess.Popen[bytes]", job: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin, process.stdout as stdout:
        # Where it died before it read its job, its empty output says so.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(job)
            stdin.close()
        return stdout.read(MAX_OUTPUT_BYTES)


def _read(output: bytes, tests: Sequence[ProgramTest]) -> TestRun:
    lines = [line for line in map(_line, output.splitlines()) if line is not None]
    # Before the program runs nobody else writes into the pipe: what it says of its fence is the first line.
    if not lines or "confined" not in lines[0]:
        reason = lines[0].get("broken", "it said nothing") if lines else "it said nothing"
        raise TaskSourceError(f"the process for a program's tests could not be confined: {reason}")
    broken = next((str(line["program"]) for line in lines if "program" in line), None)
    reported = {line["call"]: line for line in reversed(lines) if isinstance(line.get("call"), int)}
    unreached = broken or _ending(lines[-1].get("ended"))
    results = tuple(_result(test, reported.get(number), unreached) for number, test in enumerate(tests))
    complete = all(number in reported for number in range(len(tests)))
    confined = lines[0]["confined"]
    return TestRun(
        results=results,
        confined=tuple(map(str, confined)) if isinstance(confined, list) else (),
        ended=None if complete else unreached,
    )


def _ending(code: object) -> str:
    """How a program ended that did not get to its last test."""
    if code == "late":
        return "stopped: it took too long"
    if not isinstance(code, int):
        return "stopped: it wrote too much, or took too long"
    if code >= 0:
        return f"the program ended by itself, with code {code}"
    name = signal.Signals(-code).name
    return {"SIGXCPU": "out of processor time", "SIGKILL": "out of processor time"}.get(name, f"ended by {name}")


def _line(raw: bytes) -> dict[str, object] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None  # a program can write into the pipe, too; what is no report is none
    return line if isinstance(line, dict) else None


def _result(test: ProgramTest, line: dict[str, object] | None, unreached: str) -> TestResult:
    if line is None:
        return TestResult(test=test, passed=False, seen=unreached)
    if "value" not in line:
        return TestResult(test=test, passed=False, seen=str(line.get("error", "")))
    seen = str(line["value"])
    return TestResult(test=test, passed=seen == canonical(test.expect), seen=seen)


def canonical(literal: str) -> str:
    """A literal as ``repr`` writes it."""
    return repr(ast.literal_eval(literal))
