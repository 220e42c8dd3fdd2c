"""Streamed answers of an endpoint: pieces as they come, and what becomes of them when the endpoint fails."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from flywheel.arbiter.agents import openai_exchange
from flywheel.arbiter.agents.circuit_breaker import FAILURES
from flywheel.arbiter.agents.endpoint import Endpoints
from flywheel.arbiter.agents.openai_wire import Assembly
from flywheel.arbiter.agents.running import Calls, RunningAgent
from flywheel.arbiter.agents.server_sent_events import EventData
from flywheel.arbiter.agents.strategy import Answer, CallPiece, Piece
from flywheel.records import Message, ToolCall
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import AgentTask, Tool
from tests.api.chat.model import Chunk, Model, completion, served, streamed
from tests.arbiter.agents.test_openai_compatible import FakeTime, agent
from tests.fakes import benchmark_task

CHAT = AgentTask(
    id="t1",
    task_type="chat",
    complexity=benchmark_task().complexity,
    question=(Message(role="user", content="Say hello."),),
    tools=(Tool(name="add", description="", parameters={"type": "object"}),),
    dialect="chat",
    options=GenerationOptions(max_tokens=9),
)


class Taken:
    """Keeps the pieces that came, and when."""

    wanted = is_open = True

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.at_s: list[float] = []

    def send(self, piece: Piece) -> None:
        if piece:
            self.pieces.append(piece)
            self.at_s.append(time.monotonic())


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Model]:
    made = Model()
    with served(made.app) as url:
        made.url = f"{url}/v1"
        yield made


def ask(endpoint: Model, *chunks: Chunk, timeout_s: float = 20.0, **said: Any) -> tuple[Answer, Taken]:
    """What is made of this stream."""
    endpoint.bodies.clear()
    endpoint.answer = lambda body: streamed(*chunks, **said)
    return asked(endpoint, timeout_s=timeout_s)


def asked(endpoint: Model, *, timeout_s: float = 20.0) -> tuple[Answer, Taken]:
    taken = Taken()
    clock = FakeTime() if timeout_s == 20.0 else None
    answer = agent(endpoint.url, clock, timeout_s=timeout_s).answer_in_slot(CHAT, to=taken, calls=Calls())
    return answer, taken


def test_pieces_come_while_the_answer_is_written_and_its_first_one_is_timed(endpoint: Model) -> None:
    answer, taken = ask(endpoint, {"content": "Hel"}, 0.3, {"content": "lo"})
    assert (answer.text, taken.pieces, answer.finish_reason) == ("Hello", ["Hel", "lo"], "stop")
    assert taken.at_s[1] - taken.at_s[0] > 0.2
    assert answer.time_to_first_action_ms is not None
    assert 0 < answer.time_to_first_action_ms < answer.latency_ms - 200
    assert (answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens) == (31, 12, 5)


def test_without_usage_tokens_are_estimated(endpoint: Model) -> None:
    answer, _ = ask(endpoint, {"content": "12345678"}, usage=False)
    assert (answer.prompt_tokens, answer.output_tokens) == (3, 2)


def test_nothing_is_repeated_once_a_piece_was_passed_on(endpoint: Model) -> None:
    answer, taken = ask(endpoint, {"content": "Hel"}, ValueError("boom"), finish=None)
    assert (answer.text, taken.pieces, len(endpoint.bodies)) == ("", ["Hel"], 1)
    assert "the middle of the answer" in (answer.failure_reason or "")


def test_what_breaks_before_the_first_piece_is_asked_again(endpoint: Model) -> None:
    replies = [streamed(ValueError("boom"), finish=None), streamed({"content": "Hello"})]
    endpoint.bodies.clear()
    endpoint.answer = lambda body: replies.pop(0)
    answer, taken = asked(endpoint)
    assert (answer.text, taken.pieces, len(endpoint.bodies)) == ("Hello", ["Hello"], 2)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (b'data: {"error": {"message": "out of memory"}}\n\n', "the endpoint failed in the middle of its answer"),
        (b"data: {no json}\n\n", "the endpoint's answer cannot be read"),
    ],
)
def test_an_error_in_the_midst_is_the_failures_reason(endpoint: Model, chunk: bytes, reason: str) -> None:
    answer, taken = ask(endpoint, {"content": "Hel"}, chunk)
    assert (answer.failure_reason or "").startswith(reason)
    assert taken.pieces == ["Hel"]


def test_a_stream_that_just_ends_is_no_answer(endpoint: Model) -> None:
    answer, _ = ask(endpoint, {"content": "Hel"}, finish=None)
    assert answer.failure_reason == "the endpoint's stream ended before its answer was complete"


def test_an_answer_may_take_long_as_long_as_it_goes_on_and_not_when_it_stands_still(endpoint: Model) -> None:
    long, _ = ask(endpoint, *({"content": "x"}, 0.3) * 4, timeout_s=1.0)
    assert (long.text, long.latency_ms > 1000) == ("xxxx", True)
    still, taken = ask(endpoint, {"content": "x"}, 5.0, {"content": "y"}, timeout_s=0.5)
    assert still.failure_reason == "no more of the answer within 0.5 s, and it was not complete"
    assert taken.pieces == ["x"]


def test_an_endpoint_that_cannot_stream_gives_its_answer_in_one_piece(endpoint: Model) -> None:
    endpoint.answer = lambda body: completion({"content": "Hello"})
    answer, taken = asked(endpoint)
    assert (answer.text, taken.pieces) == ("Hello", ["Hello"])


def test_giving_up_ends_the_request(endpoint: Model) -> None:
    endpoint.left.clear()
    endpoint.answer = lambda body: streamed({"content": "x"}, 30.0)
    calls, taken = Calls(), Taken()
    running = agent(endpoint.url, timeout_s=60.0)
    thread = threading.Thread(target=_given_up, args=(running, taken, calls))
    thread.start()
    while not taken.pieces:
        time.sleep(0.01)
    calls.give_up()
    assert endpoint.left.wait(10)
    thread.join(10)
    assert not thread.is_alive()


def _given_up(running: RunningAgent, taken: Taken, calls: Calls) -> None:
    with pytest.raises(CancelledError):
        running.answer_in_slot(CHAT, to=taken, calls=calls)


def test_calls_are_put_together_by_index_or_id() -> None:
    def chunk(*calls: dict[str, Any]) -> bytes:
        return json.dumps({"choices": [{"delta": {"tool_calls": list(calls)}}]}).encode()

    assembly = Assembly("t1")
    pieces = [
        *assembly.take(chunk({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
        *assembly.take(chunk({"index": 0, "function": {"arguments": '{"x"'}})),
        *assembly.take(chunk({"index": 0, "id": "a", "function": {"arguments": ": 1}"}})),
        *assembly.take(chunk({"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
        *assembly.take(chunk({"function": {"name": "", "arguments": ""}})),
    ]
    assert assembly.reading().tool_calls == (
        ToolCall(id="a", name="f", arguments='{"x": 1}'),
        ToolCall(id="b", name="g", arguments="{}"),
    )
    assert pieces[0] == CallPiece(index=0, id="a", name="f")
    assert [piece.index for piece in pieces if isinstance(piece, CallPiece)] == [0, 0, 0, 1, 1]


def test_events_are_cut_at_ends_of_lines_alone_however_the_bytes_come() -> None:
    text = 'data: {"a": "x\u2028y"}\r\n\r\n: a comment\ndata:[DONE]'.encode()
    for step in (1, 3, 1000):
        data = EventData()
        found = [one for start in range(0, len(text), step) for one in data.take(text[start : start + step])]
        assert [*found, *data.end()] == ['{"a": "x\u2028y"}'.encode(), b"[DONE]"]


def test_an_endpoint_that_streams_without_end_fails_and_is_tried_again_after_its_rest(
    endpoint: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_exchange, "LARGEST_ANSWER", 100)
    endpoint.answer = lambda body: streamed({"content": "x" * 200})
    time_ = FakeTime()
    endpoints = Endpoints(clock=time_.clock)
    running = agent(endpoint.url, time_, endpoints=endpoints)
    reasons = []
    for _ in range(FAILURES + 2):
        reasons.append(running.answer_in_slot(CHAT, to=Taken(), calls=Calls()).failure_reason)
        time_.now += 60.0 if len(reasons) > FAILURES - 1 else 0.0
    assert reasons == ["the endpoint streamed more than 100 bytes"] * (FAILURES + 2)
    assert endpoints.get(endpoint.url, model="small", api_key_env="TEST_ENDPOINT_KEY").breaker.state != "closed"
