"""Conversations of many makers as the pool's messages, with the calls counted on the way."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from flywheel.collection.importers.fields import MalformedError, expected, optional_text
from flywheel.collection.importers.interface import Json, ToolTally
from flywheel.records import Message, ToolCall

Role = Literal["system", "user", "assistant", "tool"]
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
}
STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""How the simulated users of tau-bench and tau2-bench end a conversation."""
TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})
REASONING_PARTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
"""As inspect-ai, OpenAI and Anthropic call them: a message has no more place for them than for reasoning beside it."""
REASONING = "reasoning-left-out"
TOOL_DEFINITIONS = "tool-definitions-left-out"
compact = msgspec.json.Encoder().encode


class Conversation(Struct):
    """Messages as they are added, and the tally of the tools that the agent called."""

    messages: list[Message] = []
    tools: dict[str, ToolTally] = {}
    names: dict[str, str] = {}
    steps: int = 0
    replaced_parts: bool = False
    stopped: bool = False
    reasoned: bool = False

    def say(
        self,
        role: object,
        content: object,
        *,
        calls: tuple[ToolCall, ...] = (),
        counted: bool = True,
        call_id: str | None = None,
        name: str | None = None,
    ) -> None:
        """Add one message. Calls of the simulated user are kept and not ``counted``.

        Raises:
            MalformedError: role or content are of no known kind.
        """
        known = ROLES.get(role) if isinstance(role, str) else None
        if known is None:
            raise expected(f"one of {', '.join(ROLES)}", "role", role)
        if known == "assistant":
            self.steps += 1
        if calls and counted:
            self.count(calls)
        words = content if content is None or isinstance(content, str) else self._text(content)
        self.messages.append(Message(role=known, content=words, name=name, tool_calls=calls, tool_call_id=call_id))

    def count(self, calls: tuple[ToolCall, ...]) -> None:
        """Count calls by their tools."""
        for call in calls:
            tally = self.tools.get(call.name)
            if tally is None:
                tally = self.tools[call.name] = ToolTally()
            tally.calls += 1
            if call.id is not None:
                self.names[call.id] = call.name

    def judge(self, call_id: str | None, name: str | None, *, failed: bool) -> None:
        """Note of one call whether it went well."""
        called = name if name in self.tools else self.names.get(call_id or "")
        if called is not None and called in self.tools:
            tally = self.tools[called]
            tally.failures = min(tally.calls, (tally.failures or 0) + failed)

    def _text(self, content: object) -> str:
        if not isinstance(content, list):
            raise expected("text or a list of parts", "content", content)
        return "\n".join([words for part in content if (words := self._part(part)) is not None])

    def _part(self, part: object) -> str | None:
        if isinstance(part, str):
            return part
        if not isinstance(part, dict):
            raise expected("a part with its type", "content", part)
        kind = part.get("type", "text")
        if isinstance(kind, str):
            words = part.get("text", part.get("content", part.get(kind)))
            if kind in TEXT_PARTS and isinstance(words, str):
                return words
            if kind in REASONING_PARTS:
                self.reasoned = True
                return None
        self.replaced_parts = True
        return f"[{kind}]" if isinstance(kind, str) else "[part]"

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules by which it was made."""
        return (
            *(("parts-other-than-text-as-their-type",) if self.replaced_parts else ()),
            *(("stop-of-simulated-user-left-out",) if self.stopped else ()),
            *((REASONING,) if self.reasoned else ()),
        )

    def end_at_stop(self) -> None:
        """Leave out the message by which a simulated user ended the conversation: no agent was shown it."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "user" and any(stop in (last.content or "") for stop in STOPS):
            self.messages.pop()
            self.stopped = True

    def first(self, role: Role) -> str:
        """What was said first in a role; empty where nothing was."""
        return next((message.content or "" for message in self.messages if message.role == role), "")


