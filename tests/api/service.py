"""The service in this process, whose agents are functions: for tests of tasks over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.receiver.keys import create_key
from flywheel.database import connect
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.receiver.conftest import Headers, stored
from tests.arbiter.agents import functions

FUNCTIONS = "tests.arbiter.agents.functions"


def question(name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "research", "text": "How high is it?", **({} if name is None else {"id": name}), **more}


def runner(settings: Settings, tenant: str = "acme") -> Headers:
    """The headers that carry a new key of a tenant that may run tasks."""
    with BenchmarkPool.open(settings) as pool:
        made = create_key(pool, tenant, name="test", by="tester", now=datetime.now(UTC), may_run_tasks=True)
    return {"Authorization": f"Bearer {made.key}"}


@contextmanager
def serving(settings: Settings, *agents: str, **profile: Any) -> Iterator[TestClient]:
    """A client of the service in this process, whose agents are functions of these names."""
    engine = connect(settings.database_url)
    for name in agents:
        made = AgentProfile(id=name, kind="python", function=f"{FUNCTIONS}:{name}", **profile)
        AgentRegistry(engine).register(made)
    engine.dispose()
    without = settings.model_copy(update={"agents": ()})
    with TestClient(create_app(without), headers=runner(settings)) as client:
        yield client


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lets go of the tasks of the agent ``hanging``."""
    functions.released.clear()
    yield functions.released
    functions.released.set()


def logs_of(settings: Settings, task_id: str) -> list[str]:
    return sorted(log["log"] for log in stored(settings) if log["taskId"] == task_id)
