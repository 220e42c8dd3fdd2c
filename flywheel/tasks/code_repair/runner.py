"""Runs a program that nobody trusts and the calls that test it; ``program_tests.py`` has the sandbox run its text.

It reads ``{"program", "calls", "call_s"}`` from the file ``job.json`` of its folder, takes that away, and writes JSON
lines to standard output: ``{"call", "value"}`` or ``{"call", "error"}`` for each call. Values are written as ``repr``
does. What the calls should give is not known here, so that no program can look it up.

It uses the standard library alone and is started with ``-I -S``: nothing of the surroundings is imported.
"""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_VALUE = 4_000


class TooSlowError(BaseException):
    """Raised in a call that takes too long. A program may swallow it; the sandbox's limits it may not."""


def main() -> None:
    """Run the program where what it prints goes nowhere."""
    job: dict[str, Any] = json.loads(Path("job.json").read_text(encoding="utf-8"))
    Path("job.json").unlink()
    results = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    run(results, job["program"], job["calls"], job["call_s"])
    os._exit(0)


def run(results: int, program: str, calls: list[str], call_s: float) -> None:
    """Run the program, then each call, and report on each."""
    signal.signal(signal.SIGALRM, too_slow)
    names: dict[str, object] = {"__name__": "program"}
    _, error = attempt(lambda: exec(compile(program, "program.py", "exec"), names), call_s)  # noqa: S102 - its purpose
    if error:
        report(results, {"program": error})
        return
    for number, call in enumerate(calls):
        value, error = attempt(lambda: repr(eval(call, names)), call_s)  # noqa: B023, S307 - its purpose
        if error is None and len(str(value)) > LONGEST_VALUE:
            error = f"the value has more than {LONGEST_VALUE:,} characters"
        report(results, {"call": number, "error": error} if error else {"call": number, "value": value})


def attempt(work: Callable[[], T], seconds: float) -> tuple[T | None, str | None]:
    """What the work gives and None, or None and what went wrong: that is reported, and the test has failed by it."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return work(), None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TooSlowError:
        return None, f"no end after {seconds:g} s"
    except BaseException as error:  # noqa: BLE001 - a program may raise anything, exits included
        return None, described(error)


def described(error: BaseException) -> str:
    """An error in words; its own words may fail, too."""
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"[:300]
    return "an error that cannot be shown"


def too_slow(_signal: int, _frame: object) -> None:
    """End the call."""
    raise TooSlowError


def report(results: int, line: dict[str, object]) -> None:
    """Write one line."""
    os.write(results, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
