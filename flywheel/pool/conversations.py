"""A point's conversation as trainers take it: what was asked, what was answered (TRL's conversational form)."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from flywheel.records import Message, ToolCall, Wire
from flywheel.tasks.prompt import without_demonstrations
from flywheel.tasks.source import Tool

JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class Conversation(Struct, frozen=True, gc=False):
    """Two parts of a conversation, without demonstrations: up to the last thing that was asked, and the answer to it.

    The answer is the agent's messages and what tools said in between; it is empty where nobody answered.
    """

    prompt: tuple[Message, ...]
    answer: tuple[Message, ...]

    @property
    def asked(self) -> bool:
        """Whether there is a prompt to answer."""
        return bool(self.prompt)

    @property
    def answered(self) -> bool:
        """Whether there is a prompt, and the agent had the last word."""
        return bool(self.prompt and self.answer) and self.answer[-1].role == "assistant"

    @property
    def trainable(self) -> bool:
        """Whether the training loop can take it for either phase: it is answered, and its calls can be written out."""
        return self.answered and (
            bool(self.answer[-1].content) or all(isinstance(arguments_of(c), dict) for c in self.answer[-1].tool_calls)
        )

    @property
    def text(self) -> str:
        """All that was said but system messages, which many tasks share."""
        return text_of((*self.prompt, *self.answer))


class _Task(Wire, frozen=True, kw_only=True, gc=False):
    id: str
    type: str
    complexity: str
    source: str | None = None


class _Routing(Wire, frozen=True, kw_only=True, gc=False):
    selected_agent_id: str


class _Execution(Wire, frozen=True, kw_only=True, gc=False):
    success: bool
    messages: tuple[Message, ...] = ()


class _Evaluation(Wire, frozen=True, kw_only=True, gc=False):
    overall_score: float


class _Turn(Wire, frozen=True, kw_only=True, gc=False):
    turn_reward: float
    information_gain: float


class _RlLabels(Wire, frozen=True, kw_only=True, gc=False):
    final_outcome: str
    total_reward: float
    turns: tuple[_Turn, ...] = ()


class Example(Wire, frozen=True, kw_only=True, gc=False):
    """What a ``DataPoint`` says to trainers: the rest of a point is not decoded, which takes five times as long."""

    id: str
    task: _Task
    routing: _Routing
    execution: _Execution
    evaluation: _Evaluation
    rl_labels: _RlLabels


decode_example = msgspec.json.Decoder(Example).decode


def conversation_of(payload: str | memoryview) -> Conversation:
    """The conversation in a point's wire JSON; the rest is not decoded."""
    return parted(decode_example(payload).execution.messages)


def parted(messages: Sequence[Message]) -> Conversation:
    """The parts of a conversation."""
    own = without_demonstrations(messages)
    last = len(own)
    while last and own[last - 1].role not in {"user", "system"}:
        last -= 1
    return Conversation(own[:last], own[last:])


def text_of(messages: Sequence[Message]) -> str:
    """What tells conversations apart."""
    return "\n".join(part for message in messages for part in said(message))


def said(message: Message) -> list[str]:
    """The texts of a message that tell points apart."""
    if message.role == "system":
        return []
    return [message.content or "", *(f"{call.name} {call.arguments}" for call in message.tool_calls)]


def chat_message(message: Message) -> dict[str, Any]:
    """A message as chat templates take it: calls in OpenAI's form with their arguments as an object.

    Content that only spells the calls out, as agents without native tool calls answer, is left out: a template would
    write the calls twice.
    """
    row: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.tool_calls:
        row["content"] = "" if spells_calls(message) else row["content"]
        row["tool_calls"] = [chat_call(call) for call in message.tool_calls]
    if message.name is not None:
        row["name"] = message.name
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    return row


def chat_call(call: ToolCall) -> dict[str, Any]:
    """A tool call in OpenAI's form. Arguments that are no JSON object stay the text they are."""
    row: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments_of(call)}}
    return row if call.id is None else {"id": call.id, **row}


def arguments_of(call: ToolCall) -> Any:
    """The arguments as an object, where they are one."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return call.arguments
    return arguments if isinstance(arguments, dict) else call.arguments


def spells_calls(message: Message) -> bool:
    """Whether the content is the message's calls, a JSON object with name and arguments a line."""
    try:
        lines = [json.loads(line) for line in (message.content or "").splitlines() if line.strip()]
    except ValueError:
        return False
    return lines == [{"name": call.name, "arguments": arguments_of(call)} for call in message.tool_calls]


def chat_tool(tool: Tool) -> dict[str, Any]:
    """A tool's schema in OpenAI's form, its types named as JSON schema names them."""
    function = {"name": tool.name, "description": tool.description, "parameters": json_schema(tool.parameters)}
    return {"type": "function", "function": function}


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose types are Python's, as benchmarks write them, with JSON's."""
    named = dict(schema)
    if isinstance(schema.get("type"), str):
        named["type"] = JSON_TYPES.get(schema["type"], schema["type"])
    if isinstance(schema.get("properties"), dict):
        named["properties"] = {key: json_schema(value) for key, value in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        named["items"] = json_schema(schema["items"])
    return named
