"""A request for a chat completion as it comes in, and the task that it becomes."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from flywheel.api.openai_errors import ChatRequestError
from flywheel.arbiter.task import Limits, Task
from flywheel.records import Message, ToolCall
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import Tool

AUTO = "auto"
"""The model that is whichever agent the router chooses."""
TASK_TYPE_KEY = "flywheel_task_type"
TASK_ID_KEY = "flywheel_task_id"
PASSED_ON = frozenset(
    {
        *("reasoning_effort", "verbosity", "logit_bias", "top_k", "min_p", "repetition_penalty"),
        *("chat_template_kwargs", "user", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    }
)
"""Parameters that endpoints get as they are."""
NOT_HERE: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "there is one answer to a request; send it again for another one"),
    "logprobs": ((False,), "agents of most kinds have no log probabilities"),
    "top_logprobs": ((0,), "agents of most kinds have no log probabilities"),
    "modalities": ((["text"],), "agents answer in text"),
    "audio": ((), "agents answer in text"),
    "prediction": ((), "agents of most kinds know no predictions"),
    "web_search_options": ((), "give the agent a tool that searches"),
    "functions": (([],), "use tools"),
    "function_call": ((), "use tool_choice"),
}
"""Parameters of OpenAI that are refused, but for these values, and what to do instead."""

Text = Annotated[str, Meta(min_length=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class TextPart(Struct, frozen=True):
    """A part of a message. Only text is understood."""

    type: str
    text: str = ""


class CalledFunction(Struct, frozen=True):
    """What was called."""

    name: Text
    arguments: str = "{}"


class ChatCall(Struct, frozen=True):
    """A tool call of an earlier turn."""

    id: Text
    function: CalledFunction
    type: Literal["function"] = "function"


class ChatMessage(Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None


class ChatFunction(Struct, frozen=True):
    """A function that may be called; ``parameters`` is JSON schema."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(Struct, frozen=True):
    """A tool that may be called."""

    type: Literal["function"]
    function: ChatFunction


class StreamOptions(Struct, frozen=True):
    """What a stream has besides the answer."""

    include_usage: bool = False
    include_obfuscation: bool = False


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A request for a chat completion, in OpenAI's names. Absent and null are the same."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    model: Annotated[str, Meta(min_length=1, description="`auto`, or the id of an agent")]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ChatTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    stop: str | Annotated[list[Text], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    metadata: dict[str, str] | None = None


class Wanted(Struct, frozen=True, kw_only=True):
    """What a request asks for: the request as it is read, and what endpoints get besides."""

    request: ChatRequest
    extra: dict[str, Any]

    @property
    def streamed(self) -> bool:
        """Whether the answer is wanted as it is written."""
        return bool(self.request.stream)

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with what it took."""
        return self.request.stream_options is not None and self.request.stream_options.include_usage

    @property
    def agent_id(self) -> str | None:
        """The agent that is named; None: any."""
        return None if self.request.model == AUTO else self.request.model

    def metadata(self, key: str) -> str | None:
        """What the request's metadata have under a key."""
        return (self.request.metadata or {}).get(key)


def read_request(body: bytes) -> Wanted:
    """The request.

    Raises:
        ChatRequestError: it is none that can be done; the error names the parameter.
    """
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChatRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ChatRequestError("the body is no JSON object")
    given = {name: value for name, value in found.items() if value is not None}
    _refuse_unknown(given)
    try:
        request = msgspec.convert(given, type=ChatRequest)
    except msgspec.ValidationError as error:
        raise _not_valid(error) from None
    except RecursionError:
        raise ChatRequestError("the request nests too deeply") from None
    return Wanted(request=request, extra={name: given[name] for name in PASSED_ON & given.keys()})


