"""What a Python or command agent is handed and hands back: a task and an answer as plain data, camelCase as JSON."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from flywheel.arbiter.agents.reference import estimated_tokens
from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.records import Complexity, Message
from flywheel.tasks.source import AgentTask, Tool

LONGEST_REASON = 500
Tokens = Annotated[int, Meta(ge=0)]


class GivenTask(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task as an agent of a team's own gets it; the right answer is not in it.

    Attributes:
        id: of the task.
        task_type: its type.
        complexity: trivial, standard or complex.
        messages: the prompt as a language model would get it.
        tools: the functions that may be called, with JSON schemas.
    """

    id: str
    task_type: str
    complexity: Complexity
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]


class Reply(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What such an agent answers. Tokens that it does not tell are estimated from the texts.

    Attributes:
        text: the answer.
        prompt_tokens: read by it.
        output_tokens: written by it, reasoning included.
        thinking_tokens: the part of them that is reasoning.
        failure_reason: why there is no answer; then ``text`` counts for nothing.
    """

    text: str = ""
    prompt_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    thinking_tokens: Tokens = 0
    failure_reason: str | None = None


def given(task: AgentTask, messages: tuple[Message, ...]) -> GivenTask:
    """The task as it is handed over."""
    return GivenTask(
        id=task.id, task_type=task.task_type, complexity=task.complexity, messages=messages, tools=task.tools
    )


def reply_of(value: object) -> Reply:
    """What a function returned as a reply: a text, a mapping in JSON's names, or a ``Reply``.

    Raises:
        ValueError: it is none of them.
    """
    if isinstance(value, Reply):
        return value
    if isinstance(value, str):
        return Reply(text=value)
    if isinstance(value, Mapping):
        return msgspec.convert(dict(value), type=Reply)
    raise ValueError(f"it returned {type(value).__name__}, which is no text, mapping or Reply")


def answer_of(reply: Reply, messages: tuple[Message, ...], *, latency_ms: float) -> Answer:
    """The reply as an answer."""
    if reply.failure_reason is not None:
        failed = failed_answer(messages, shortened(reply.failure_reason), latency_ms=latency_ms)
        told: dict[str, Any] = {
            "prompt_tokens": reply.prompt_tokens or 0,
            "output_tokens": reply.output_tokens or 0,
            "thinking_tokens": reply.thinking_tokens,
        }
        return msgspec.structs.replace(failed, **told)
    read, written = reply.prompt_tokens, reply.output_tokens
    return Answer(
        text=reply.text,
        messages=messages,
        prompt_tokens=estimated_tokens(*(m.content or "" for m in messages)) if read is None else read,
        output_tokens=estimated_tokens(reply.text) if written is None else written,
        thinking_tokens=reply.thinking_tokens,
        latency_ms=max(latency_ms, 0.001),
    )


def shortened(reason: str) -> str:
    """A reason in one line of bounded length; its end is kept, where most programs say what went wrong."""
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else f"… {line[-LONGEST_REASON:]}"
