"""No agent works on more than its limit, nobody waits for ever, and nothing is lost when a waiter goes away."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flywheel.arbiter.agents.python_function import PythonAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.strategy import Load
from flywheel.tasks.source import AgentTask
from tests.fakes import FixedAgent, benchmark_task

HERE = "tests.arbiter.agents.functions"


class Watched:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1


def test_threads_and_tasks_share_one_limit_and_one_line() -> None:
    slots, watched = Slots(), Watched()

    def in_thread() -> None:
        with slots.hold("a", limit=3):
            watched.enter()
            time.sleep(0.005)
            watched.leave()

    async def in_task() -> None:
        async with slots.hold_async("a", limit=3):
            watched.enter()
            await asyncio.sleep(0.005)
            watched.leave()

    async def all_tasks() -> None:
        await asyncio.gather(*(in_task() for _ in range(20)))

    threads = [threading.Thread(target=in_thread) for _ in range(20)]
    for thread in threads:
        thread.start()
    asyncio.run(all_tasks())
    for thread in threads:
        thread.join()
    assert (watched.most, watched.inside) == (3, 0)
    assert slots.loads() == {}


def test_who_waits_is_seen_as_queued_and_who_works_as_active() -> None:
    async def look() -> None:
        slots = Slots()
        async with slots.hold_async("a", limit=1):
            places = [slots.enter("a", limit=1) for _ in range(3)]
            waiting = [asyncio.create_task(place.wait_async()) for place in places]
            await asyncio.sleep(0)
            assert slots.loads() == {"a": Load(active=1, queued=3)}
            waiting[1].cancel()
            await asyncio.sleep(0.01)
            assert slots.loads() == {"a": Load(active=1, queued=2)}
        await waiting[0]
        assert slots.loads() == {"a": Load(active=1, queued=1)}
        places[0].leave()
        await waiting[2]
        places[0].leave()  # twice is once
        assert slots.loads() == {"a": Load(active=1)}
        places[2].leave()
        assert slots.loads() == {}

    asyncio.run(look())


def test_a_batch_is_one_call_and_all_its_tasks_are_load() -> None:
    slots = Slots()
    seen: list[dict[str, Load]] = []

    class Looking(FixedAgent):
        def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
            seen.append(slots.loads())
            return super().answer(tasks, on_progress=on_progress)

    running = RunningAgent(Looking("x"), AgentProfile(id="a", kind="local", max_concurrent=1), slots)
    running.answer([benchmark_task(str(number)) for number in range(5)])
    assert asyncio.run(running.answer_async(benchmark_task())).text == "x"
    assert seen == [{"a": Load(active=5)}, {"a": Load(active=1)}]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30), st.integers(1, 3))
def test_whoever_is_cancelled_no_slot_is_lost_and_none_is_given_twice(
    callers: list[tuple[bool, int]], limit: int
) -> None:
    slots, watched = Slots(), Watched()

    async def work(steps: int) -> None:
        async with slots.hold_async("a", limit=limit):
            watched.enter()
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                watched.leave()

    async def everybody() -> None:
        tasks = []
        for cancelled, steps in callers:
            tasks.append(asyncio.create_task(work(steps)))
            await asyncio.sleep(0)
            if cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    asyncio.run(everybody())
    assert watched.most <= limit
    assert slots.loads() == {}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_fifty_tasks_at_once_take_about_as_long_as_the_slowest_lane(asynchronous: bool) -> None:
    slots = Slots()
    functions = ("napping", "failing_slowly", "coroutine_napping", "raising", "hanging_coroutine")
    agents = {
        name: RunningAgent(
            PythonAgent(f"{HERE}:{name}", prompt="zero-shot", timeout_s=1.0, max_overdue=5),
            AgentProfile(id=name, kind="python", max_concurrent=5),
            slots,
        )
        for name in functions
    }
    tasks = [(agents[functions[number % 5]], benchmark_task(str(number))) for number in range(50)]
    answers: list[Answer] = []
    started = time.monotonic()
    if asynchronous:

        async def ask_all() -> None:
            answers.extend(await asyncio.gather(*(agent.answer_async(task) for agent, task in tasks)))

        asyncio.run(ask_all())
    else:
        threads = [threading.Thread(target=lambda a=a, t=t: answers.extend(a.answer([t]))) for a, t in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - started
    # The slowest lane is 10 calls of 1 s, 5 at once: 2 s. One after the other all would take 11.5 s.
    assert 2.0 <= seconds < 7.0
    assert Counter(answer.failure_reason is None for answer in answers) == {True: 20, False: 30}
    assert slots.loads() == {}
