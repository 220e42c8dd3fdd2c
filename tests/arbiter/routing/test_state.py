"""What the arbiter learns is per task type, survives a restart and loses no concurrent update."""

import subprocess
import sys
import threading
from datetime import UTC, datetime

import numpy as np
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.arbiter import choose_agent
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.state import BanditState, learn
from flywheel.arbiter.routing.strategy import Evidence
from flywheel.arbiter.routing.thompson import ThompsonSampling
from flywheel.database import connect
from flywheel.errors import ConfigurationError
from flywheel.records import Strategy


def outcome(agent_id: str, task_type: str, quality: float, number: int = 0) -> Outcome:
    return Outcome(
        task_id=f"{agent_id}-{task_type}-{number}",
        label="before",
        source_id="fake:add",
        task_type=task_type,
        agent_id=agent_id,
        success=quality > 0.9,
        quality=quality,
        latency_ms=10.0,
        evaluated_at=datetime(2025, 3, 1, tzinfo=UTC),
    )


@pytest.fixture
def engine(database_url: str) -> Engine:
    engine = connect(database_url)
    for agent_id in ("painter", "poet"):
        AgentRegistry(engine).register(AgentProfile(id=agent_id, kind="reference"))
    return engine


def teach(engine: Engine, outcomes: list[Outcome]) -> None:
    with engine.begin() as connection:
        learn(connection, outcomes)


def test_the_bandit_learns_per_task_type_and_survives_a_restart(engine: Engine, database_url: str) -> None:
    for number in range(40):
        teach(engine, [outcome("painter", "paint", 0.95, number), outcome("painter", "write", 0.2, number)])
        teach(engine, [outcome("poet", "paint", 0.2, number), outcome("poet", "write", 0.95, number)])
    engine.dispose()
    program = f"""
import numpy as np
from flywheel.arbiter.arbiter import choose_agent
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.routing.thompson import ThompsonSampling
from flywheel.database import connect
engine = connect({database_url!r})
agents = AgentRegistry(engine).list(status="active")
evidence = BanditState(engine).evidence(["paint", "write"])
rng = np.random.default_rng(0)
for task_type in ("paint", "write"):
    chosen = {{choose_agent(task_type, agents, evidence, loads={{}}, strategy=ThompsonSampling(), rng=rng).selected
              for _ in range(100)}}
    print(task_type, *chosen)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["paint painter", "write poet"]


def test_concurrent_routers_lose_no_update(engine: Engine, database_url: str) -> None:
    def add(worker: int) -> None:
        own = connect(database_url)
        for number in range(50):
            # Both orders of the two rows: taken as given, they would deadlock.
            pair = [outcome("painter", "paint", 0.5, number), outcome("poet", "paint", 0.25, number)]
            teach(own, pair if worker % 2 else pair[::-1])
        own.dispose()

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    evidence = BanditState(engine).evidence(["paint"])
    assert evidence == {
        ("painter", "paint"): Evidence(tasks=200, quality_sum=100.0),
        ("poet", "paint"): Evidence(tasks=200, quality_sum=50.0),
    }
    record = AgentRegistry(engine).get("painter").record
    assert (record.tasks, record.mean_quality, record.success_rate, record.mean_latency_ms) == (200, 0.5, 0.0, 10.0)


def test_without_a_capable_agent_the_general_pool_is_the_fallback() -> None:
    agents = [AgentProfile(id="poet", kind="reference", task_types=("write",))]
    options = {"loads": {}, "strategy": ThompsonSampling(), "rng": np.random.default_rng(0)}
    assert choose_agent("write", agents, {}, **options).strategy is Strategy.MULTI_ARMED_BANDIT  # type: ignore[arg-type]
    fallback = choose_agent("paint", agents, {}, **options)  # type: ignore[arg-type]
    assert fallback.strategy is Strategy.FALLBACK
    assert fallback.primary_reason.startswith("none of 1 active agents takes paint")
    assert [scored.candidate.capability for scored in fallback.scored] == [0.0]


def test_without_any_agent_there_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="no agent is active"):
        choose_agent("paint", [], {}, loads={}, strategy=ThompsonSampling(), rng=np.random.default_rng(0))
