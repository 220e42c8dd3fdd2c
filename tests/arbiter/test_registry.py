"""The registry keeps profiles, and what people changed survives a restart."""

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.registry import AgentProfile, AgentRegistry, TrackRecord
from flywheel.arbiter.settings import AgentSettings
from flywheel.database import connect
from flywheel.errors import ConfigurationError
from flywheel.settings import Settings

PROFILE = AgentProfile(
    id="small",
    kind="local",
    name="a small model",
    model="models:/small/3",
    model_family="llama",
    task_types=("add",),
    languages=("en",),
    specializations=("arithmetic",),
    prompt="few-shot",
    temperature=0.7,
    usd_per_million_input_tokens=1.5,
    usd_per_million_output_tokens=6.0,
    revision=1,
    version="3",
)


@pytest.fixture
def engine(database_url: str) -> Engine:
    return connect(database_url)


def test_a_profile_comes_back_as_it_was_registered(engine: Engine) -> None:
    AgentRegistry(engine).register(PROFILE)
    assert AgentRegistry(engine).get("small") == PROFILE
    assert AgentRegistry(engine).list() == (PROFILE,)
    assert PROFILE.record == TrackRecord(tasks=0)


def test_registering_again_replaces_the_profile(engine: Engine) -> None:
    registry = AgentRegistry(engine)
    registry.register(PROFILE)
    registry.register(AgentProfile(id="small", kind="local", model="models:/small/4", version="4"))
    assert registry.get("small").version == "4"
    assert len(registry.list()) == 1


def test_a_disabled_agent_stays_disabled_when_the_platform_starts_again(engine: Engine, settings: Settings) -> None:
    registry = AgentRegistry(engine)
    configured = settings.model_copy(update={"agents": (AgentSettings(id="reference", kind="reference"),)})
    assert registry.seed_from_settings(configured) == 1
    registry.set_status("reference", "disabled")
    assert registry.seed_from_settings(configured) == 0
    assert registry.get("reference").status == "disabled"
    assert registry.list(status="active") == ()


def test_an_unknown_agent_is_named(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="there is no agent 'nobody'"):
        AgentRegistry(engine).get("nobody")
    with pytest.raises(ConfigurationError, match="there is no agent 'nobody'"):
        AgentRegistry(engine).set_status("nobody", "disabled")
