"""Candidates for tests of single gates: a change in a folder, and commands that come to what the test says."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.gates.gate import Candidate
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.sandbox.sandbox import Ran


class CannedCommands:
    """Commands that were run before: what they came to is given."""

    def __init__(self, ran: Ran) -> None:
        self.ran = ran
        self.asked_for: list[tuple[tuple[str, ...], float]] = []

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Ran:
        self.asked_for.append((tuple(argv), timeout_s))
        return self.ran


def ran(
    exit_code: int | None = 0,
    output: str = "",
    *,
    files: Mapping[str, bytes] | None = None,
    ended: str | None = None,
    not_started: str | None = None,
) -> Ran:
    return Ran(
        exit_code=exit_code,
        output=output.encode(),
        seconds=0.1234,
        confined=("no network",),
        files=dict(files or {}),
        ended=ended,
        not_started=not_started,
    )


def candidate(
    *files: FileChange,
    before: Path = Path("/nowhere"),
    came_to: Ran | None = None,
    asked: str = "",
    rubric: Rubric = BUILTIN,
) -> Candidate:
    commands = CannedCommands(came_to or ran())
    return Candidate(before=before, change=Change(files=files), commands=commands, asked=asked, rubric=rubric)


def changed(path: str, before: str | None, after: str | None, *, old_path: str | None = None) -> FileChange:
    return FileChange(path=path, before=before, after=after, old_path=old_path)
