"""The command line lists, shows and verifies tasks of environments, and has agents try them."""

import json
from pathlib import Path

from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.database import connect
from flywheel.settings import Settings
from tests.cli.conftest import Invoke

TEXT = "text-transformation:recipe-0-123"


def test_the_reference_agent_plays_the_known_solutions_and_nothing_is_logged(flywheel: Invoke, home: Path) -> None:
    result = flywheel("tasks", "run", "code-repair:clamp", TEXT, "--json")
    assert result.exit_code == 0
    assert [(one["task"], one["done"]) for one in json.loads(result.output)] == [
        ("code-repair:clamp", True),
        (TEXT, True),
    ]
    assert list(home.rglob("*.seg*")) == []


def test_an_agent_that_does_not_do_its_tasks_is_exit_code_1(flywheel: Invoke, database_url: str) -> None:
    profile = AgentProfile(id="clumsy", kind="reference", error_rate=1.0)
    AgentRegistry(connect(database_url)).register(profile)
    run = ("tasks", "run", "--source", "text-transformation", "--count", "2", "--agent", "clumsy")
    result = flywheel(*run, "--transcript")
    assert result.exit_code == 1
    assert "0 of 2 tasks done" in result.output
    assert "noop" in result.output


def test_sources_and_their_tasks_are_listed(flywheel: Invoke, settings: Settings) -> None:
    sources = json.loads(flywheel("tasks", "list", "--json").output)
    assert [row["source"] for row in sources if row["routed"]] == [settings.tasks.source]
    held_out = json.loads(flywheel("tasks", "list", "--source", "code-repair", "--split", "heldout", "--json").output)
    assert {row["split"] for row in held_out} == {"heldout"}


def test_a_task_is_shown_as_agents_are_asked_it(flywheel: Invoke) -> None:
    shown = json.loads(flywheel("tasks", "show", "code-repair:clamp", "--json").output)
    assert "def clamp" in shown["messages"][0]["content"]
    assert "```python" in flywheel("tasks", "show", "code-repair:clamp").output


def test_answers_are_verified_turn_by_turn(flywheel: Invoke, tmp_path: Path) -> None:
    wrong, more = tmp_path / "1.txt", tmp_path / "2.txt"
    wrong.write_text("Trust me.")
    more.write_text("Trust me again.")
    result = flywheel("tasks", "verify", TEXT, str(wrong), str(more))
    assert (result.exit_code, result.output.count("Write the whole text again.")) == (1, 2)
    assert flywheel("tasks", "verify", TEXT).exit_code == 0


def test_what_there_is_not_is_said_with_where_to_look(flywheel: Invoke) -> None:
    assert "there is no task source 'poems'" in flywheel("tasks", "run", "poems:1").stderr
    assert "flywheel tasks list --source code-repair" in flywheel("tasks", "show", "code-repair:poem").stderr
    assert flywheel("tasks", "run").exit_code == 2
    assert flywheel("tasks", "run", "code-repair:clamp", "--label", "before").exit_code == 2
