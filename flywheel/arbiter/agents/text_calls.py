"""Conversations for models that know tools in words alone: the text dialect in the place of the chat dialect.

Models that this platform trains were taught to write calls as text (``flywheel.tasks.prompt``); here they can serve
clients that send tools and take calls beside the words.
"""

import json
from collections.abc import Iterator, Sequence

import msgspec

from flywheel.arbiter.agents.strategy import Answer, call_id
from flywheel.arbiter.evaluation.parsing import ParsedCalls, parse_calls
from flywheel.records import Message, ToolCall
from flywheel.tasks.source import AgentTask


def in_text(task: AgentTask) -> AgentTask:
    """The task in the text dialect. Without tools where none may be called."""
    if task.dialect == "text":
        return task
    tools = () if task.options.tool_choice == "none" else task.tools
    question = in_words(task.question)
    if question[-1].role != "user":  # the tools stand before the last message of the user
        tools = ()
    return msgspec.structs.replace(task, dialect="text", question=question, tools=tools)


def in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation in text alone: calls as lines of what the assistant said, results as said by the user."""
    return as_asked(tuple(_in_words(messages)))


def as_asked(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation whose calls are written in the text already: what tools said as messages of the user."""
    return tuple(_results_of_user(messages))


def may_call(task: AgentTask) -> bool:
    """Whether the answer may be calls that stand beside its text, as they do in the chat dialect."""
    return task.dialect == "chat" and bool(in_text(task).tools)


def with_calls(answer: Answer, task: AgentTask) -> Answer:
    """The answer to a task of the chat dialect: where it is nothing but calls of the tools, they stand beside it."""
    if answer.failure_reason is not None:
        return answer
    found = parse_calls(answer.text) if may_call(task) else None
    if not isinstance(found, ParsedCalls) or not found.strict:
        return answer
    if not {call.name for call in found.calls} <= {tool.name for tool in task.tools}:
        return answer
    calls = tuple(
        ToolCall(id=call_id(task.id, index), name=call.name, arguments=json.dumps(call.arguments, ensure_ascii=False))
        for index, call in enumerate(found.calls)
    )
    return msgspec.structs.replace(answer, text="", tool_calls=calls, finish_reason="tool_calls")


def _results_of_user(messages: Sequence[Message]) -> Iterator[Message]:
    results: list[str] = []
    for message in messages:
        if message.role == "tool":
            results.append(f"Result of {message.name}:\n{message.content or ''}")
            continue
        if results:
            yield Message(role="user", content="\n\n".join(results))
            results = []
        yield msgspec.structs.replace(message, tool_calls=())
    if results:
        yield Message(role="user", content="\n\n".join(results))


def _in_words(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages with calls as text, and results under the names of their tools."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role == "tool":
            named = message.name or names.get(message.tool_call_id) or "the tool"
            yield msgspec.structs.replace(message, name=named)
            continue
        lines = [message.content] if message.content else []
        lines += [_in_line(call) for call in message.tool_calls]
        yield Message(role=message.role, content="\n".join(lines), name=message.name)


def _in_line(call: ToolCall) -> str:
    return f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'
