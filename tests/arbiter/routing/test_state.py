"""What the arbiter learns is per task type, survives a restart and loses no concurrent update."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.build import router_from
from flywheel.arbiter.routing.evidence import EvidenceTable
from flywheel.arbiter.routing.linear import LinearEvidence
from flywheel.arbiter.routing.state import BanditState, days, learn
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.database import connect
from flywheel.settings import RoutingSettings


def outcome(
    agent_id: str, task_type: str, quality: float, number: int = 0, *, after: timedelta = timedelta(0)
) -> Outcome:
    return Outcome(
        task_id=f"{agent_id}-{task_type}-{number}",
        tenant_id="acme",
        label="before",
        source_id="fake:add",
        task_type=task_type,
        agent_id=agent_id,
        success=quality > 0.9,
        quality=quality,
        latency_ms=10.0,
        evaluated_at=datetime(2025, 3, 1, tzinfo=UTC) + after,
        cost_usd=0.5,
        task=RoutedTask(task_type=task_type, length=number),
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
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.build import router_from
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.database import connect
from flywheel.settings import RoutingSettings
engine = connect({database_url!r})
router = router_from(engine, AgentRegistry(engine).list(status="active"), RoutingSettings())
rng = np.random.default_rng(0)
for task_type in ("paint", "write"):
    chosen = {{router.decide(RoutedTask(task_type=task_type), rng).selected for _ in range(100)}}
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
    evidence = BanditState(engine).evidence()
    sums = {key: (known.tasks, known.weight, known.quality_sum) for key, known in evidence.items()}
    assert sums == {("painter", "paint"): (200, 200.0, 100.0), ("poet", "paint"): (200, 200.0, 50.0)}
    regressions = BanditState(engine).regressions()
    assert [regressions.get(name).weight for name in ("painter", "poet")] == [200.0, 200.0]
    record = AgentRegistry(engine).get("painter").record
    assert (record.tasks, record.mean_quality, record.success_rate, record.mean_latency_ms) == (200, 0.5, 0.0, 10.0)


def test_what_the_database_sums_is_what_memory_sums_whatever_the_order(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    done = [
        outcome("painter", "paint", float(rng.random()), number, after=timedelta(days=float(rng.uniform(0, 90))))
        for number in range(40)
    ]
    with engine.begin() as connection:
        learn(connection, done, half_life_days=10.0)
    memory, linear = EvidenceTable(half_life=10.0), LinearEvidence(half_life=10.0)
    for one in reversed(done):
        assert one.task is not None
        memory.add("painter", "paint", one.quality, at=days(one.evaluated_at), latency_ms=10.0, cost_usd=0.5)
        linear.learn("painter", features_of(one.task), one.quality, at=days(one.evaluated_at))
    state = BanditState(engine, half_life_days=10.0)
    assert state.table().sums == pytest.approx(memory.sums, rel=1e-6)
    assert state.table().at == pytest.approx(memory.at)
    kept, known = state.regressions().get("painter"), linear.get("painter")
    assert (kept.weight, kept.squares) == pytest.approx((known.weight, known.squares), rel=1e-6)
    assert kept.precision == pytest.approx(known.precision, rel=1e-6)
    assert kept.moment == pytest.approx(known.moment, rel=1e-6)


def test_very_old_outcomes_fade_without_an_underflow(engine: Engine) -> None:
    for after in (timedelta(days=0), timedelta(days=9_000), timedelta(days=3)):
        with engine.begin() as connection:
            learn(connection, [outcome("painter", "paint", 0.5, after=after)], half_life_days=1.0)
    known = BanditState(engine, half_life_days=1.0).evidence()["painter", "paint"]
    assert known.tasks == 3
    assert known.weight == pytest.approx(1.0)


def test_two_routers_on_one_database_learn_as_one(engine: Engine, database_url: str) -> None:
    """Each of them runs half of the tasks, and both know as much as one that ran them all."""
    active = AgentRegistry(engine).list(status="active")
    routers = [connect(database_url), connect(database_url)]
    rng = np.random.default_rng(5)
    for number in range(60):
        own = routers[number % 2]
        router = router_from(own, active, RoutingSettings(half_life_days=0))
        chosen = router.decide(RoutedTask(task_type="paint"), rng).selected
        teach(own, [outcome(chosen, "paint", float(rng.random() < {"painter": 0.9, "poet": 0.2}[chosen]), number)])
    task = RoutedTask(task_type="paint")
    decisions = [
        router_from(own, active, RoutingSettings(half_life_days=0)).decide(task, np.random.default_rng(0))
        for own in routers
    ]
    assert len({tuple((s.profile.id, s.propensity) for s in choice.scored) for choice in decisions}) == 1
    assert {choice.selected for choice in decisions} == {"painter"}
    assert sum(known.tasks for known in BanditState(engine).evidence().values()) == 60
    for own in routers:
        own.dispose()
