"""Chat completions on the wire: what is sent to an endpoint, and what is read from its answers."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from flywheel.arbiter.agents.strategy import CallPiece, FinishReason, Piece, Tokens, call_id
from flywheel.records import Message, ToolCall
from flywheel.tasks.source import AgentTask, Tool

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises of content that is no JSON, is no UTF-8, or nests too deeply."""
DONE = b"[DONE]"
FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class Details(Struct):
    """A part of the usage."""

    reasoning_tokens: Tokens | None = None


class Usage(Struct):
    """Tokens as an endpoint tells them."""

    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    completion_tokens_details: Details | None = None

    @property
    def thinking_tokens(self) -> int:
        """The part of the completion that is reasoning; 0 where it is not told."""
        return (self.completion_tokens_details or Details()).reasoning_tokens or 0


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Said(Struct):
    """A message, or a piece of one."""

    content: str | None = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Said = msgspec.field(default_factory=_Said)
    delta: _Said = msgspec.field(default_factory=_Said)
    finish_reason: str | None = None
    index: int = 0


class _Reply(Struct):
    """A chat completion, or a chunk of one."""

    choices: list[_Choice] = []
    usage: Usage | None = None
    error: Any = None


class Reading(Struct, kw_only=True):
    """What was read of an answer. ``text`` is None where it has none, not even an empty one."""

    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    refusal: str | None = None
    first_action_ms: float | None = None


def request_of(task: AgentTask, messages: Sequence[Message]) -> dict[str, Any]:
    """What a request says besides the model: messages, tools and options."""
    chat = task.dialect == "chat"
    body: dict[str, Any] = {"messages": [_message(message, chat=chat) for message in messages]}
    if chat and task.tools:
        body["tools"] = [_tool(tool) for tool in task.tools]
    return body | task.options.given()


def _message(message: Message, *, chat: bool) -> dict[str, Any]:
    if not chat:
        return {"role": message.role, "content": message.content or ""}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    # Nothing said beside calls is null: some endpoints refuse an empty text there.
    said: dict[str, Any] = {"role": message.role, "content": message.content or (None if calls else "")}
    named = {"name": message.name, "tool_calls": calls, "tool_call_id": message.tool_call_id}
    return said | {name: value for name, value in named.items() if value}


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.parameters}
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def reading_of(content: bytes, task_id: str) -> Reading:
    """A completion that came as a whole.

    Raises:
        ValueError: it is none; the message says why.
    """
    reply = _decoded(content)
    if not reply.choices:
        raise ValueError("the endpoint's answer cannot be read: it has no choices")
    choice = reply.choices[0]
    said = choice.message
    calls = tuple(
        ToolCall(
            id=call.id or call_id(task_id, index),
            name=call.function.name or "",
            arguments=call.function.arguments or "{}",
        )
        for index, call in enumerate(said.tool_calls or ())
    )
    return Reading(
        text=said.content,
        tool_calls=calls,
        finish_reason=_finish_reason(choice.finish_reason, calls),
        usage=reply.usage,
        refusal=said.refusal,
    )


class Assembly:
    """Puts a streamed completion together, piece by piece."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[_Call] = []
        self._told: str | None = None
        self._usage: Usage | None = None
        self.done = False
        """Whether the endpoint said that nothing comes any more."""

    @property
    def complete(self) -> bool:
        """Whether the endpoint said that the answer is."""
        return self.done or self._told is not None

    def take(self, event: bytes) -> Iterator[Piece]:
        """The pieces in an event's data.

        Raises:
            ValueError: it is no chunk of a completion, or says that the endpoint failed.
        """
        if event == DONE:
            self.done = True
            return
        chunk = _decoded(event)
        if chunk.error is not None:
            raise ValueError("the endpoint failed in the middle of its answer")
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            if choice.index == 0:
                yield from self._taken(choice)

    def _taken(self, choice: _Choice) -> Iterator[Piece]:
        said = choice.delta
        self._told = choice.finish_reason or self._told
        self._refusals += [said.refusal] if said.refusal else []
        if said.content is not None:
            self._texts.append(said.content)
            yield said.content
        for call in said.tool_calls or ():
            yield self._taken_call(call)

    def _taken_call(self, piece: _Call) -> CallPiece:
        position = self._position(piece)
        arguments = piece.function.arguments or ""
        if position < len(self._calls):
            known = self._calls[position].function
            known.arguments = (known.arguments or "") + arguments
            return CallPiece(index=position, arguments=arguments)
        name = piece.function.name or ""
        made_id = piece.id or call_id(self._task_id, position)
        self._calls.append(_Call(index=piece.index, id=made_id, function=_Function(name=name, arguments=arguments)))
        return CallPiece(index=position, id=made_id, name=name, arguments=arguments)

    def _position(self, piece: _Call) -> int:
        """Which call it belongs to. Some endpoints give no index, or every call the same one; then its id tells."""
        for position in reversed(range(len(self._calls))):
            known = self._calls[position]
            if piece.id and piece.id == known.id:
                return position
            if not piece.id and (piece.index is None or piece.index == known.index):
                return position
        return len(self._calls)

    def reading(self) -> Reading:
        """What has come."""
        calls = tuple(
            ToolCall(id=call.id, name=call.function.name or "", arguments=call.function.arguments or "{}")
            for call in self._calls
        )
        return Reading(
            text="".join(self._texts) if self._texts else None,
            tool_calls=calls,
            finish_reason=_finish_reason(self._told, calls),
            usage=self._usage,
            refusal="".join(self._refusals) or None,
        )


def _decoded(content: bytes) -> _Reply:
    try:
        return msgspec.json.decode(content, type=_Reply)
    except UNREADABLE as error:
        raise ValueError(f"the endpoint's answer cannot be read: {error}") from None


def _finish_reason(told: str | None, calls: Sequence[ToolCall]) -> FinishReason | None:
    # Some endpoints say that they stopped where they stopped to call.
    if calls and told in {None, "stop"}:
        return "tool_calls"
    return FINISH_REASONS.get(told or "")


def error_in(content: bytes, *, secret: str) -> str:
    """What an endpoint says is wrong with a request, shortened and without the key; empty where it says nothing."""
    try:
        said = msgspec.json.decode(content)
    except UNREADABLE:
        return ""
    told = said.get("error", said) if isinstance(said, dict) else ""
    message = told.get("message", "") if isinstance(told, dict) else told
    if not isinstance(message, str):
        return ""
    clean = message.replace(secret, "[key]") if secret else message
    return " ".join(clean.split())[:300]
