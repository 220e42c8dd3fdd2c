"""The conversation that a span holds, by three conventions, as messages of the execution log.

- GenAI, current: ``gen_ai.system_instructions``, ``gen_ai.input.messages`` and ``gen_ai.output.messages``, on the span
  or on its event ``gen_ai.client.inference.operation.details``; messages are ``{role, parts[]}``.
- GenAI until 1.36: events ``gen_ai.system.message``, ``gen_ai.user.message``, ``gen_ai.assistant.message``,
  ``gen_ai.tool.message`` and ``gen_ai.choice``, their fields in the body or in attributes.
- OpenInference: ``llm.input_messages.<i>.message.…`` and ``llm.output_messages.<i>.message.…``.

Text and tool calls are taken over. Reasoning, images and files have no place in a message of the log and are left out;
the names of what was left out are noted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from flywheel.collection.importers.conversation import REASONING
from flywheel.collection.importers.otlp_spans import Span, SpanEvent

OTHER_PARTS = "parts-other-than-text-left-out"
KEPT_PARTS = frozenset({"text", "tool_call", "tool_call_response"})
DETAILS = "gen_ai.client.inference.operation.details"
OLD_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
OLD_CHOICE = "gen_ai.choice"
ROLES = {"developer": "system", "model": "assistant", "ai": "assistant", "human": "user", "function": "tool"}

WireMessage = dict[str, Any]


def conversation_of(span: Span, left_out: set[str]) -> list[WireMessage]:
    """The messages that a span holds, in order; none where it holds none. What they lose is added to ``left_out``."""
    return (
        current_messages(span, left_out)
        or old_messages(span.events)
        or open_inference_messages(span.attributes, left_out)
    )


def outputs_of(messages: list[WireMessage]) -> list[WireMessage]:
    """What the model answered at the end of a span's conversation."""
    last = max((index for index, message in enumerate(messages) if message["role"] != "assistant"), default=-1)
    return messages[last + 1 :]


def current_messages(span: Span, left_out: set[str]) -> list[WireMessage]:
    """The messages of the present GenAI convention."""
    held = dict(span.attributes)
    for event in span.events:
        if event.name == DETAILS:
            held |= event.attributes
    found: list[WireMessage] = []
    instructions = texts(listed(held.get("gen_ai.system_instructions")))
    if instructions:
        found.append({"role": "system", "content": instructions})
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        found += messages_of_parts(held.get(name), left_out)
    return found


class TextPart(Struct, tag_field="type", tag="text", gc=False):
    """A part of text, in the usual form."""

    content: str


class CallPart(Struct, tag_field="type", tag="tool_call"):
    """A call of a tool, in the usual form."""

    name: str
    arguments: Any = None
    id: str | None = None


class ResponsePart(Struct, tag_field="type", tag="tool_call_response"):
    """A tool's answer, in the usual form."""

    response: Any
    id: str | None = None


class UsualMessage(Struct):
    """A message of parts, in the usual form. What has another is read field by field."""

    role: str
    parts: list[TextPart | CallPart | ResponsePart]
    name: str | None = None


decode_usual = msgspec.json.Decoder(list[UsualMessage]).decode


def messages_of_parts(value: Any, left_out: set[str]) -> list[WireMessage]:
    """The messages of a list that may be given as its JSON text; none where it is no list. As ``parts_as_messages``."""
    try:
        usual = decode_usual(value) if isinstance(value, str) else msgspec.convert(value, list[UsualMessage])
    except (msgspec.MsgspecError, RecursionError):
        return [made for message in listed(value) for made in parts_as_messages(mapping(message), left_out)]
    found: list[WireMessage] = []
    for one in usual:
        add_usual(found, one)
    return found


def add_usual(found: list[WireMessage], message: UsualMessage) -> None:
    """Add what ``parts_as_messages`` makes of a message."""
    content, calls, responses = [], [], []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append(part.content)
        elif isinstance(part, CallPart):
            calls.append(tool_call(part.name, part.arguments, part.id))
        else:
            responses.append(part)
    words = "\n".join(content) if content else None
    if words or calls or not responses:
        found.append(made(message.role, content=words, calls=calls, name=message.name))
    found += [made("tool", content=as_text(response.response), answers=response.id) for response in responses]


def parts_as_messages(message: Mapping[str, Any], left_out: set[str]) -> Iterator[WireMessage]:
    """One message of parts; each answer of a tool in it is a message of its own."""
    parts = [part for part in listed(message.get("parts")) if isinstance(part, dict)]
    kinds = {str(part.get("type")) for part in parts} - KEPT_PARTS
    left_out.update(REASONING if kind == "reasoning" else OTHER_PARTS for kind in kinds)
    responses = [part for part in parts if part.get("type") == "tool_call_response"]
    calls = [
        tool_call(part.get("name"), part.get("arguments"), part.get("id"))
        for part in parts
        if part.get("type") == "tool_call"
    ]
    content = texts(parts)
    if content or calls or not responses:
        yield made(message.get("role"), content=content, calls=calls, name=message.get("name"))
    for part in responses:
        answer = part.get("response", part.get("result"))
        yield made("tool", content=as_text(answer), answers=part.get("id"))


