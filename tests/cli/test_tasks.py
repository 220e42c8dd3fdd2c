import json

from flywheel.arbiter.registry import AgentRegistry
from flywheel.database import connect
from flywheel.settings import Settings
from tests.cli.conftest import Invoke


def test_a_label_without_tasks_has_no_rates(flywheel: Invoke) -> None:
    found = json.loads(flywheel("tasks", "report", "--label", "after", "--json").output)
    assert (found["tasks"], found["success_rate"], found["agents"]) == (0, None, [])
    told = flywheel("tasks", "report", "--label", "after").output
    assert told == "no task of 'after' was run yet; `flywheel tasks run --label after` runs them\n"


def test_progress_is_json_lines_and_done_tasks_are_not_run_again(flywheel: Invoke, settings: Settings) -> None:
    AgentRegistry(connect(settings.database_url)).seed_from_settings(settings)
    flywheel("agents", "disable", "scratch")
    run = ("tasks", "run", "--label", "before", "--count", "3")
    lines = [json.loads(line) for line in flywheel(*run, "--progress").output.splitlines()]
    assert (lines[0]["done"], lines[-1]["done"], lines[-1]["total"]) == (0, 3, 3)
    [agent] = json.loads(flywheel(*run, "--json").output)["agents"]
    assert (agent["agent_id"], agent["tasks"]) == ("reference", 3)


def test_an_unknown_label_is_wrong_usage(flywheel: Invoke) -> None:
    assert flywheel("tasks", "run", "--label", "sometimes").exit_code == 2
    assert flywheel("tasks", "run", "--label", "before", "--count", "0").exit_code == 2
