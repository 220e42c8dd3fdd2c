"""Runs programs that nobody trusts with their tests, each in a sandbox of its own (``flywheel.sandbox``)."""

import ast
import json
import signal
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from flywheel.sandbox import sandbox
from flywheel.sandbox.sandbox import Limits, Ran
from flywheel.sandbox.workspace import Workspace

RUNNER = Path(__file__).with_name("runner.py").read_text(encoding="utf-8")
CALL_S = 1.0
LIMITS = Limits(
    wall_s=20.0,
    cpu_s=8,
    memory_bytes=512 << 20,
    disk_bytes=16 << 20,
    file_bytes=1 << 20,
    output_bytes=1 << 20,
    processes=1,
    open_files=32,
)


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


def run_tests(
    program: str, tests: Sequence[ProgramTest], *, call_s: float = CALL_S, limits: Limits = LIMITS
) -> TestRun:
    """Run a program and its tests, each call for at most ``call_s`` seconds.

    Whatever it does is a result; a test that was not reached has failed.

    Raises:
        SandboxError: no process can be started or confined here. The program was not run.
    """
    job = {"program": program, "calls": [test.call for test in tests], "call_s": call_s}
    ran = sandbox.run(
        (sandbox.PYTHON, "-I", "-S", "-c", RUNNER),
        Workspace(files={"job.json": json.dumps(job)}),
        limits=limits,
        network="refused where possible",
    )
    return _read(ran, tests)


def _read(ran: Ran, tests: Sequence[ProgramTest]) -> TestRun:
    lines = [line for line in map(_line, ran.output.splitlines()) if line is not None]
    broken = next((str(line["program"]) for line in lines if "program" in line), None)
    reported = {line["call"]: line for line in reversed(lines) if isinstance(line.get("call"), int)}
    unreached = broken or _ending(ran)
    results = tuple(_result(test, reported.get(number), unreached) for number, test in enumerate(tests))
    complete = all(number in reported for number in range(len(tests)))
    return TestRun(results=results, confined=ran.confined, ended=None if complete else unreached)


def _ending(ran: Ran) -> str:
    """How a program ended that did not get to its last test."""
    if ran.ended is not None:
        return f"stopped: {ran.ended}"
    if ran.exit_code is not None and ran.exit_code < 0:
        return f"the program was ended by {signal.Signals(-ran.exit_code).name}"
    return f"the program ended by itself, with code {ran.exit_code}"


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