def old_messages(events: Iterable[SpanEvent]) -> list[WireMessage]:
    """The messages of the GenAI convention until 1.36."""
    found = []
    for event in sorted(events, key=lambda event: event.time_ns):
        fields = event.body if isinstance(event.body, dict) else event.attributes
        role = OLD_EVENT.fullmatch(event.name)
        if role is not None:
            found.append(old_message(fields, role=role[1]))
        elif event.name == OLD_CHOICE:
            message = decoded(fields.get("message", fields))
            found.append(old_message(message if isinstance(message, dict) else fields, role="assistant"))
    return found


def old_message(fields: Mapping[str, Any], *, role: str) -> WireMessage:
    """One message of that convention; its tool calls are those of OpenAI's protocol."""
    calls = [openai_call(call) for call in listed(fields.get("tool_calls")) if isinstance(call, dict)]
    answers = fields.get("id") if role == "tool" else None
    return made(fields.get("role") or role, content=as_text(fields.get("content")), calls=calls, answers=answers)


def openai_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call as OpenAI's protocol has it."""
    function = call.get("function")
    function = function if isinstance(function, dict) else call
    return tool_call(function.get("name"), function.get("arguments"), call.get("id"))


def open_inference_messages(attributes: Mapping[str, Any], left_out: set[str]) -> list[WireMessage]:
    """The messages of OpenInference, which flattens lists into names of attributes."""
    found = []
    for prefix in ("llm.input_messages", "llm.output_messages"):
        for entry in unflattened(attributes, prefix):
            message = mapping(entry.get("message"))
            contents = [mapping(item.get("message_content")) for item in in_order(message.get("contents", {}))]
            said = [str(item["text"]) for item in contents if item.get("type", "text") == "text" and "text" in item]
            content = message.get("content") or "\n".join(said)
            left_out.update((OTHER_PARTS,) if len(said) < len(contents) else ())
            calls = [
                open_inference_call(mapping(item.get("tool_call"))) for item in in_order(message.get("tool_calls", {}))
            ]
            found.append(
                made(
                    message.get("role"),
                    content=as_text(content) or None,
                    calls=calls,
                    answers=message.get("tool_call_id"),
                    name=message.get("name"),
                )
            )
    return found


def open_inference_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call of OpenInference."""
    function = mapping(call.get("function"))
    return tool_call(function.get("name"), function.get("arguments"), call.get("id"))


def unflattened(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The list that attributes ``PREFIX.<i>.a.b`` stand for, as nested dictionaries."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(f"{prefix}."):
            continue
        *path, last = name.removeprefix(f"{prefix}.").split(".")
        branch: Any = tree
        for step in path:
            branch = branch.setdefault(step, {}) if isinstance(branch, dict) else {}
        if isinstance(branch, dict):
            branch[last] = value
    return in_order(tree)


def in_order(numbered: Any) -> list[dict[str, Any]]:
    """The entries of a dictionary whose keys are numbers, by number."""
    if not isinstance(numbered, dict):
        return []
    keys = sorted((key for key in numbered if key.isdecimal()), key=int)
    return [numbered[key] for key in keys if isinstance(numbered[key], dict)]


def made(
    role: Any, *, content: str | None, calls: list[dict[str, Any]] | None = None, answers: Any = None, name: Any = None
) -> WireMessage:
    """A message of the log; what it lacks is absent."""
    message: WireMessage = {"role": ROLES.get(str(role), role)}
    if content is not None:
        message["content"] = content
    if calls:
        message["toolCalls"] = calls
    if answers is not None:
        message["toolCallId"] = str(answers)
    if name is not None:
        message["name"] = str(name)
    return message


def tool_call(name: Any, arguments: Any, call_id: Any) -> dict[str, Any]:
    """A tool call of the log; its arguments are a JSON string."""
    call = {"name": str(name or ""), "arguments": as_text(arguments) or "{}"}
    return call if call_id is None else {**call, "id": str(call_id)}


def texts(parts: Iterable[Any]) -> str | None:
    """The text parts, one below the other; None where there are none."""
    found = [
        str(part["content"])
        for part in parts
        if isinstance(part, dict) and part.get("type") == "text" and part.get("content") is not None
    ]
    return "\n".join(found) if found else None


def as_text(value: Any) -> str | None:
    """A text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def listed(value: Any) -> list[Any]:
    """A list that may be given as its JSON text; empty where it is none."""
    found = decoded(value)
    return found if isinstance(found, list) else []


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping; empty where it is none."""
    return value if isinstance(value, dict) else {}


def decoded(value: Any) -> Any:
    """The value of a JSON text; another value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
