"""Endpoints that never answer: they are left alone, and their agents get no tasks meanwhile."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.build import AgentFactory
from flywheel.arbiter.agents.circuit_breaker import FAILURES
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.strategy import IDLE
from flywheel.arbiter.task import TaskResult
from flywheel.collection.collector import Collector, utc_now
from flywheel.settings import Settings
from tests.arbiter.running.service import replaced
from tests.arbiter.test_loads import until


@pytest.fixture
def silent() -> Iterator[str]:
    """The base URL of an endpoint that takes requests and never answers one."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def test_an_endpoint_that_never_answers_is_left_alone_and_gets_no_more_tasks(
    engine: Engine, tmp_path: Path, settings: Settings, silent: str
) -> None:
    registry = AgentRegistry(engine)
    registry.register(AgentProfile(id="silent", kind="openai", base_url=silent, model="m", timeout_s=0.4))
    plain = "tests.arbiter.agents.functions:plain"
    registry.register(AgentProfile(id="plain", kind="python", function=plain))
    agents = AgentFactory(settings)
    with Collector(tmp_path, "acme") as collector:
        arbiter = Arbiter(
            engine,
            collector,
            tenant_id="acme",
            label="service",
            make_agent=agents,
            clock=utc_now,
            rng=np.random.default_rng(3),
        )
        asked: list[TaskResult] = []
        while not until(lambda: agents.slots.all_loads().get("silent", IDLE).resting, seconds=0.3):
            assert len(asked) < 3 * FAILURES
            asked.append(arbiter.execute_task(replaced(len(asked), agent_id="silent")))
        routed = [arbiter.route(replaced(f"routed {number}")) for number in range(3)]
        named = arbiter.execute_task(replaced("named", agent_id="silent"))
        arbiter.close()
    assert {one.failure.kind for one in asked if one.failure is not None} == {"timeout"}
    assert {one.selected_agent_id for one in routed} == {"plain"}
    assert {one.candidate_agents[0].propensity for one in routed} == {1.0}
    assert all("1 that keep failing left out" in one.primary_reason for one in routed)
    assert named.failure is not None
    assert "left alone" in named.failure.reason
