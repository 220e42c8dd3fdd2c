"""Chat completions, asked by OpenAI's own client."""

import threading
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest

from flywheel.api.app import create_app
from flywheel.arbiter.routing.state import BanditState
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.chat.model import Model, served, streamed
from tests.api.receiver.conftest import stored

ASKED: list[Any] = [{"role": "user", "content": "Say hello."}]


def test_any_client_gets_an_answer_by_a_change_of_its_base_url(client: openai.OpenAI, model: Model) -> None:
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=ASKED)
    answer = raw.parse()
    assert answer.choices[0].message.content == "Hello there, friend"
    assert (answer.choices[0].finish_reason, answer.model, answer.object) == ("stop", "small", "chat.completion")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (31, 12, 43)
    assert raw.headers["x-flywheel-agent"] == "small"
    assert raw.headers["x-flywheel-strategy"] == "multi-armed-bandit"
    assert float(raw.headers["x-flywheel-propensity"]) == 1.0
    assert raw.headers["x-flywheel-task-id"] == answer.id


def test_a_stream_comes_piece_by_piece_and_ends_with_its_usage(client: openai.OpenAI, model: Model) -> None:
    stream = client.chat.completions.create(
        model="auto",
        messages=ASKED,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert texts == ["", "Hello", " there,", " friend", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 43
    assert model.bodies[0]["stream_options"] == {"include_usage": True}


def test_an_agent_that_is_named_does_it_and_has_no_propensity_and_nothing_is_learned(
    chat_settings: Settings, model: Model, add_agent: Callable[..., None], key: str
) -> None:
    add_agent("small")
    add_agent("other", model="other")
    with served(create_app(chat_settings)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        for stream in (False, True):
            raw = client.chat.completions.with_raw_response.create(model="other", messages=ASKED, stream=stream)
            found: Any = raw.parse()
            assert (next(iter(found)) if stream else found).model == "other"
            assert raw.headers["x-flywheel-agent"] == "other"
            assert not {"x-flywheel-propensity", "x-flywheel-strategy"} & set(raw.headers)
    assert {body["model"] for body in model.bodies} == {"other"}
    decisions = [log for log in stored(chat_settings) if log["log"] == "routing"]
    assert [(one["candidateAgents"], one["primaryReason"]) for one in decisions] == [
        ([], "the caller named other; nothing was chosen")
    ] * 2
    with BenchmarkPool.open(chat_settings) as pool:
        assert BanditState(pool.engine).evidence() == {}


def test_a_named_task_runs_once_and_is_answered_the_same_again(client: openai.OpenAI, model: Model) -> None:
    headers = {"X-Flywheel-Task-Id": "order-7", "X-Flywheel-Task-Type": "research"}
    first = client.chat.completions.with_raw_response.create(model="auto", messages=ASKED, extra_headers=headers)
    again = client.chat.completions.with_raw_response.create(model="auto", messages=ASKED, extra_headers=headers)
    assert first.parse() == again.parse()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    stream = client.chat.completions.create(model="auto", messages=ASKED, extra_headers=headers, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Hello there, friend"
    assert len(model.bodies) == 1
    other: list[Any] = [{"role": "user", "content": "Something else"}]
    with pytest.raises(openai.ConflictError) as raised:
        client.chat.completions.create(model="auto", messages=other, extra_headers={"Idempotency-Key": "order-7"})
    assert raised.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_models_work_too_and_it_is_logged(
    chat_settings: Settings, model: Model, add_agent: Callable[..., None], key: str, stream: bool
) -> None:
    add_agent("small")
    model.answer = lambda body: streamed({"content": "one "}, 15.0, {"content": "two"}) if stream else slow(body)
    arrived = threading.Event()

    def slow(body: dict[str, Any]) -> Any:
        arrived.set()
        return streamed(15.0)

    with served(create_app(chat_settings)) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=1.0)
        if stream:
            chunks = client.chat.completions.create(model="auto", messages=ASKED, stream=True)
            assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["", "one "]
            chunks.close()
        else:
            with pytest.raises(openai.APITimeoutError):
                client.chat.completions.create(model="auto", messages=ASKED)
        client.close()
        began = time.monotonic()
        assert model.left.wait(10)
        assert time.monotonic() - began < 10
    [execution] = [log for log in stored(chat_settings) if log["log"] == "execution"]
    assert (execution["success"], execution["failureReason"]) == (False, "its client went away")


def test_a_named_task_goes_on_when_its_client_leaves_and_has_its_answer_when_it_is_sent_again(
    chat_settings: Settings, model: Model, add_agent: Callable[..., None], key: str
) -> None:
    add_agent("small")
    model.answer = lambda body: streamed({"content": "one "}, 1.5, {"content": "two"})
    named = {"Idempotency-Key": "order-8"}
    with served(create_app(chat_settings)) as url:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            chunks = client.chat.completions.create(model="auto", messages=ASKED, stream=True, extra_headers=named)
            assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["", "one "]
            chunks.close()
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            again = client.chat.completions.create(model="auto", messages=ASKED, extra_headers=named)
    assert (again.choices[0].message.content, len(model.bodies)) == ("one two", 1)


def test_a_service_that_ends_accounts_for_what_it_still_runs(
    chat_settings: Settings, model: Model, add_agent: Callable[..., None], key: str
) -> None:
    add_agent("small")
    model.answer = lambda body: streamed({"content": "one "}, 30.0, {"content": "two"})
    bounded = chat_settings.model_copy(update={"service": chat_settings.service.model_copy(update={"drain_s": 0.1})})
    with served(create_app(bounded)) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        chunks = client.chat.completions.create(model="auto", messages=ASKED, stream=True)
        assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["", "one "]
    client.close()
    [execution] = [log for log in stored(chat_settings) if log["log"] == "execution"]
    assert not execution["success"]
