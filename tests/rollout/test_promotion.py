"""Champion and routing change together, and who served when can be read back."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.registry import AgentRegistry
from flywheel.database import connect
from flywheel.rollout.promotion import champion_at, current_champion, history, promote

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TAGS = {"flywheel.training_batch": "batch-1", "flywheel.base_model": "smollm2"}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


def approve(engine: Engine, version: str, at: datetime = NOW) -> None:
    promote(engine, version=version, tags=TAGS, now=at, actor="ann", reason="looked fine")


def test_nobody_serves_before_the_first_promotion(engine: Engine) -> None:
    assert current_champion(engine) is None
    assert champion_at(engine, NOW) is None


def test_a_promoted_version_is_an_agent_that_tasks_reach(engine: Engine) -> None:
    approve(engine, "3")
    (agent,) = AgentRegistry(engine).list(status="active")
    assert (agent.id, agent.model, agent.prompt) == ("flywheel-agent-v3", "models:/flywheel-agent/3", "zero-shot")
    assert "batch-1" in agent.name
    assert current_champion(engine) == "3"


def test_the_predecessor_gets_no_new_tasks(engine: Engine) -> None:
    approve(engine, "3")
    approve(engine, "5", NOW + timedelta(hours=1))
    assert [agent.id for agent in AgentRegistry(engine).list(status="active")] == ["flywheel-agent-v5"]
    assert current_champion(engine) == "5"


def test_promoting_twice_is_promoting_once(engine: Engine) -> None:
    approve(engine, "3")
    approve(engine, "3", NOW + timedelta(hours=1))
    assert [change.version for change in history(engine)] == ["3"]


def test_going_back_brings_the_earlier_agent_back(engine: Engine) -> None:
    for hours, version in enumerate(("3", "5", "3")):
        approve(engine, version, NOW + timedelta(hours=hours))
    assert [agent.id for agent in AgentRegistry(engine).list(status="active")] == ["flywheel-agent-v3"]
    assert [change.version for change in history(engine)] == ["3", "5", "3"]


def test_who_served_at_a_moment_can_be_read_back(engine: Engine) -> None:
    approve(engine, "3")
    approve(engine, "5", NOW + timedelta(hours=2))
    assert champion_at(engine, NOW + timedelta(hours=1)) == "3"
    assert champion_at(engine, NOW + timedelta(hours=2)) == "5"
    assert champion_at(engine, NOW - timedelta(seconds=1)) is None


def test_the_history_says_who_and_why(engine: Engine) -> None:
    approve(engine, "3")
    (change,) = history(engine)
    assert (change.actor, change.reason, change.set_at) == ("ann", "looked fine", NOW)
