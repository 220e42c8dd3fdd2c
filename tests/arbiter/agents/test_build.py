"""From profiles to agents: models are found when they are needed."""

from pathlib import Path

import msgspec
import pytest

from flywheel.arbiter.agents.build import AgentFactory
from flywheel.arbiter.agents.command import CommandAgent
from flywheel.arbiter.agents.local import LoadedModels, LocalAgent
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.python_function import PythonAgent
from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.profiles import AgentProfile, TrackRecord
from flywheel.errors import AgentError
from flywheel.settings import Settings
from tests.fakes import benchmark_task


@pytest.fixture
def plain_settings(tmp_path: Path) -> Settings:
    return Settings.load(profile="smoke", home=tmp_path)


def test_each_kind_has_its_agent(plain_settings: Settings) -> None:
    make = AgentFactory(plain_settings)
    profiles = {
        ReferenceAgent: AgentProfile(id="a", kind="reference"),
        OpenAICompatibleAgent: AgentProfile(id="b", kind="openai", base_url="http://localhost/v1"),
        LocalAgent: AgentProfile(id="c", kind="local", model="base"),
        PythonAgent: AgentProfile(id="d", kind="python", function="os:getcwd"),
        CommandAgent: AgentProfile(id="e", kind="command", command=("true",)),
    }
    assert {type(make(profile).agent) for profile in profiles.values()} == set(profiles)


def test_an_agent_is_made_once_and_anew_when_its_profile_was_changed(plain_settings: Settings) -> None:
    make = AgentFactory(plain_settings)
    profile = AgentProfile(id="a", kind="reference")
    later = msgspec.structs.replace(profile, record=TrackRecord(tasks=3), revision=2)
    assert make(later) is make(profile)
    assert make(msgspec.structs.replace(profile, error_rate=0.5)) is not make(profile)


def test_a_registered_model_is_resolved_by_name_and_version_at_the_first_task(plain_settings: Settings) -> None:
    asked: list[tuple[str, int]] = []

    def resolve(name: str, version: int) -> Path:
        asked.append((name, version))
        raise AgentError("the registry is down")

    agent = AgentFactory(plain_settings, resolve_model=resolve)(
        AgentProfile(id="a", kind="local", model="models:/team/small/12")
    )
    assert asked == []
    with pytest.raises(AgentError, match="the registry is down"):
        agent.answer([benchmark_task()])
    assert asked == [("team/small", 12)]


@pytest.mark.parametrize("model", ["models:/small", "models:/small/latest", "/no/such/folder"])
def test_a_model_that_cannot_be_found_is_an_agent_error(plain_settings: Settings, model: str) -> None:
    agent = AgentFactory(plain_settings)(AgentProfile(id="a", kind="local", model=model))
    with pytest.raises(AgentError, match=model):
        agent.answer([benchmark_task()])


def test_a_folder_without_a_model_is_an_agent_error(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    agent = LocalAgent(
        lambda: tmp_path, LoadedModels(), prompt="zero-shot", temperature=0, max_new_tokens=8, batch_size=2
    )
    with pytest.raises(AgentError, match="cannot be loaded"):
        agent.answer([benchmark_task()])
