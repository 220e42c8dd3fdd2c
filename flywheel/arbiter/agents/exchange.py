"""What a Python or command agent is handed and hands back: a task and an answer as plain data, camelCase as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from flywheel.arbiter.agents.reference import estimated_tokens
from flywheel.arbiter.agents.strategy import Answer, Tokens, call_id, failed_answer
from flywheel.records import Complexity, Message, ToolCall
from flywheel.tasks.options import NO_OPTIONS, GenerationOptions
from flywheel.tasks.source import AgentTask, Tool

LONGEST_REASON = 500


class GivenTask(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task as an agent of a team's own gets it; the right answer is not in it.

    Attributes:
        id: of the task.
        task_type: its type.
        complexity: trivial, standard or complex.
        messages: the prompt as a language model would get it.
        tools: the functions that may be called, with JSON schemas.
        options: how the answer is to be generated, under OpenAI's names. Who cannot honour one says so as the reason
            of a failure, and another agent gets the task.
    """

    id: str
    task_type: str
    complexity: Complexity
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    options: GenerationOptions = NO_OPTIONS


class Reply(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What such an agent answers. Tokens that it does not tell are estimated from the texts.

    Attributes:
        text: the answer.
        tool_calls: of the tools, where the task is a conversation that may call them; otherwise calls are in the text.
        prompt_tokens: read by it.
        output_tokens: written by it, reasoning included.
        thinking_tokens: the part of them that is reasoning.
        failure_reason: why there is no answer; then ``text`` counts for nothing.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    thinking_tokens: Tokens = 0
    failure_reason: str | None = None


def given(task: AgentTask, messages: tuple[Message, ...]) -> GivenTask:
    """The task as it is handed over."""
    return GivenTask(
        id=task.id,
        task_type=task.task_type,
        complexity=task.complexity,
        messages=messages,
        tools=() if task.options.tool_choice == "none" else task.tools,
        options=task.options,
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


def _why_unwritable(reply: Reply) -> str | None:
    try:
        msgspec.json.encode((reply.text, reply.tool_calls))
    except UnicodeEncodeError as error:
        return f"its answer is no text: {error}"
    return None


def answer_of(reply: Reply, messages: tuple[Message, ...], *, latency_ms: float, task: AgentTask) -> Answer:
    """The reply as an answer; a failed one where it is not of the form that was asked for."""
    reason = reply.failure_reason or _why_unwritable(reply) or _why_not_as_asked(reply, task)
    if reason is not None:
        failed = failed_answer(messages, shortened(reason), latency_ms=latency_ms)
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
        tool_calls=tuple(
            call if call.id else msgspec.structs.replace(call, id=call_id(task.id, index))
            for index, call in enumerate(reply.tool_calls)
        ),
        finish_reason="tool_calls" if reply.tool_calls else "stop",
    )


def _why_not_as_asked(reply: Reply, task: AgentTask) -> str | None:
    """What the reply lacks of the form that was asked for; None where it has it."""
    options, called = task.options, {call.name for call in reply.tool_calls}
    unknown = called - {tool.name for tool in given(task, ()).tools}
    if unknown:
        return f"it calls {', '.join(sorted(unknown))}, which is none of the tools"
    if options.wants_call is not None and (not called or (options.wants_call and called != {options.wants_call})):
        return f"tool_choice asks for a call of {options.wants_call or 'a tool'}, and it did not make it"
    if options.wants_json and not called and not _is_json(reply.text):
        return "response_format asks for JSON, and it did not answer in JSON"
    return None


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def shortened(reason: str) -> str:
    """A reason in one line of bounded length; its end is kept, where most programs say what went wrong.

    What is no character, as half of one in a file's name, becomes a question mark: a reason is logged.
    """
    line = " ".join(reason.encode(errors="replace").decode().split())
    return line if len(line) <= LONGEST_REASON else f"… {line[-LONGEST_REASON:]}"
