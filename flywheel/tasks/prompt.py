"""The canonical prompt and the canonical answer of a function-calling task.

Every agent is asked in the same words, and SFT, GRPO and evaluation use the same prompt, so that a model is tested on
what it was trained for. Few-shot demonstrations are extra messages whose ``name`` starts with ``example_``; training
drops them, which turns an agent that needs demonstrations into one that does not.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from flywheel.arbiter.evaluation.argument_values import argument_problem
from flywheel.records import Message
from flywheel.tasks.source import AgentTask, BenchmarkTask, ExpectedCall, Tool

PromptStyle = Literal["zero-shot", "few-shot"]

INSTRUCTION = (
    "You call functions. Answer with one JSON object per call, one per line, and nothing else: "
    '{"name": "function", "arguments": {"argument": value}}. Arguments marked ? are optional.'
)
EXAMPLE_PREFIX = "example_"
MAX_ENUM_VALUES = 8
_TYPE_NAMES = {
    "string": "str",
    "integer": "int",
    "float": "float",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "tuple": "list",
    "dict": "dict",
    "object": "dict",
}
# Written for this package, not taken from a benchmark: a demonstration must not give a tested answer away.
_DEMONSTRATIONS = (
    (
        ("add_reminder(text: str, hour: int, weekdays?: list[str]): Adds a reminder.",),
        "Remind me at 9 to water the plants.",
        '{"name": "add_reminder", "arguments": {"text": "water the plants", "hour": 9}}',
    ),
    (
        (
            "parcel.track(number: str): Tells where a parcel is.",
            "parcel.price(weight_kg: float, express?: bool): Tells what sending a parcel costs.",
        ),
        "What would an express parcel of 2.5 kg cost me?",
        '{"name": "parcel.price", "arguments": {"weight_kg": 2.5, "express": true}}',
    ),
    (
        ('set_lamp(room: str, mode: "on"|"off"): Switches the lamp of a room.',),
        "Kitchen light on and bedroom light off, please.",
        '{"name": "set_lamp", "arguments": {"room": "kitchen", "mode": "on"}}\n'
        '{"name": "set_lamp", "arguments": {"room": "bedroom", "mode": "off"}}',
    ),
)


def prompt_messages(task: AgentTask, style: PromptStyle = "zero-shot") -> tuple[Message, ...]:
    """The messages that ask a model to do the task: its own where there is no tool to call, and in the chat dialect.

    Else one system message (instruction, then what the task's own system message says), the demonstrations if the style
    is few-shot, then the question's turns; the tools stand before the last one.
    """
    if not task.tools or task.dialect == "chat":
        return task.question
    own_system = [m.content or "" for m in task.question if m.role == "system"]
    system = Message(role="system", content="\n".join([INSTRUCTION, *own_system]))
    turns = [m for m in task.question if m.role != "system"]
    signatures = tuple(signature(tool) for tool in task.tools)
    asked = Message(role="user", content=_question(signatures, turns[-1].content or ""))
    demonstrations = _demonstrations() if style == "few-shot" else ()
    return (system, *demonstrations, *turns[:-1], asked)


def without_demonstrations(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without few-shot demonstrations: what training sees."""
    return tuple([m for m in messages if m.name is None or not m.name.startswith(EXAMPLE_PREFIX)])


def signature(tool: Tool) -> str:
    """A tool in one line: ``name(a: int, b?: str): first sentence of its description``."""
    required = set(tool.parameters.get("required", ()))
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {_type_name(schema)}"
        for name, schema in tool.parameters.get("properties", {}).items()
    )
    return f"{tool.name}({arguments}): {_first_sentence(tool.description)}"


def reference_answer(task: BenchmarkTask) -> str:
    """The canonical completion from the published answer: one JSON call per line, optional arguments left out.

    Where the benchmark accepts several values, the first one that its own type rules accept is written.
    The answer of a task that no tool fits is empty.
    """
    tools = {tool.name: tool for tool in task.tools}
    return "\n".join(_reference_call(call, tools.get(call.name)) for call in task.expected)


def _demonstrations() -> tuple[Message, ...]:
    messages: list[Message] = []
    for signatures, question, answer in _DEMONSTRATIONS:
        messages.append(Message(role="user", name="example_user", content=_question(signatures, question)))
        messages.append(Message(role="assistant", name="example_assistant", content=answer))
    return tuple(messages)


def _question(signatures: Sequence[str], text: str) -> str:
    return "\n".join([*(f"- {line}" for line in signatures), text])


def _type_name(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum") or ()
    if values and len(values) <= MAX_ENUM_VALUES:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in values)
    name = _TYPE_NAMES.get(str(schema.get("type")), "any")
    if name == "list" and schema.get("items", {}).get("type"):
        return f"list[{_type_name(schema['items'])}]"
    if name == "dict" and schema.get("properties"):
        return "{" + ", ".join(f"{key}: {_type_name(item)}" for key, item in schema["properties"].items()) + "}"
    return name


def _first_sentence(description: str) -> str:
    head, _, _ = description.strip().replace("\n", " ").partition(". ")
    return head.rstrip(".") + "."


def _reference_call(call: ExpectedCall, tool: Tool | None) -> str:
    properties = tool.parameters.get("properties", {}) if tool else {}
    required = set(tool.parameters.get("required", ())) if tool else set()
    arguments = {
        name: _reference_value(properties.get(name, {}), alternatives)
        for name, alternatives in call.arguments.items()
        if "" not in alternatives or name in required
    }
    return json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)


def _reference_value(schema: dict[str, Any], alternatives: Sequence[Any]) -> Any:
    values = [_plain(value) for value in alternatives if value != ""]
    fitting = (value for value in values if argument_problem(schema, value, tuple(alternatives)) is None)
    return next(fitting, values[0] if values else "")


def _plain(value: Any) -> Any:
    """A published value as an agent would write it: inside objects the benchmark lists alternatives, take the first."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    chosen = {
        key: next((item for item in allowed if item != ""), "") for key, allowed in value.items() if "" not in allowed
    }
    return {key: _plain(item) for key, item in chosen.items()}
