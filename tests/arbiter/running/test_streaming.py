"""Text on its way to the caller."""

import asyncio
import threading
import time
from pathlib import Path

from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Answer, Pieces
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.running.streaming import Stream, TextDelta, Watch
from flywheel.tasks.source import AgentTask
from tests.arbiter.running.service import PATIENCE_S, ScriptedAgent, broken, service, task


class Typist(ScriptedAgent):
    """Hands out its answer word by word; at an event among them it waits."""

    def __init__(self, *words: str | threading.Event) -> None:
        super().__init__()
        self.words = words

    def stream(self, asked: AgentTask, *, to: Pieces) -> Answer:
        written = []
        for word in self.words:
            if isinstance(word, threading.Event):
                word.wait(PATIENCE_S)
                continue
            written.append(word)
            to.send(word)
        return Answer(text="".join(written), messages=asked.question, prompt_tokens=1, output_tokens=2, latency_ms=1.0)


def broken_pipe(_: TextDelta) -> None:
    raise BrokenPipeError


def test_pieces_arrive_as_they_are_written_and_make_the_answer(engine: Engine, tmp_path: Path) -> None:
    pieces: list[TextDelta] = []
    with service(engine, tmp_path, {"a": Typist("0.9 ", "and ", "so on")}) as arbiter:
        result = arbiter.execute_task(task(), watch=Watch(on_text=pieces.append))
    assert [piece.text for piece in pieces] == ["0.9 ", "and ", "so on"]
    assert result.text == "0.9 and so on"


def test_an_agent_that_cannot_stream_gives_its_answer_in_one_piece(engine: Engine, tmp_path: Path) -> None:
    pieces: list[TextDelta] = []
    with service(engine, tmp_path, {"a": ScriptedAgent("0.3 a", "0.9 b")}) as arbiter:
        arbiter.execute_task(task(), watch=Watch(on_text=pieces.append))
    assert pieces == [
        TextDelta(attempt=1, iteration=1, text="0.3 a"),
        TextDelta(attempt=1, iteration=2, text="0.9 b"),
    ]


def test_a_piece_of_another_agent_begins_another_answer(engine: Engine, tmp_path: Path) -> None:
    pieces: list[TextDelta] = []
    with service(engine, tmp_path, {"bad": broken(), "good": Typist("0.9")}, seed=1) as arbiter:
        results = [arbiter.execute_task(task(number), watch=Watch(on_text=pieces.append)) for number in range(8)]
    attempts = [len(result.attempts) for result in results]
    assert 2 in attempts
    assert [piece.attempt for piece in pieces] == attempts


def test_nothing_arrives_from_an_agent_that_was_given_up(engine: Engine, tmp_path: Path) -> None:
    pieces: list[TextDelta] = []
    token, released = CancelToken(), threading.Event()

    def take(delta: TextDelta) -> None:
        pieces.append(delta)
        if len(pieces) == 3:
            token.cancel()

    with service(engine, tmp_path, {"a": Typist(*"abc", released, *"defgh")}) as arbiter:
        result = arbiter.execute_task(task(), token=token, watch=Watch(on_text=take))
        released.set()
        while arbiter._parts.slots.loads():
            time.sleep(0.02)
    assert result.status == "cancelled"
    assert [piece.text for piece in pieces] == ["a", "b", "c"]


def test_a_caller_that_cannot_take_pieces_costs_no_agent_its_answer(engine: Engine, tmp_path: Path) -> None:
    def take(delta: TextDelta) -> None:
        pieces.append(delta)
        broken_pipe(delta)

    pieces: list[TextDelta] = []
    with service(engine, tmp_path, {"a": Typist("0.9 ", "yes")}) as arbiter:
        result = arbiter.execute_task(task(), watch=Watch(on_text=take))
    assert (result.status, result.text, len(pieces)) == ("succeeded", "0.9 yes", 1)


class Holder(ScriptedAgent):
    """Writes while it holds what others need, as a model on this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Lock()

    def stream(self, asked: AgentTask, *, to: Pieces) -> Answer:
        with self.held:
            to.send("0.9")
        return Answer(text="0.9", messages=asked.question, prompt_tokens=1, output_tokens=2, latency_ms=1.0)


def test_who_takes_pieces_may_need_what_the_agent_holds_while_it_writes(engine: Engine, tmp_path: Path) -> None:
    agent = Holder()
    free: list[bool] = []

    def take(_: TextDelta) -> None:
        free.append(agent.held.acquire(timeout=PATIENCE_S))
        agent.held.release()

    with service(engine, tmp_path, {"a": agent}) as arbiter:
        arbiter.execute_task(task(), watch=Watch(on_text=take))
    assert free == [True]


def test_who_writes_for_nobody_has_the_agents_time_however_lively_it_writes() -> None:
    unwatched, watched = Stream(None, attempt=1, iteration=1), Stream(broken_pipe, attempt=1, iteration=1)
    for stream in (unwatched, watched):
        stream.send("a")
    assert unwatched.last_s is None
    first_s = watched.last_s
    assert first_s is not None
    time.sleep(0.001)
    watched.send("b")
    assert watched.last_s is not None
    assert watched.last_s > first_s, "what takes the pieces failed, and not the agent"


def test_coroutines_get_pieces_in_their_loop(engine: Engine, tmp_path: Path) -> None:
    async def run() -> list[str]:
        loop, pieces = asyncio.get_running_loop(), []

        def take(delta: TextDelta) -> None:
            assert asyncio.get_running_loop() is loop
            pieces.append(delta.text)

        await arbiter.aexecute_task(task(), watch=Watch(on_text=take))
        return pieces

    with service(engine, tmp_path, {"a": Typist("0.9 ", "yes")}) as arbiter:
        assert asyncio.run(run()) == ["0.9 ", "yes"]
