import getpass
import json

import pytest

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.database import connect
from flywheel.settings import Settings
from tests.arbiter.test_capability_events import often, run
from tests.cli.conftest import Invoke

ENDPOINT = ("--kind", "openai", "--base-url", "http://localhost:8000/v1", "--model", "qwen3", "--api-key-env", "MY_KEY")


def test_an_added_agent_is_listed_shown_and_known_to_the_arbiter(flywheel: Invoke, database_url: str) -> None:
    assert flywheel("agents", "add", "mine", *ENDPOINT, "--temperature", "0.5").exit_code == 0
    [listed] = json.loads(flywheel("agents", "list", "--json").output)
    shown = json.loads(flywheel("agents", "show", "mine", "--json").output)
    assert {name: shown[name] for name in listed} == listed
    assert (shown["id"], shown["kind"], shown["model"], shown["temperature"]) == ("mine", "openai", "qwen3", 0.5)
    assert (shown["availability"], shown["load"]["active"], shown["revision"]) == ("available", 0, 1)
    assert shown["api_key_env"] == "MY_KEY"
    assert [agent.id for agent in AgentRegistry(connect(database_url)).list(status="active")] == ["mine"]
    assert "http://localhost:8000/v1" in flywheel("agents", "show", "mine").output


def test_every_change_is_told_with_who_made_it_and_why(flywheel: Invoke) -> None:
    flywheel("agents", "add", "mine", *ENDPOINT)
    assert flywheel("agents", "add", "mine", *ENDPOINT).output == "mine is registered, revision 1\n"
    flywheel("agents", "disable", "mine", "--reason", "its key expires")
    again = flywheel(
        "agents", "add", "mine", *ENDPOINT, "--max-concurrent", "3", "--usd-per-million-output-tokens", "2"
    )
    assert again.output == "mine is registered, revision 3, disabled\n"
    history = json.loads(flywheel("agents", "show", "mine", "--json").output)["history"]
    assert [change["reason"] for change in history][1] == "its key expires"
    assert history[2]["changes"] == {"max_concurrent": [10, 3], "usd_per_million_output_tokens": [0.0, 2.0]}
    assert {change["changed_by"] for change in history} == {getpass.getuser()}
    output = flywheel("agents", "show", "mine").output
    assert "status: 'active' → 'disabled'" in output
    assert "its key expires" in output
    assert "success_rate" in output
    assert "AgentLoad" not in output


@pytest.mark.parametrize(
    ("kind", "options", "kept"),
    [
        ("python", ("--function", "team.agents:solve"), {"function": "team.agents:solve"}),
        ("command", ("--command", "python 'my solver.py' --fast"), {"command": ["python", "my solver.py", "--fast"]}),
    ],
)
def test_functions_and_programs_are_agents(
    flywheel: Invoke, kind: str, options: tuple[str, ...], kept: dict[str, object]
) -> None:
    assert flywheel("agents", "add", "mine", "--kind", kind, *options).exit_code == 0
    shown = json.loads(flywheel("agents", "show", "mine", "--json").output)
    assert {name: shown[name] for name in kept} == kept


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--kind", "openai", "--model", "x"), "an agent of kind openai needs base_url"),
        (("--kind", "python"), "an agent of kind python needs function as module:function"),
        (("--kind", "command", "--command", "'"), "No closing quotation"),
    ],
)
def test_an_agent_that_lacks_something_is_wrong_usage(flywheel: Invoke, options: tuple[str, ...], told: str) -> None:
    result = flywheel("agents", "add", "mine", *options)
    assert result.exit_code == 2
    assert told in result.stderr


def test_measured_changes_are_found_listed_shown_and_applied(flywheel: Invoke, database_url: str) -> None:
    assert flywheel("agents", "measure").output == "nothing has changed that the outcomes could show\n"
    engine = connect(database_url)
    AgentRegistry(engine).register(AgentProfile(id="mine", kind="reference", task_types=("add",)))
    run(engine, "mine", "multiply", often(9, 10, 60))
    [event] = json.loads(flywheel("agents", "measure", "--json").output)
    assert (event["kind"], event["name"], event["evidence"]["successes"]) == ("added", "multiply", 54)
    for output in (flywheel("agents", "events", "--agent", "mine").output, flywheel("agents", "show", "mine").output):
        assert "54 of 60 tasks succeeded" in output
    assert flywheel("agents", "apply", str(event["id"])).output == "mine is at revision 2\n"
    assert AgentRegistry(engine).get("mine").task_types == ("add", "multiply")
    assert flywheel("agents", "apply", "4711").exit_code == 1
    assert "there is no agent 'nobody'" in flywheel("agents", "events", "--agent", "nobody").stderr


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
    assert "success" in output
    assert all(agent.id in output for agent in settings.agents)
