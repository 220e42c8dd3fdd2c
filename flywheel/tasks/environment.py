"""The shape of an environment: a source of tasks that asks an agent, answers it turn by turn, and verifies the end.

Everything is deterministic: the same answers to the same task get the same messages and the same verdict. Third parties
add an environment by the entry point group ``flywheel.environments`` (docs/environments.md).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.records import Message, MinimalDiffMetrics, QualityGate, Score, ToolCall
from flywheel.tasks.source import AgentTask, SourceTask

T = TypeVar("T", bound=SourceTask)


class MadeCall(Struct, frozen=True, kw_only=True):
    """A tool call that an agent made, and whether it went well."""

    call: ToolCall
    right: bool


class Observation(Struct, frozen=True, kw_only=True):
    """What an environment makes of one answer. Scores are 0–1.

    Attributes:
        messages: what the agent is told next, tools' results first; empty where the run is over.
        calls: of tools, as found in the answer.
        format: 1 written as asked, 0.5 found inside other text, 0 nothing of use.
        information_gain: share of what the turn brought that was not known before it.
        progress: how far the task is done after this turn; None where only the end can tell.
        multiplier: the minimal diff's, 0.1–1, of a turn whose answer changes code; it multiplies the turn's reward.
    """

    messages: tuple[Message, ...] = ()
    calls: tuple[MadeCall, ...] = ()
    format: Score
    information_gain: Score
    progress: Score | None = None
    multiplier: float = 1.0

    @property
    def over(self) -> bool:
        """Whether the agent is asked nothing more."""
        return not self.messages

    @property
    def feedback(self) -> str | None:
        """What the agent is told, in one text; None where the run is over."""
        return "\n".join(message.content or "" for message in self.messages) or None


class Verification(Struct, frozen=True, kw_only=True):
    """Whether a task was done, by checks that ran. Scores are 0–1.

    Attributes:
        checks: the verdicts, by name; all that are mandatory must have passed.
        tool: share of the tool calls that went well; 1 where the task has no tools.
        task: share of the task that was done; 1 where it is done.
        minimal: share of what the agent did that was needed.
        minimal_diff: how small the change of code is that the agent left; None where it changed none.
        safety: 0 where something happened that must not.
        reason: what is wrong first, in words; "as expected" where nothing is.
        evidence: what the checks saw, a line each: enough to see why without running them again.
        findings: what looks like work on the reward rather than on the task; the conversation is looked at anyway.
    """

    checks: tuple[QualityGate, ...]
    tool: Score
    task: Score
    minimal: Score
    minimal_diff: MinimalDiffMetrics | None = None
    safety: Score = 1.0
    reason: str
    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every mandatory check was passed."""
        return all(check.passed for check in self.checks if check.mandatory)


class AskedTurn(AgentTask, frozen=True, kw_only=True):
    """One turn of a run as an agent is asked it: the conversation so far, with nothing to add.

    ``known_answer`` gives what the known solution of the task says now. It is for the reference agent, which plays it;
    any other agent would cheat by it, as it would by a ``BenchmarkTask``'s expected calls.
    """

    known_answer: Callable[[], str]


class Run(Protocol):
    """One agent's run of one task, from a fresh state. Not to be shared by threads."""

    def opening(self) -> tuple[Message, ...]:
        """What the agent is asked at first; a last message of the user."""
        ...

    def known_answer(self) -> str:
        """What the known solution answers now; a run in which it is always followed is verified as passed."""
        ...

    def step(self, answer: str) -> Observation:
        """Take the agent's answer. Not to be called again once the run is over."""
        ...

    def verify(self) -> Verification:
        """Check what the run came to so far, without changing it."""
        ...


class Environment(Protocol):
    """A source of tasks that are run and verified."""

    name: str
    """What task ids begin with and what ``[tasks] sources`` calls it."""

    def tasks(self) -> Sequence[SourceTask]:
        """All tasks in a stable order, each in exactly one split.

        Raises:
            TaskSourceError: the source's data is not installed or cannot be read.
        """
        ...

    def by_id(self, task_id: str) -> SourceTask:
        """The task of this id.

        Raises:
            KeyError: there is none.
        """
        ...

    def run(self, task: SourceTask) -> Run:
        """Begin a run of one of the tasks."""
        ...


class TaskList(Generic[T]):
    """The part of an environment that is its list of tasks, read on first use."""

    def tasks(self) -> Sequence[T]:
        """All tasks, in the source's order.

        Raises:
            TaskSourceError: the source's data is not installed or does not have the expected files.
        """
        return self._tasks

    def by_id(self, task_id: str) -> T:
        """The task of this id.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[task_id]

    def read_tasks(self) -> Sequence[T]:
        """Read or make the tasks; called once."""
        raise NotImplementedError

    @cached_property
    def _tasks(self) -> tuple[T, ...]:
        return tuple(self.read_tasks())

    @cached_property
    def _by_id(self) -> Mapping[str, T]:
        return {task.id: task for task in self._tasks}


def mandatory_check(name: str, score: float, *, threshold: float = 1.0) -> QualityGate:
    """A check that must be passed, with its score, 0–1."""
    return QualityGate(name=name, passed=score >= threshold, score=score, threshold=threshold, mandatory=True)