def call_of(name: object, arguments: object, call_id: object) -> ToolCall:
    """A tool call. Arguments that are no string are encoded.

    Raises:
        MalformedError: it has no name, or its id is no string.
    """
    if not isinstance(name, str) or not name:
        raise expected("the name of a tool", "tool_calls", name)
    if call_id is not None and not isinstance(call_id, str):
        raise expected("a string", "tool_calls.id", call_id)
    if arguments is None:
        arguments = "{}"
    encoded = arguments if isinstance(arguments, str) else compact(arguments).decode()
    return ToolCall(name=name, arguments=encoded, id=call_id or None)


def openai_calls(message: Json) -> tuple[ToolCall, ...]:
    """The calls of a message in the manner of OpenAI's API, the older single ``function_call`` too.

    Raises:
        MalformedError: they are something else.
    """
    calls: Any = message.get("tool_calls")
    older = message.get("function_call")
    if not calls and older is None:
        return ()
    if not isinstance(calls or [], list):
        raise expected("a list", "tool_calls", calls)
    found = [openai_call(call) for call in calls or ()]
    if older is not None:
        if not isinstance(older, dict):
            raise expected("an object", "function_call", older)
        found.append(call_of(older.get("name"), older.get("arguments"), None))
    return tuple(found)


def openai_call(call: object) -> ToolCall:
    """One call: its function in an object of its own, or beside its id."""
    if not isinstance(call, dict):
        raise expected("an object", "tool_calls", call)
    function = call.get("function")
    if isinstance(function, dict):
        return call_of(function.get("name"), function.get("arguments"), call.get("id"))
    name = call.get("name") or function
    arguments = call.get("arguments", call.get("args", call.get("input")))
    return call_of(name, arguments, call.get("id"))


class SaidFunction(Struct, gc=False):
    """A called function, in the usual form."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: str


class SaidCall(Struct, gc=False):
    """A call, in the usual form."""

    function: SaidFunction
    id: str | None = None


class Said(Struct, gc=False):
    """A message of OpenAI's API in its usual form. What has another is read field by field, and its faults named."""

    role: Literal["system", "developer", "user", "human", "assistant", "agent", "ai", "tool", "function"]
    content: str | None = None
    name: str | None = None
    tool_calls: tuple[SaidCall, ...] | None = None
    tool_call_id: str | None = None
    function_call: None = None
    reasoning_content: Any = None
    reasoning: Any = None


def openai_conversation(messages: object, conversation: Conversation | None = None) -> Conversation:
    """Messages in the manner of OpenAI's API.

    Raises:
        MalformedError: they are something else.
    """
    conversation = conversation or Conversation()
    if not isinstance(messages, list):
        raise expected("a list", "messages", messages)
    try:
        usual = msgspec.convert(messages, list[Said])
    except msgspec.ValidationError:
        hear_each(messages, conversation)
        return conversation
    for said in usual:
        calls: tuple[ToolCall, ...] = ()
        if said.reasoning_content or said.reasoning:
            conversation.reasoned = True
        if said.tool_calls:
            made = [  # a generator would cost more than the call it makes
                ToolCall(name=call.function.name, arguments=call.function.arguments, id=call.id or None)
                for call in said.tool_calls
            ]
            calls = tuple(made)
            conversation.count(calls)
        role = ROLES[said.role]
        if role == "assistant":
            conversation.steps += 1
        conversation.messages.append(
            Message(role=role, content=said.content, name=said.name, tool_calls=calls, tool_call_id=said.tool_call_id)
        )
    return conversation


def hear_each(messages: list[Any], conversation: Conversation) -> None:
    """Add messages one by one, in whatever form they have.

    Raises:
        MalformedError: one has none; the message says which and where.
    """
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise expected("an object", f"messages[{number}]", message)
        if message.get("reasoning_content") or message.get("reasoning"):
            conversation.reasoned = True
        try:
            conversation.say(
                message.get("role"),
                message.get("content"),
                calls=openai_calls(message),
                call_id=optional_text(message, "tool_call_id"),
                name=optional_text(message, "name"),
            )
        except MalformedError as error:
            raise MalformedError(f"messages[{number}].{error}") from None
