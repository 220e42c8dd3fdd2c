"""Thousands of tasks with agents that fail, are slow or crash: each has one result and its logs, and memory is flat.

``make soak`` runs ten thousand.
"""

import gc
import logging
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil
import pytest
from sqlalchemy import Engine, func, select

from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.settings import CacheSettings, ExecutionSettings
from flywheel.arbiter.tables import bandit_state, task_outcomes, task_runs
from flywheel.arbiter.task import ATTEMPT_MARK, Limits, Task, TaskResult
from flywheel.errors import AgentError
from flywheel.tasks.source import AgentTask
from tests.arbiter.running.service import logs_of, service

LOGGER = logging.getLogger(__name__)
TASKS = int(os.environ.get("FLYWHEEL_SOAK_TASKS", "1000"))
THREADS = 16
WARM = 0.4
"""Share of the tasks after which memory is measured first: pools, caches and buffers are full then."""
MOST_GROWTH_BYTES = 8_000_000
KEPT_BYTES = 600
"""Of each task by this test itself: what its agents were asked, and its place in what is waited for."""
SETTINGS = ExecutionSettings(cache=CacheSettings(enabled=True, entries=50, similarity=1.0))


class Erratic:
    """Fails, dawdles and crashes by chance, which the task decides: so that every run is the same."""

    def __init__(self, name: str, *, fails: float = 0.0, crashes: float = 0.0, dawdles: float = 0.0) -> None:
        self.name, self.fails, self.crashes, self.dawdles = name, fails, crashes, dawdles
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        [task] = tasks
        turn = len(task.question)
        chance = random.Random(f"{self.name} {task.id} {turn}")
        with self._lock:
            self.calls[f"{task.id} {turn}"] += 1
        if chance.random() < self.fails:
            raise AgentError("the endpoint answered 503")
        if chance.random() < self.crashes:
            raise ZeroDivisionError("a bug")
        if chance.random() < self.dawdles:
            time.sleep(0.2)
        quality = chance.choice([0.1, 0.4, 0.6, 0.9, 1.0])
        return [
            Answer(text=f"{quality} says {self.name}", messages=task.question, prompt_tokens=20,
                   output_tokens=chance.randrange(400), latency_ms=0.1)
        ]  # fmt: skip


def agents() -> dict[str, Erratic]:
    return {
        "steady": Erratic("steady"),
        "failing": Erratic("failing", fails=0.5),
        "crashing": Erratic("crashing", crashes=0.5),
        "slow": Erratic("slow", dawdles=0.3),
    }


def soak_task(number: int) -> Task:
    chance = random.Random(number)
    text = f"How high is mountain {number if chance.random() < 0.9 else 0}?"
    task = Task.asking(text, id=f"t{number}", type=chance.choice(["research", "planning", "design"]))
    return msgspec.structs.replace(task, limits=Limits(timeout_s=20.0))


def run_one(arbiter: Arbiter, number: int) -> list[TaskResult]:
    """Run a task; one in twenty is handed over twice at once, and one in fifty is cancelled."""
    token = CancelToken()
    if number % 50 == 7:
        threading.Timer(0.002, token.cancel).start()
    if number % 20 != 3:
        return [arbiter.execute_task(soak_task(number), token=token)]
    with ThreadPoolExecutor(2) as both:
        return list(both.map(lambda _: arbiter.execute_task(soak_task(number), token=token), range(2)))


def memory() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.timeout(3_600)
def test_no_task_is_unaccounted_and_memory_is_flat(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "flywheel.arbiter.running")  # pytest keeps what is logged, a crash with its trace
    erratic = agents()
    timeouts = {"slow": {"timeout_s": 0.05}}
    statuses: Counter[str] = Counter()
    with (
        (tmp_path / "results").open("wb") as file,
        service(engine, tmp_path, erratic, settings=SETTINGS, profiles=lambda name: timeouts.get(name, {})) as arbiter,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        warm_bytes = 0
        for number, found in enumerate(threads.map(lambda n: run_one(arbiter, n), range(TASKS))):
            file.write(msgspec.json.encode(found) + b"\n")  # not kept: memory is what is measured
            statuses[found[0].status] += 1
            if number == int(TASKS * WARM):
                warm_bytes = memory()
        grown = memory() - warm_bytes
        while arbiter._parts.slots.loads():
            time.sleep(0.02)
    assert arbiter._parts.collector.drops == {}
    lines = msgspec.json.Decoder(list[TaskResult]).decode_lines((tmp_path / "results").read_bytes())
    results = {found[0].task_id: found for found in lines}
    assert set(results) == {f"t{number}" for number in range(TASKS)}
    assert statuses["cancelled"] <= TASKS / 50 + 1
    assert min(statuses["succeeded"], statuses["failed"]) > TASKS / 20
    LOGGER.info("%d tasks, %s; memory grew by %d bytes", TASKS, dict(statuses), grown)
    assert grown < MOST_GROWTH_BYTES + KEPT_BYTES * TASKS, f"{grown:,} bytes"
    check_accounts(engine, tmp_path, results, erratic)


def check_accounts(
    engine: Engine, folder: Path, results: dict[str, list[TaskResult]], erratic: dict[str, Erratic]
) -> None:
    logs = logs_of(folder)
    attempts = {report.task_id: report for found in results.values() for report in found[0].attempts}
    learned = 0
    for task_id, (result, *others) in results.items():
        assert result.stored
        assert {(other.status, other.text) for other in others} <= {(result.status, result.text)}
        evaluated = result.evaluation is not None
        assert logs[task_id].counts == (1, 1, int(evaluated))
        assert (result.status == "cancelled") == (not evaluated)
        assert result.spent.output_tokens == result.budget.spent
        assert result.spent.tokens == sum(report.spent.tokens for report in result.attempts)
        learned += len(result.attempts) - (not evaluated and bool(result.attempts))
    assert set(logs) == set(results) | set(attempts)
    for task_id in attempts:
        if ATTEMPT_MARK in task_id:
            assert logs[task_id].counts == (1, 1, 1)
            assert not logs[task_id].executions[0].success
    # No agent was asked the same twice.
    for agent in erratic.values():
        assert set(agent.calls.values()) == {1}
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(task_outcomes)) == learned
        assert connection.scalar(select(func.sum(bandit_state.c.tasks))) == learned
        open_runs = select(func.count()).select_from(task_runs).where(task_runs.c.finished_at.is_(None))
        assert connection.scalar(open_runs) == 0
        assert connection.scalar(select(func.count()).select_from(task_runs)) == len(results)
