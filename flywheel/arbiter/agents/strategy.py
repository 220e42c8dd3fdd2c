"""The shape of an agent: it is handed tasks and gives an answer to each."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Annotated, Literal, Protocol, runtime_checkable

from msgspec import Meta, Struct

from flywheel.records import Message, ToolCall
from flywheel.tasks.source import AgentTask

Progress = Callable[[int, int], None]
"""Called with tasks answered so far and tasks in all."""
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why an answer ends where it does, in OpenAI's words."""
MOST_TOKENS = 10**12
"""No answer takes more: what is told beyond is no count, and could not be stored."""
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]


class Answer(Struct, frozen=True, kw_only=True):
    """What an agent made of one task.

    Attributes:
        text: the answer as written; empty where there is none.
        messages: the prompt as the agent saw it; the answer itself is not among them.
        latency_ms: wall-clock time, above 0. An agent that answers in batches gives the time of the whole call divided
            by its answers.
        time_to_first_action_ms: until the first token or byte; None where the agent cannot tell.
        thinking_tokens: the part of ``output_tokens`` spent on reasoning that is not in ``text``, where it is told.
        failure_reason: why there is no answer; None where there is one.
        tool_calls: of an answer in the chat dialect; in the text dialect they are in ``text``.
        finish_reason: why it ends where it does; None where the agent does not tell.
        refused: whether the agent did not answer since the request itself is refused, as one that is too long.
        timed_out: whether it did not answer since its time was over.
    """

    text: str
    messages: tuple[Message, ...]
    prompt_tokens: int
    output_tokens: int
    latency_ms: float
    time_to_first_action_ms: float | None = None
    thinking_tokens: int = 0
    failure_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | None = None
    refused: bool = False
    timed_out: bool = False


def ignore_progress(done: int, total: int) -> None:
    """The progress callback of callers who do not watch."""


def part_of(on_progress: Progress, *, before: int, total: int) -> Progress:
    """Progress of a part as progress of the whole, of which ``before`` tasks were done when the part began."""

    def report(done: int, _: int) -> None:
        on_progress(before + done, total)

    return report


def failed_answer(
    messages: tuple[Message, ...], reason: str, *, latency_ms: float, refused: bool = False, timed_out: bool = False
) -> Answer:
    """What stands for an answer that never came. A latency that rounds to 0 becomes 1 µs: time did pass."""
    return Answer(
        text="",
        messages=messages,
        prompt_tokens=0,
        output_tokens=0,
        latency_ms=max(latency_ms, 0.001),
        failure_reason=reason,
        refused=refused,
        timed_out=timed_out,
    )


def call_id(task_id: str, index: int) -> str:
    """The id of a tool call that came without one; the same for the same call of the same task."""
    return f"call_{blake2b(f'{task_id}/{index}'.encode(), digest_size=12).hexdigest()}"


class CallPiece(Struct, frozen=True, kw_only=True):
    """A piece of a tool call that is being written. ``index`` counts the answer's calls from 0.

    The first piece of a call has its id and name; the ``arguments`` of all of them are the JSON text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


Piece = str | CallPiece
"""A piece of an answer on its way: of its text, or of a tool call."""


class Pieces(Protocol):
    """Where an answer goes while it is being written. Safe for threads."""

    @property
    def wanted(self) -> bool:
        """Whether anybody takes pieces."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the answer is waited for still; where it is not, who writes it may stop."""
        ...

    def send(self, piece: Piece) -> None:
        """Pass a piece on; an empty one says that the agent is at work. What takes it may be slow."""
        ...


def send_whole(answer: Answer, to: Pieces) -> None:
    """Pass an answer on that is there at once: its text in one piece, each of its calls in another."""
    to.send(answer.text)
    for index, call in enumerate(answer.tool_calls):
        to.send(CallPiece(index=index, id=call.id, name=call.name, arguments=call.arguments))


class Agent(Protocol):
    """Anything that answers tasks. One file of this folder per kind."""

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """One answer per task, in their order. A task that could not be answered has a ``failure_reason``.

        Raises:
            AgentError: the agent cannot answer anything, for example because its model cannot be loaded.
        """
        ...


@runtime_checkable
class SingleTaskAgent(Protocol):
    """An agent that is asked for one task at a time; ``running.RunningAgent`` makes an ``Agent`` of it."""

    async def ask(self, task: AgentTask) -> Answer:
        """The answer, or one with a ``failure_reason``. Must not block its event loop; ends when it is cancelled.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        ...


@runtime_checkable
class StreamingAgent(Protocol):
    """An agent that can hand out its answer while it is being written."""

    def stream(self, task: AgentTask, *, to: Pieces) -> Answer:
        """The answer to one task, which is the pieces that were sent, in their order, where any are wanted.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        ...
