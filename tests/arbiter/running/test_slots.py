"""Agents' limits hold for single tasks, all processes' loads are seen, and a crowd is nobody's fault."""

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.loads import SharedLoads
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.routing.strategy import Load
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.task import Limits
from flywheel.tasks.source import AgentTask
from tests.arbiter.running.service import ScriptedAgent, logs_of, replaced, service, task
from tests.arbiter.test_loads import until


class Watched(ScriptedAgent):
    """Counts how many of its calls are under way."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.inside = self.most = 0
        self._counting = threading.Lock()

    def answer(self, tasks: Any, **options: Any) -> list[Answer]:
        with self._counting:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            return super().answer(tasks, **options)
        finally:
            with self._counting:
                self.inside -= 1


def two_slots(_: str) -> dict[str, Any]:
    return {"max_concurrent": 2}


def test_no_agent_works_on_more_than_its_limit_and_fifty_tasks_wait_their_turn(engine: Engine, tmp_path: Path) -> None:
    async def all_at_once() -> Counter[str]:
        results = await asyncio.gather(*(arbiter.aexecute_task(task(number)) for number in range(50)))
        assert {result.status for result in results} == {"succeeded"}
        return Counter(result.agent_id for result in results)

    agents = {name: Watched(0.02) for name in "ab"}
    with service(engine, tmp_path, agents, profiles=two_slots, settings=ExecutionSettings()) as arbiter:
        shares = asyncio.run(all_at_once())
        assert arbiter._parts.slots.loads() == {}
    assert sum(shares.values()) == 50
    assert min(shares.values()) > 0, "who waits at one agent would have been done by the other"
    assert {agent.most for agent in agents.values()} == {2}


def test_what_other_processes_have_agents_do_is_seen_by_routing(engine: Engine, tmp_path: Path) -> None:
    with SharedLoads(engine) as other, SharedLoads(engine, refresh_s=0) as own:
        with_them = Slots(other)
        busy = with_them.enter("a", limit=1)
        assert until(lambda: own.others() == {"a": Load(active=1)})
        agents = {"a": ScriptedAgent(), "b": ScriptedAgent()}
        slots = Slots(own)
        with service(engine, tmp_path, agents, slots=slots, profiles=lambda _: {"max_concurrent": 1}) as arbiter:
            chosen = {arbiter.execute_task(task(number)).agent_id for number in range(10)}
            assert chosen == {"b"}
            told = arbiter.route(task(11)).primary_reason
            assert "1 that are busy left out" in told
        busy.leave()


def test_a_task_that_gets_no_slot_in_its_time_blames_nobody(engine: Engine, tmp_path: Path) -> None:
    released = threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}, profiles=lambda _: {"max_concurrent": 1}) as arbiter:
        first = threading.Thread(target=arbiter.execute_task, args=(task(1),))
        first.start()
        assert until(lambda: arbiter._parts.slots.loads().get("a") == Load(active=1))
        result = arbiter.execute_task(replaced(2, limits=Limits(timeout_s=0.3)))
        assert arbiter._parts.slots.loads() == {"a": Load(active=1)}, "it left the line"
        released.set()
        first.join()
    assert result.failure is not None
    assert (result.status, result.failure.kind, result.evaluation) == ("failed", "saturated", None)
    assert "all 1 slots of a were taken" in result.failure.reason
    assert logs_of(tmp_path)["t2"].counts == (1, 1, 0)
    assert BanditState(engine).evidence()["a", "research"].tasks == 1


def test_waiting_in_line_does_not_count_as_the_agent_s_time(engine: Engine, tmp_path: Path) -> None:
    limits = {"max_concurrent": 1, "timeout_s": 1.0}
    with service(engine, tmp_path, {"a": ScriptedAgent(0.4)}, profiles=lambda _: limits) as arbiter:
        results: list[str] = []
        threads = [
            threading.Thread(target=lambda n=n: results.append(arbiter.execute_task(task(n)).status)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["succeeded"] * 4  # the last one waited longer than the agent may take


def test_a_task_that_is_cancelled_in_line_leaves_it(engine: Engine, tmp_path: Path) -> None:
    released, token = threading.Event(), CancelToken()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}, profiles=lambda _: {"max_concurrent": 1}) as arbiter:
        first = threading.Thread(target=arbiter.execute_task, args=(task(1),))
        first.start()
        assert until(lambda: arbiter._parts.slots.loads().get("a") == Load(active=1))
        threading.Timer(0.2, token.cancel).start()
        assert arbiter.execute_task(task(2), token=token).status == "cancelled"
        assert arbiter._parts.slots.loads() == {"a": Load(active=1)}
        released.set()
        first.join()


def test_a_given_up_request_is_cancelled_and_its_slot_free_at_once(engine: Engine, tmp_path: Path) -> None:
    class Endless:
        cancelled = False

        async def ask(self, asked: AgentTask) -> Answer:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError("nobody waits so long")

    endless = Endless()
    with service(engine, tmp_path, {"a": endless}, profiles=lambda _: {"timeout_s": 0.2}) as arbiter:  # type: ignore[dict-item]
        result = arbiter.execute_task(task())
        assert until(lambda: not arbiter._parts.slots.loads(), seconds=5)
    assert result.failure is not None
    assert (result.failure.kind, endless.cancelled) == ("timeout", True)


@pytest.mark.parametrize("refresh_s", [0.0, 60.0])
def test_other_processes_loads_are_read_again_when_they_are_old(engine: Engine, refresh_s: float) -> None:
    with SharedLoads(engine) as other, SharedLoads(engine, refresh_s=refresh_s) as own:
        assert own.others() == {}
        other.load("a", Load(active=2, queued=1))
        seen = until(lambda: own.others() == {"a": Load(active=2, queued=1)}, seconds=3 if refresh_s == 0 else 0.5)
        assert seen == (refresh_s == 0)
        own.load("a", Load(active=1))
        time.sleep(0.3)
        assert Slots(own).all_loads() == own.others(), "its own it counts itself"