def task_of(wanted: Wanted, *, id: str, type: str, use_cache: bool, timeout_s: float) -> Task:
    """The task.

    Raises:
        ChatRequestError: the request contradicts itself, or asks for what no agent does.
    """
    request = wanted.request
    messages = tuple(_message(message, f"messages[{n}]") for n, message in enumerate(request.messages))
    if not any(message.role == "user" and message.content for message in messages):
        raise ChatRequestError("nothing is asked: a conversation needs a message of the user", param="messages")
    tools = tuple(_tool(tool) for tool in request.tools or ())
    _check_tools(request, {tool.name for tool in tools}, len(tools))
    return Task(
        id=id,
        type=type,
        messages=messages,
        tools=tools,
        dialect="chat",
        options=_options(wanted),
        agent_id=wanted.agent_id,
        use_cache=use_cache and wanted.agent_id is None,
        limits=Limits(timeout_s=timeout_s),
    )


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in NOT_HERE:
            allowed, instead = NOT_HERE[name]
            if value not in allowed:
                raise ChatRequestError(
                    f"{name} cannot be had here: {instead}", param=name, code="unsupported_parameter"
                )
        elif name not in ChatRequest.__struct_fields__ and name not in PASSED_ON:
            raise ChatRequestError(
                f"{name[:80]} is no parameter that is known here", param=name[:80], code="unknown_parameter"
            )


def _not_valid(error: msgspec.ValidationError) -> ChatRequestError:
    what, _, path = str(error).partition(" - at `$")
    missing = re.search(r"missing required field `(\w+)`", what)
    param = path.rstrip("`").lstrip(".") or (missing[1] if missing else None)
    return ChatRequestError(f"{param or 'the request'} cannot be used: {what}", param=param, code="invalid_value")


def _message(message: ChatMessage, where: str) -> Message:
    calls = tuple(
        ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in message.tool_calls or ()
    )
    if calls and message.role != "assistant":
        raise ChatRequestError("only the assistant calls tools", param=f"{where}.tool_calls")
    if message.role == "tool" and not message.tool_call_id:
        raise ChatRequestError("a tool's message says which call it answers", param=f"{where}.tool_call_id")
    return Message(
        role="system" if message.role == "developer" else message.role,
        content=_text(message.content, f"{where}.content") or message.refusal,
        name=message.name,
        tool_calls=calls,
        tool_call_id=message.tool_call_id,
    )


def _text(content: str | list[TextPart] | None, where: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    for number, part in enumerate(content):
        if part.type not in {"text", "refusal"}:
            raise ChatRequestError(
                f"a part of type {part.type[:40]!r} cannot be handed to agents: they read text",
                param=f"{where}[{number}].type",
                code="unsupported_value",
            )
    return "\n".join(part.text for part in content)


def _tool(tool: ChatTool) -> Tool:
    function = tool.function
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or {"type": "object", "properties": {}},
        strict=function.strict,
    )


def _check_tools(request: ChatRequest, names: set[str], count: int) -> None:
    if len(names) < count:
        raise ChatRequestError("two tools have the same name", param="tools")
    choice = request.tool_choice
    if choice in (None, "none", "auto"):
        return
    if choice == "required":
        if not names:
            raise ChatRequestError("a call is required, and there are no tools", param="tool_choice")
        return
    named = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if not isinstance(named, dict) or named.get("name") not in names:
        raise ChatRequestError(
            'tool_choice is "none", "auto", "required" or {"type": "function", "function": {"name": …}} with the name '
            "of one of the tools",
            param="tool_choice",
            code="invalid_value",
        )


def _response_format(request: ChatRequest) -> dict[str, Any] | None:
    asked = request.response_format
    if asked is None or asked == {"type": "text"}:
        return None
    schema = asked.get("json_schema")
    described = isinstance(schema, dict) and isinstance(schema.get("name"), str)
    if asked.get("type") == "json_object" or (asked.get("type") == "json_schema" and described):
        return asked
    raise ChatRequestError(
        "response_format is of type text, json_object, or json_schema with the json_schema and its name",
        param="response_format",
        code="invalid_value",
    )


def _options(wanted: Wanted) -> GenerationOptions:
    request = wanted.request
    stop: Sequence[str] = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    return GenerationOptions(
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=request.max_tokens,
        max_completion_tokens=request.max_completion_tokens,
        stop=tuple(text for text in stop if text),
        seed=request.seed,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        response_format=_response_format(request),
        tool_choice=request.tool_choice if request.tools else None,
        parallel_tool_calls=request.parallel_tool_calls if request.tools else None,
        extra=wanted.extra,
    )
