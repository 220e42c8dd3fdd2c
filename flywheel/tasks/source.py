"""The shape of a source of tasks: what to ask, and which split a task belongs to."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from flywheel.records import Complexity, Message
from flywheel.tasks.options import NO_OPTIONS, Dialect, GenerationOptions


class Split(StrEnum):
    """What a task may be used for. Held-out tasks are never routed, logged or trained on."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELDOUT = "heldout"


class Tool(Struct, frozen=True, kw_only=True):
    """A function an agent may call. ``parameters`` is JSON schema as the source writes it.

    ``strict``: whether calls must hold to it; None: as the agent does otherwise.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool | None = None


class ExpectedCall(Struct, frozen=True, kw_only=True):
    """A call that answers the task: for each argument the values that count as right; ``""`` marks it optional."""

    name: str
    arguments: dict[str, tuple[Any, ...]]


class AgentTask(Struct, frozen=True, kw_only=True):
    """What an agent is handed: the conversation up to what is asked of it, the tools it may call, and how to answer."""

    id: str
    task_type: str
    complexity: Complexity
    question: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    dialect: Dialect = "text"
    options: GenerationOptions = NO_OPTIONS

    @property
    def text(self) -> str:
        """The last thing the user says, as the routing decision's description."""
        return next((m.content or "" for m in reversed(self.question) if m.role == "user"), "")


class SourceTask(AgentTask, frozen=True, kw_only=True):
    """A task of a source, whose environment verifies it. ``id`` is ``source:name``, as ``code-repair:clamp``."""

    category: str
    split: Split


class BenchmarkTask(SourceTask, frozen=True, kw_only=True):
    """One task with its verifiable answer. ``id`` is ``source:name``, for example ``bfcl:simple_python_0``."""

    expected: tuple[ExpectedCall, ...]


class TaskSource(Protocol):
    """A benchmark with published answers: its tasks in a stable order, each in exactly one split."""

    name: str

    def tasks(self) -> Sequence[BenchmarkTask]:
        """All tasks.

        Raises:
            TaskSourceError: the source's data is not installed or cannot be read.
        """
        ...

    def by_id(self, task_id: str) -> BenchmarkTask:
        """The task of this id.

        Raises:
            KeyError: there is none.
        """
        ...
