"""Tools and options over the wire: what a client asks for reaches the model, and the model's calls reach the client."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import openai

from flywheel.api.app import create_app
from flywheel.settings import Settings
from tests.api.chat.model import Model, call, completion, said, served, streamed
from tests.api.receiver.conftest import stored

ASKED: list[Any] = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "at": {"type": "array", "items": {"type": "number"}}},
            "required": ["city"],
        }
    },
    "required": ["place"],
}
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA, "strict": True},
}
PARIS = call("weather", '{"place": {"city": "Paris"}}')
ROME = call("weather", '{"place": {"city": "Rome"}}', "call_2")


def test_the_models_calls_are_calls_and_results_go_back_to_it(client: openai.OpenAI, model: Model) -> None:
    model.answer = lambda body: completion({"content": None, "tool_calls": [PARIS, ROME]}, "tool_calls")
    first = client.chat.completions.create(model="auto", messages=ASKED, tools=[TOOL]).choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.content is None
    assert first.message.tool_calls is not None
    calls = [one.model_dump() for one in first.message.tool_calls]
    assert calls == [PARIS, ROME]
    assert model.bodies[0]["tools"] == [TOOL]

    model.answer = said("Sunny and wet.")
    results = [
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": "wet"},
    ]
    conversation = [*ASKED, first.message, *results]
    second = client.chat.completions.create(model="auto", messages=conversation, tools=[TOOL]).choices[0]
    assert second.message.content == "Sunny and wet."
    assert model.bodies[1]["messages"] == [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [PARIS, ROME]},
        *results,
    ]


def test_the_calls_of_an_answer_are_in_the_tasks_result(client: openai.OpenAI, model: Model) -> None:
    model.answer = lambda body: completion({"content": None, "tool_calls": [PARIS]}, "tool_calls")
    asked = client.chat.completions.create(model="auto", messages=ASKED, tools=[TOOL])
    told = client.get(f"/tasks/{asked.id}", cast_to=httpx.Response).json()
    called = {"id": "call_1", "name": "weather", "arguments": PARIS["function"]["arguments"]}
    assert (told["toolCalls"], told["finishReason"]) == ([called], "tool_calls")


def test_calls_stream_in_pieces_whatever_indexes_the_endpoint_gives_them(client: openai.OpenAI, model: Model) -> None:
    def piece(index: int, **fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **fields}]}

    model.answer = lambda body: streamed(
        piece(0, id="call_1", type="function", function={"name": "weather", "arguments": ""}),
        piece(0, function={"arguments": '{"place": {"ci'}),
        piece(0, function={"arguments": 'ty": "Paris"}}'}),
        piece(
            0, id="call_2", type="function", function={"name": "weather", "arguments": '{"place": {"city": "Rome"}}'}
        ),
        finish="tool_calls",
    )
    with client.chat.completions.stream(model="auto", messages=ASKED, tools=[TOOL]) as stream:
        answer = stream.get_final_completion().choices[0]
    assert answer.finish_reason == "tool_calls"
    assert answer.message.tool_calls is not None
    found = [(one.id, one.function.name, one.function.arguments) for one in answer.message.tool_calls]
    assert found == [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in (PARIS, ROME)]


def test_options_reach_the_endpoint_as_they_are(client: openai.OpenAI, model: Model) -> None:
    model.answer = said('{"weather": "sunny"}')
    options: dict[str, Any] = {
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 900,
        "stop": ["END", "STOP"],
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "weather", "schema": {"type": "object"}, "strict": True},
        },
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "user": "u-1",
    }
    answer = client.chat.completions.create(
        model="auto", messages=ASKED, tools=[TOOL], extra_body={"top_k": 40}, **options
    )
    assert answer.choices[0].message.content == '{"weather": "sunny"}'
    sent = model.bodies[0]
    assert {name: sent[name] for name in options} == options
    assert (sent["top_k"], sent["model"]) == (40, "small")


def test_without_options_none_is_made_up_but_the_agents_temperature(client: openai.OpenAI, model: Model) -> None:
    client.chat.completions.create(model="auto", messages=ASKED, n=1, logprobs=False, max_completion_tokens=50)
    assert set(model.bodies[0]) == {"model", "messages", "temperature", "max_completion_tokens"}


def test_parts_of_text_are_one_text_and_a_developer_is_the_system(client: openai.OpenAI, model: Model) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    client.chat.completions.create(model="auto", messages=messages)
    assert model.bodies[0]["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "name": "ann", "content": "a\nb"},
    ]


def test_conversations_are_logged_with_calls_tokens_and_times_and_without_secrets(
    chat_settings: Settings, model: Model, add_agent: Callable[..., None], key: str
) -> None:
    add_agent("small")
    model.answer = lambda body: streamed({"tool_calls": [{"index": 0, **PARIS}]}, finish="tool_calls")
    secret = "sk-" + "a1B2c3D4e5F6g7H8" * 2
    asked: list[Any] = [{"role": "user", "content": f"The key is {secret}. What is the weather?"}]
    with served(create_app(chat_settings)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        list(client.chat.completions.create(model="auto", messages=asked, tools=[TOOL], stream=True))
    logs = {log["log"]: log for log in stored(chat_settings)}
    decision, execution = logs["routing"], logs["execution"]
    assert (decision["tenantId"], decision["taskType"], decision["selectedAgentId"]) == ("acme", "chat", "small")
    assert decision["requirements"] == ["tool:weather"]
    assert (execution["tokensUsed"], execution["outputTokens"], execution["thinkingTokens"]) == (43, 12, 5)
    assert 0 < execution["timeToFirstAction"] <= execution["latencyMs"]
    assert (execution["toolCallCount"], execution["toolsUsed"][0]["toolName"]) == (1, "weather")
    question, answer = execution["messages"]
    assert answer["toolCalls"][0]["name"] == "weather"
    assert "What is the weather?" in question["content"]
    assert secret not in str(logs)


def test_the_asynchronous_client_streams_many_at_once(service: str, key: str, model: Model) -> None:
    model.answer = lambda body: streamed(*({"content": f"{n} "} for n in range(5)), 0.2, {"content": "end"})

    async def one(client: openai.AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(model="auto", messages=ASKED, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def run() -> list[str]:
        async with openai.AsyncOpenAI(base_url=service, api_key=key, max_retries=0) as client:
            return await asyncio.gather(*(one(client) for _ in range(20)))

    assert asyncio.run(run()) == ["0 1 2 3 4 end"] * 20
