"""The shape of an agent: it is handed tasks and gives an answer to each."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from flywheel.records import Message
from flywheel.tasks.source import BenchmarkTask

Progress = Callable[[int, int], None]
"""Called with tasks answered so far and tasks in all."""


class Answer(Struct, frozen=True, kw_only=True):
    """What an agent made of one task.

    Attributes:
        text: the answer as written; empty where there is none.
        messages: the prompt as the agent saw it; the answer itself is not among them.
        latency_ms: wall-clock time of this answer. In a batch that is the batch's time: every caller waits for it.
        time_to_first_action_ms: until the first token or byte; None where the agent cannot tell.
        failure_reason: why there is no answer; None where there is one.
    """

    text: str
    messages: tuple[Message, ...]
    prompt_tokens: int
    output_tokens: int
    latency_ms: float
    time_to_first_action_ms: float | None = None
    failure_reason: str | None = None


class Agent(Protocol):
    """Anything that answers tasks. One file of this folder per kind."""

    def answer(self, tasks: Sequence[BenchmarkTask], *, on_progress: Progress | None = None) -> list[Answer]:
        """One answer per task, in their order. A task that could not be answered has a ``failure_reason``.

        Raises:
            AgentError: the agent cannot answer anything, for example because its model cannot be loaded.
        """
        ...
