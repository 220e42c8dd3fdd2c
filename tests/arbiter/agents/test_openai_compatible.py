"""The agent behind an endpoint, against a real HTTP server on this machine."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flywheel.arbiter.agents.openai_compatible import ATTEMPTS, OpenAICompatibleAgent
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
                try:
                    self.send_response(status if self.path == "/v1/chat/completions" else 404)
                    for name, value in {**headers, "Content-Length": str(len(content))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
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


def agent(url: str, pauses: list[float], *, timeout_s: float = 5.0) -> OpenAICompatibleAgent:
    return OpenAICompatibleAgent(
        base_url=url,
        model="small",
        api_key_env="TEST_ENDPOINT_KEY",
        prompt="zero-shot",
        temperature=0.3,
        max_new_tokens=64,
        timeout_s=timeout_s,
        sleep=pauses.append,
        jitter=lambda: 1.0,
    )


def test_it_asks_with_model_key_and_prompt_and_counts_tokens(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ENDPOINT_KEY", "s3cret")
    [answer] = agent(endpoint.url, []).answer([benchmark_task()])
    assert (answer.text, answer.failure_reason) == (RIGHT, None)
    assert (answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens) == (31, 12, 5)
    assert answer.latency_ms > 0
    [body] = endpoint.bodies
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("small", 0.3, 64)
    assert "What is 1 plus 2?" in body["messages"][-1]["content"]
    assert endpoint.headers[0]["Authorization"] == "Bearer s3cret"


def test_without_a_key_none_is_sent(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_ENDPOINT_KEY", raising=False)
    agent(endpoint.url, []).answer([benchmark_task()])
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
    answers = agent(endpoint.url, []).answer(tasks, on_progress=lambda done, total: seen.append((done, total)))
    assert [answer.text for answer in answers] == [f"- f{n}" for n in range(12)]
    assert seen[-1] == (12, 12)


def test_too_many_requests_are_repeated_after_the_pause_that_was_asked_for(endpoint: Endpoint) -> None:
    endpoint.replies.insert(0, lambda body: (429, {"Retry-After": "7"}, b"slow down"))
    endpoint.replies.insert(1, lambda body: (503, {}, b""))
    pauses: list[float] = []
    [answer] = agent(endpoint.url, pauses).answer([benchmark_task()])
    assert answer.text == RIGHT
    assert pauses == [7.0, 1.0]


def test_an_endpoint_that_stays_down_is_a_failure_after_all_attempts(endpoint: Endpoint) -> None:
    endpoint.replies = [lambda body: (500, {}, b"key s3cret is fine")]
    pauses: list[float] = []
    [answer] = agent(endpoint.url, pauses).answer([benchmark_task()])
    assert answer.failure_reason == "the endpoint answered 500"
    assert (len(endpoint.bodies), len(pauses)) == (ATTEMPTS, ATTEMPTS - 1)


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
    [answer] = agent(endpoint.url, []).answer([benchmark_task()])
    assert answer.failure_reason is not None
    assert answer.failure_reason.startswith(reason)
    assert len(endpoint.bodies) == 1


def test_a_timeout_is_a_failure_with_its_length(endpoint: Endpoint) -> None:
    released = threading.Event()

    def late(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        released.wait(5)
        return 200, {}, completion(RIGHT)

    endpoint.replies = [late]
    [answer] = agent(endpoint.url, [], timeout_s=0.2).answer([benchmark_task()])
    released.set()
    assert answer.failure_reason == "no answer within 0.2 s"
    assert answer.latency_ms >= 200
    assert len(endpoint.bodies) == 1


def test_an_endpoint_that_is_not_there_is_a_failure_after_all_attempts() -> None:
    pauses: list[float] = []
    [answer] = agent("http://127.0.0.1:9/v1", pauses).answer([benchmark_task()])
    assert answer.failure_reason == "the endpoint cannot be reached: ConnectError"
    assert pauses == [0.5, 1.0, 2.0]
