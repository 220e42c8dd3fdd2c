"""The shape of a gate: it looks at a candidate and says what it found, or that it could not be run."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol

from msgspec import Struct
from pydantic import Field

from flywheel.arbiter.evaluation.change import Change
from flywheel.arbiter.evaluation.changed_lines import LineChanges, changes_of
from flywheel.arbiter.evaluation.minimal_diff.scoring import MinimalDiff, score
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.sandbox.sandbox import Ran
from flywheel.settings_section import Section

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


class Evidence(Struct, frozen=True, kw_only=True):
    """What a gate saw: enough to understand its outcome without running it again.

    Attributes:
        findings: in words, with file and line where there is one.
        command, exit_code, output, seconds, confined: of a gate that runs a command: what ran, how it ended, the part
            of its output that matters, how long it took, and what held it.
    """

    findings: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    output: str = ""
    seconds: float | None = None
    confined: tuple[str, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """What a gate found. ``score`` is 0–1, and the gate is passed where it reaches its threshold.

    ``error`` says why the gate could not be run; it is neither passed nor failed then, and the score is 0.
    """

    score: float
    reason: str
    evidence: Evidence = Evidence()
    error: str | None = None


class Commands(Protocol):
    """Runs a command in a fresh copy of what the candidate comes to."""

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Ran:
        """What became of it.

        Raises:
            SandboxError: nothing here can confine a command. It was not run.
        """
        ...


class Candidate:
    """A change that is to be judged, with what it was made from.

    Args:
        before: the folder of the workspace before the change.
        change: of files in it.
        commands: run in a copy of the folder with the change applied.
        asked: the task's own words; what they contain is not held against the change.
        rubric: what rewards the change: it says which findings of reward hacking void.
    """

    def __init__(
        self, *, before: Path, change: Change, commands: Commands, asked: str = "", rubric: Rubric = BUILTIN
    ) -> None:
        self.before = before
        self.change = change
        self.commands = commands
        self.asked = asked
        self.rubric = rubric

    @cached_property
    def lines(self) -> tuple[LineChanges, ...]:
        """The changed lines of each file, in the change's order."""
        return changes_of(self.change)

    @cached_property
    def minimal_diff(self) -> MinimalDiff:
        """How small the change is."""
        return score(self.change)

    def content(self, path: str) -> bytes | None:
        """A file of the workspace after the change; None where there is none, or where it is not known whole."""
        for file in self.change.files:
            if file.path == path:
                return None if file.after is None or file.hunks or file.binary else file.after.encode()
            if file.old_path == path:
                return None
        whole = (self.before / path).resolve()
        inside = whole.is_relative_to(self.before.resolve()) and whole.is_file()
        return whole.read_bytes() if inside else None


class Gate(Section):
    """Base of the gates: their fields in a working spec, and ``check``.

    ``least`` is the threshold where neither the spec nor its risk tier sets one.
    """

    least: ClassVar[float] = 1.0

    name: str = Field("", pattern=rf"^$|{NAME}", description="its name in verdicts; by default that of the gate")
    mandatory: bool = Field(True, description="whether the change is refused where it is not passed")

    @property
    def kind(self) -> str:
        """Which gate it is."""
        kind: str = self.gate  # type: ignore[attr-defined]
        return kind

    @property
    def title(self) -> str:
        """Its name in verdicts."""
        return self.name or self.kind

    @property
    def wanted(self) -> float | None:
        """The threshold that the spec sets, 0–1; None where it leaves that to the tier."""
        return None

    @property
    def reports(self) -> tuple[str, ...]:
        """Files that its command writes and that it reads."""
        return ()

    def check(self, candidate: Candidate) -> Outcome:
        """Look at the candidate. What cannot be run is an outcome with an error, and raises only ``SandboxError``."""
        raise NotImplementedError
