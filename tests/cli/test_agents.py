import json

import pytest

from flywheel.arbiter.registry import AgentRegistry
from flywheel.database import connect
from flywheel.settings import Settings
from tests.cli.conftest import Invoke

ENDPOINT = ("--kind", "openai", "--base-url", "http://localhost:8000/v1", "--model", "qwen3", "--api-key-env", "MY_KEY")


def test_an_added_agent_is_listed_shown_and_known_to_the_arbiter(flywheel: Invoke, database_url: str) -> None:
    assert flywheel("agents", "add", "mine", *ENDPOINT, "--temperature", "0.5").exit_code == 0
    [listed] = json.loads(flywheel("agents", "list", "--json").output)
    shown = json.loads(flywheel("agents", "show", "mine", "--json").output)
    assert shown == listed
    assert (shown["id"], shown["kind"], shown["model"], shown["temperature"]) == ("mine", "openai", "qwen3", 0.5)
    assert shown["api_key_env"] == "MY_KEY"
    assert [agent.id for agent in AgentRegistry(connect(database_url)).list(status="active")] == ["mine"]
    assert "http://localhost:8000/v1" in flywheel("agents", "show", "mine").output


def test_a_disabled_agent_stays_known_and_comes_back(flywheel: Invoke, database_url: str) -> None:
    registry = AgentRegistry(connect(database_url))
    flywheel("agents", "add", "mine", *ENDPOINT)
    flywheel("agents", "disable", "mine")
    assert registry.list(status="active") == ()
    assert "disabled" in flywheel("agents", "list").output
    flywheel("agents", "enable", "mine")
    assert [agent.id for agent in registry.list(status="active")] == ["mine"]


@pytest.mark.parametrize("command", ["show", "disable", "enable"])
def test_an_unknown_agent_is_an_error_that_says_where_to_look(flywheel: Invoke, command: str) -> None:
    result = flywheel("agents", command, "nobody")
    assert result.exit_code == 1
    assert result.stderr == "flywheel: there is no agent 'nobody'; `flywheel agents list` shows those there are\n"


def test_an_agent_without_an_id_is_wrong_usage(flywheel: Invoke) -> None:
    assert flywheel("agents", "add", "", *ENDPOINT).exit_code == 2


def test_the_agents_of_the_settings_are_listed_as_a_table(flywheel: Invoke, settings: Settings) -> None:
    AgentRegistry(connect(settings.database_url)).seed_from_settings(settings)
    output = flywheel("agents", "list").output
    assert "success rate" in output
    assert all(agent.id in output for agent in settings.agents)
