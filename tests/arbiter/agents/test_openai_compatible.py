"""The agent behind an endpoint, against a real HTTP server on this machine."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from flywheel.arbiter.agents.circuit_breaker import FAILURES
from flywheel.arbiter.agents.endpoint import LONGEST_RETRY_S, Endpoints, retry_after_s
from flywheel.arbiter.agents.openai_compatible import ATTEMPTS, OpenAICompatibleAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.profiles import AgentProfile
from flywheel.errors import AgentError
from tests.fakes import benchmark_task

RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
Reply = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]


def completion(text: str | None) -> bytes:
    usage = {"prompt_tokens": 31, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 5}}
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}).encode()


class Endpoint:
    """An OpenAI-compatible server: replies come from a list, the last one for good; requests are kept."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [lambda body: (200, {}, completion(RIGHT))]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.bodies.append(body)
                endpoint.headers.append(dict(self.headers))
                reply = endpoint.replies.pop(0) if len(endpoint.replies) > 1 else endpoint.replies[0]
                status, headers, content = reply(body)
                cut = headers.pop("Cut", None) is not None
                try:
                    self.send_response(status if self.path == "/v1/chat/completions" else 404)
                    for name, value in {**headers, "Content-Length": str(len(content))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content[: len(content) // 2] if cut else content)
                    self.close_connection = True
                except BrokenPipeError:
                    pass  # the client gave up waiting, as a test wants it to

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever)
    thread.start()
    yield endpoint
    endpoint.server.shutdown()
    thread.join()
    endpoint.server.server_close()


class FakeTime:
    """A clock that goes on by what is slept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def agent(
    url: str,
    time: FakeTime | None = None,
    *,
    endpoints: Endpoints | None = None,
    timeout_s: float = 30.0,
    concurrent: int = 8,
    **limits: int,
) -> RunningAgent:
    time = time or FakeTime()
    shared = endpoints or Endpoints(clock=time.clock)
    asked = OpenAICompatibleAgent(
        shared.get(url, model="small", api_key_env="TEST_ENDPOINT_KEY"),
        base_url=url,
        model="small",
        api_key_env="TEST_ENDPOINT_KEY",
        prompt="zero-shot",
        temperature=0.3,
        max_new_tokens=64,
        timeout_s=timeout_s,
        sleep=time.sleep,
        jitter=lambda: 1.0,
        **limits,
    )
    return RunningAgent(asked, AgentProfile(id="small", kind="openai", max_concurrent=concurrent), Slots())


def test_it_asks_with_model_key_and_prompt_and_counts_tokens(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ENDPOINT_KEY", "s3cret")
    [answer] = agent(endpoint.url).answer([benchmark_task()])
    assert (answer.text, answer.failure_reason) == (RIGHT, None)
    assert (answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens) == (31, 12, 5)
    assert answer.latency_ms > 0
    [body] = endpoint.bodies
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("small", 0.3, 64)
    assert "What is 1 plus 2?" in body["messages"][-1]["content"]
    assert endpoint.headers[0]["Authorization"] == "Bearer s3cret"


def test_without_a_key_none_is_sent(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_ENDPOINT_KEY", raising=False)
    agent(endpoint.url).answer([benchmark_task()])
    assert "Authorization" not in endpoint.headers[0]


def test_answers_come_in_the_order_of_the_tasks(endpoint: Endpoint) -> None:
    def echo(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        name = body["messages"][-1]["content"].split("(")[0]
        time.sleep(0.05 if name.endswith("0") else 0)
        return 200, {}, completion(name)

    endpoint.replies = [echo]
    tool = benchmark_task().tools[0]
    tasks = [benchmark_task(str(n), tools=[type(tool)(name=f"f{n}", description="", parameters={})]) for n in range(12)]
    seen: list[tuple[int, int]] = []
    answers = agent(endpoint.url).answer(tasks, on_progress=lambda done, total: seen.append((done, total)))
    assert [answer.text for answer in answers] == [f"- f{n}" for n in range(12)]
    assert seen[-1] == (12, 12)


def test_too_many_requests_are_repeated_after_the_pause_that_was_asked_for(endpoint: Endpoint) -> None:
    endpoint.replies.insert(0, lambda body: (429, {"Retry-After": "7"}, b"slow down"))
    endpoint.replies.insert(1, lambda body: (503, {}, b""))
    time = FakeTime()
    [answer] = agent(endpoint.url, time).answer([benchmark_task()])
    assert answer.text == RIGHT
    assert time.pauses == [7.0, 1.0]


def test_an_endpoint_that_stays_down_is_a_failure_after_all_attempts(endpoint: Endpoint) -> None:
    endpoint.replies = [lambda body: (500, {}, b"key s3cret is fine")]
    time = FakeTime()
    [answer] = agent(endpoint.url, time).answer([benchmark_task()])
    assert answer.failure_reason == "the endpoint answered 500"
    assert (len(endpoint.bodies), len(time.pauses)) == (ATTEMPTS, ATTEMPTS - 1)


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (401, b"{}", "the endpoint answered 401"),
        (200, b"<html>", "the endpoint's answer cannot be read"),
        (200, b'{"choices": []}', "the endpoint's answer cannot be read"),
        (200, completion(None), "the endpoint's answer has no text"),
    ],
)
def test_what_repeating_cannot_help_is_a_failure_at_once(
    endpoint: Endpoint, status: int, content: bytes, reason: str
) -> None:
    endpoint.replies = [lambda body: (status, {}, content)]
    [answer] = agent(endpoint.url).answer([benchmark_task()])
    assert answer.failure_reason is not None
    assert answer.failure_reason.startswith(reason)
    assert len(endpoint.bodies) == 1


def test_a_timeout_is_a_failure_with_its_length(endpoint: Endpoint) -> None:
    released = threading.Event()

    def late(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        released.wait(5)
        return 200, {}, completion(RIGHT)

    endpoint.replies = [late]
    [answer] = agent(endpoint.url, timeout_s=0.2).answer([benchmark_task()])
    released.set()
    assert answer.failure_reason == "no answer within 0.2 s"
    assert answer.latency_ms >= 200
    assert len(endpoint.bodies) == 1


def test_an_endpoint_that_is_not_there_is_a_failure_after_all_attempts() -> None:
    time = FakeTime()
    [answer] = agent("http://127.0.0.1:9/v1", time).answer([benchmark_task()])
    assert answer.failure_reason == "the endpoint cannot be reached: ConnectError"
    assert time.pauses == [0.5, 1.0, 2.0]


def test_a_connection_that_is_cut_in_the_middle_of_an_answer_is_asked_again(endpoint: Endpoint) -> None:
    endpoint.replies.insert(0, lambda body: (200, {"Cut": "yes"}, completion(RIGHT)))
    time = FakeTime()
    [answer] = agent(endpoint.url, time).answer([benchmark_task()])
    assert answer.text == RIGHT
    assert (len(endpoint.bodies), time.pauses) == (2, [0.5])


def test_a_pause_that_ends_after_the_deadline_is_not_begun(endpoint: Endpoint) -> None:
    endpoint.replies = [lambda body: (429, {"Retry-After": "60"}, b"")]
    time = FakeTime()
    [answer] = agent(endpoint.url, time, timeout_s=30).answer([benchmark_task()])
    assert answer.failure_reason == "the endpoint answered 429; the next attempt in 60.0 s would come after 30 s"
    assert (len(endpoint.bodies), time.pauses) == (1, [])


def test_everybody_waits_for_as_long_as_one_was_asked_to(endpoint: Endpoint) -> None:
    endpoint.replies.insert(0, lambda body: (429, {"Retry-After": "60"}, b""))
    time = FakeTime()
    endpoints = Endpoints(clock=time.clock)
    [first] = agent(endpoint.url, time, endpoints=endpoints).answer([benchmark_task()])
    [second] = agent(endpoint.url, time, endpoints=endpoints, timeout_s=90).answer([benchmark_task("b")])
    assert first.failure_reason is not None
    assert (second.text, time.pauses) == (RIGHT, [60.0])


def test_a_date_in_retry_after_is_understood(endpoint: Endpoint) -> None:
    at = datetime.now(UTC) + timedelta(seconds=20)
    endpoint.replies.insert(0, lambda body: (503, {"Retry-After": format_datetime(at, usegmt=True)}, b""))
    time = FakeTime()
    agent(endpoint.url, time).answer([benchmark_task()])
    assert 15 < time.pauses[0] <= 20


def test_no_minute_has_more_requests_than_the_limit(endpoint: Endpoint) -> None:
    time = FakeTime()
    tasks = [benchmark_task(str(number)) for number in range(5)]
    asked = agent(endpoint.url, time, concurrent=1, timeout_s=600, requests_per_minute=2)
    assert [answer.text for answer in asked.answer(tasks)] == [RIGHT] * 5
    assert time.pauses == [60.0, 60.0]


def test_the_token_limit_counts_what_the_endpoint_says_it_took(endpoint: Endpoint) -> None:
    time = FakeTime()
    asked = agent(endpoint.url, time, concurrent=1, timeout_s=600, tokens_per_minute=300)
    # Each is thought to take more than 100 tokens and takes 43.
    asked.answer([benchmark_task(str(number)) for number in range(3)])
    assert time.pauses == []
    asked.answer([benchmark_task(str(number)) for number in range(3)])
    assert time.pauses != []


def test_an_endpoint_that_keeps_failing_is_left_alone_by_all_its_agents_and_then_tried_by_one(
    endpoint: Endpoint,
) -> None:
    endpoint.replies = [lambda body: (500, {}, b"")]
    time = FakeTime()
    endpoints = Endpoints(clock=time.clock)
    asked = agent(endpoint.url, time, endpoints=endpoints, concurrent=1, timeout_s=5)
    asked.answer([benchmark_task(str(number)) for number in range(3)])
    sent = len(endpoint.bodies)
    assert sent == FAILURES
    [refused] = agent(endpoint.url, time, endpoints=endpoints).answer([benchmark_task()])
    assert refused.failure_reason is not None
    assert refused.failure_reason.startswith(f"the endpoint failed {FAILURES} times in a row and is left alone for ")
    assert len(endpoint.bodies) == sent
    endpoint.replies = [lambda body: (200, {}, completion(RIGHT))]
    time.now += 10
    answers = asked.answer([benchmark_task(str(number)) for number in range(3)])
    assert [answer.text for answer in answers] == [RIGHT] * 3


def test_who_is_refused_or_made_to_wait_is_no_failing_endpoint(endpoint: Endpoint) -> None:
    endpoint.replies = [lambda body: (401, {}, b"")]
    tasks = [benchmark_task(str(number)) for number in range(2 * FAILURES)]
    answers = agent(endpoint.url).answer(tasks)
    assert {answer.failure_reason for answer in answers} == {"the endpoint answered 401"}


@pytest.mark.parametrize(
    "content", [b'{"choices": [{"message": {"content": "\xff"}}]}', b'{"choices": [], "x": ' + b"[" * 100_000]
)
def test_an_answer_that_is_no_text_or_nests_too_deeply_is_that_tasks_failure(
    endpoint: Endpoint, content: bytes
) -> None:
    endpoint.replies = [lambda body: (200, {}, content)]
    [answer] = agent(endpoint.url).answer([benchmark_task()])
    assert (answer.failure_reason or "").startswith("the endpoint's answer cannot be read: ")


@pytest.mark.parametrize("told", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "soon", "-5", "1.5"])
def test_a_retry_after_that_says_nothing_is_no_answer_to_how_long(told: str) -> None:
    assert retry_after_s(httpx.Response(429, headers={"Retry-After": told})) is None


@pytest.mark.parametrize("told", ["9" * 400, "4000", "Fri, 01 Jan 9999 00:00:00 GMT"])
def test_no_answer_silences_an_endpoint_for_longer_than_an_hour(told: str) -> None:
    assert retry_after_s(httpx.Response(429, headers={"Retry-After": told})) == LONGEST_RETRY_S == 3600


def test_an_answer_without_text_still_cost_its_tokens(endpoint: Endpoint) -> None:
    endpoint.replies = [lambda body: (200, {}, completion(None))]
    [answer] = agent(endpoint.url).answer([benchmark_task()])
    assert (answer.prompt_tokens, answer.output_tokens) == (31, 12)


def test_a_key_that_is_no_header_value_is_said_and_not_shown(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ENDPOINT_KEY", "s3cret\n")
    with pytest.raises(AgentError, match="the key in TEST_ENDPOINT_KEY cannot be sent") as raised:
        agent(endpoint.url).answer([benchmark_task()])
    assert "s3cret" not in str(raised.value)
    assert endpoint.bodies == []


def test_a_caller_who_gives_up_ends_the_request_and_the_endpoint_is_not_blamed(endpoint: Endpoint) -> None:
    asked, released = threading.Event(), threading.Event()

    def late(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        asked.set()
        released.wait(5)
        return 200, {}, completion(RIGHT)

    endpoint.replies = [late, lambda body: (200, {}, completion(RIGHT))]
    running = agent(endpoint.url, concurrent=1)

    async def give_up() -> None:
        call = asyncio.create_task(running.answer_async(benchmark_task()))
        await asyncio.to_thread(asked.wait, 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        # The one slot is free again although the endpoint still works on its answer.
        assert (await asyncio.wait_for(running.answer_async(benchmark_task("b")), 5)).text == RIGHT

    asyncio.run(give_up())
    released.set()
