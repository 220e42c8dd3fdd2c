"""What goes wrong is said in OpenAI's shape, with a status that its clients understand."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.receiver.keys import create_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.chat.model import Model, refused, said, served, streamed
from tests.api.receiver.conftest import headers_of
from tests.pool.queries.conftest import module_settings

__all__ = ["module_settings"]
ASKED: list[Any] = [{"role": "user", "content": "Say hello."}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "add"}}


@pytest.fixture(scope="module")
def quick(module_settings: Settings) -> Iterator[TestClient]:
    """A plain client of a service that these tests share: nothing is run there."""
    settings = module_settings.model_copy(update={"agents": ()})
    with BenchmarkPool.open(settings) as pool:
        AgentRegistry(pool.engine).register(AgentProfile(id="small", kind="reference"))
        key = create_key(pool, "acme", name="test", by="tester", now=datetime.now(UTC), may_run_tasks=True).key
    headers = {"Authorization": f"Bearer {key}"}
    with TestClient(create_app(settings), base_url="http://testserver/v1", headers=headers) as opened:
        yield opened


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"no_such_thing": 1}, "no_such_thing"),
        ({"functions": [{}]}, "functions"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"messages": [{"role": "system", "content": "Be kind."}]}, "messages"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "tool", "content": "3"}]}, "messages[0].tool_call_id"),
        ({"messages": []}, "messages"),
        ({"metadata": {"flywheel_task_type": "alchemy"}}, "x-flywheel-task-type"),
        ({"metadata": {"flywheel_task_id": "two words"}}, "metadata.flywheel_task_id"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_name(quick: TestClient, asked: dict[str, Any], param: str) -> None:
    answer = quick.post("/chat/completions", json={"model": "auto", "messages": ASKED, **asked})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert error["message"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[1]", {}, 400),
        (b'{"messages": ' + b"[" * 100_000, {}, 400),
        (b'{"model": "auto", "messages": [{"role": "user", "content": "\xff"}]}', {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Authorization": "Bearer sk-something"}, 401),
        (b"{}", {"Authorization": ""}, 401),
    ],
)
def test_what_is_no_request_is_said_to_be_none(
    quick: TestClient, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = quick.post("/chat/completions", content=body, headers={"Content-Type": "application/json", **headers})
    assert (answer.status_code, set(answer.json()["error"])) == (status, {"message", "type", "param", "code"})


def test_a_body_has_the_bounds_of_a_record(quick: TestClient, module_settings: Settings) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(module_settings.receiver.max_depth // 2):
        schema = {"type": "object", "properties": {"within": schema}}
    deep = {"tools": [{"type": "function", "function": {"name": "add", "parameters": schema}}]}
    long = {"messages": [{"role": "user", "content": "x" * module_settings.receiver.max_item_bytes}]}
    for asked, status, told in ((deep, 400, "nests deeper than"), (long, 413, "4,194,304 bytes")):
        answer = quick.post("/chat/completions", json={"model": "auto", "messages": ASKED, **asked})
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")
        assert told in answer.json()["error"]["message"]


def test_other_methods_and_unknown_models_are_said_in_the_same_shape(quick: TestClient) -> None:
    assert quick.get("/chat/completions").status_code == 405
    assert "error" in quick.get("/chat/completions").json()
    assert quick.get("/models/no-such").json()["error"]["code"] == "model_not_found"
    answer = quick.post("/chat/completions", json={"model": "gpt-none", "messages": ASKED})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_models_are_auto_and_the_active_agents(quick: TestClient) -> None:
    assert [one["id"] for one in quick.get("/models").json()["data"]] == ["auto", "small"]
    assert quick.get("/models/small").json()["object"] == "model"


def test_a_key_for_records_alone_runs_no_tasks(quick: TestClient, module_settings: Settings) -> None:
    answer = quick.post("/chat/completions", json={}, headers=headers_of(module_settings))
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "failure",
    [
        (400, openai.BadRequestError, "the endpoint answered 400: maximum context length is 8 tokens"),
        (401, openai.InternalServerError, "the endpoint answered 401"),
    ],
)
def test_before_the_first_piece_a_failure_has_a_status(
    client: openai.OpenAI, model: Model, stream: bool, failure: tuple[int, type[openai.APIStatusError], str]
) -> None:
    status, error, words = failure
    model.answer = refused(status, "maximum context length is 8 tokens")
    with pytest.raises(error) as raised:
        client.chat.completions.create(model="auto", messages=ASKED, stream=stream)
    assert raised.value.body == {"message": words, "type": raised.value.type, "param": None, "code": "agent-error"}


def test_after_the_first_piece_a_failure_is_told_within_the_stream(client: openai.OpenAI, model: Model) -> None:
    model.answer = lambda body: streamed({"content": "Hel"}, b'data: {"error": {"message": "out of memory"}}\n\n')
    stream = client.chat.completions.create(model="auto", messages=ASKED, stream=True)
    assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "Hel"]
    with pytest.raises(openai.APIError, match="the endpoint failed in the middle of its answer"):
        next(stream)
    assert len(model.bodies) == 1  # nothing is begun anew behind the client's back


def test_before_the_first_piece_another_agent_takes_over(
    client: openai.OpenAI, model: Model, add_agent: Callable[..., None]
) -> None:
    add_agent("other", model="other")
    answers = {"small": refused(400), "other": said("I can")}
    model.answer = lambda body: answers[body["model"]](body)
    heard, agents = set(), set()
    for _ in range(8):
        raw = client.chat.completions.with_raw_response.create(model="auto", messages=ASKED, stream=True)
        heard.add("".join(chunk.choices[0].delta.content or "" for chunk in raw.parse()))
        agents.add((raw.headers["x-flywheel-agent"], raw.headers["x-flywheel-strategy"]))
        if ("other", "fallback") in agents:
            break
    assert heard == {"I can"}
    assert ("other", "fallback") in agents


def test_an_option_that_no_agent_can_honour_is_named(
    chat_settings: Settings, add_agent: Callable[..., None], key: str
) -> None:
    add_agent("mine", kind="local", model="base", base_url="")
    format_: Any = {"type": "json_object"}
    with served(create_app(chat_settings)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        with pytest.raises(openai.BadRequestError, match="cannot honour response_format"):
            client.chat.completions.create(model="auto", messages=ASKED, response_format=format_)
        with pytest.raises(openai.BadRequestError, match="cannot honour response_format"):
            client.chat.completions.create(model="mine", messages=ASKED, response_format=format_)


def test_without_an_agent_there_is_no_service(chat_settings: Settings, key: str) -> None:
    with (
        served(create_app(chat_settings)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.InternalServerError, match="no agent is active") as raised,
    ):
        client.chat.completions.create(model="auto", messages=ASKED)
    assert raised.value.status_code == 503
