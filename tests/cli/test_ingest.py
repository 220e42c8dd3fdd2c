import json
from pathlib import Path

from tests.cli.conftest import Invoke

CHAT = '{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":"4"}],"rating":%d}\n'
MAPPING = '[reward]\nscore = "rating"\nmin = 1\nmax = 5\n'


def test_lines_are_taken_once_and_counted(flywheel: Invoke, tmp_path: Path, home: Path) -> None:
    (tmp_path / "logs.jsonl").write_text('{"log": "routing"}\nnot json\n\n')
    first = json.loads(flywheel("ingest", str(tmp_path / "logs.jsonl"), "--json").stdout)
    again = json.loads(flywheel("ingest", str(tmp_path / "logs.jsonl"), "--json").stdout)
    assert (first["read"], first["rejected"], first["files"]) == (2, {"no log": 2}, 1)
    assert (again["read"], again["files"], again["knownFiles"]) == (2, 0, 1)
    assert len(list((home / "segments").glob("*.segment"))) == 1


def test_the_report_says_what_a_mapping_made_of_traces(flywheel: Invoke, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(CHAT % 5 + CHAT % 2 + CHAT % 9)
    (tmp_path / "map.toml").write_text(MAPPING)
    arguments = ("ingest", str(tmp_path / "chat.jsonl"), "--mapping", str(tmp_path / "map.toml"))
    result = flywheel(*arguments, "--tenant", "acme", "--task-type", "research", "--json")
    report = json.loads(result.stdout)
    assert report["format"] == "openai-chat"
    assert (report["read"], report["points"], report["rejected"]) == (3, 2, {"score not as mapped": 1})
    assert report["taskTypes"] == ["research"]
    assert report["fields"]["latencyMs"] == 0
    assert "chat.jsonl" in result.stderr
    assert "rating is 9, outside of 1 to 5" in result.stderr
    assert "2 duplicates" in flywheel(*arguments, "--tenant", "acme", "--task-type", "research").stdout


def test_without_its_mapping_nothing_is_taken_and_the_command_fails(flywheel: Invoke, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(CHAT % 5)
    result = flywheel("ingest", str(tmp_path / "chat.jsonl"))
    assert result.exit_code == 1
    assert "--mapping" in result.stderr


def test_a_task_type_that_is_not_registered_is_an_error(flywheel: Invoke, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(CHAT % 5)
    result = flywheel("ingest", str(tmp_path / "chat.jsonl"), "--task-type", "juggling")
    assert result.exit_code == 1
    assert "unknown task types: juggling" in result.stderr


def test_a_misspelled_mapping_is_an_error_that_names_the_field(flywheel: Invoke, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("reward:\n  scoer: rating\n")
    result = flywheel("ingest", "-", "--mapping", str(tmp_path / "map.yaml"), stdin="")
    assert result.exit_code == 1
    assert "reward.scoer" in result.stderr


def test_standard_input_is_read(flywheel: Invoke) -> None:
    result = flywheel("ingest", "-", stdin='{"log": "routing"}\n')
    assert result.stdout.startswith("native: 1 records of 1 files")


def test_a_file_that_is_not_there_is_an_error_that_names_it(flywheel: Invoke) -> None:
    result = flywheel("ingest", "nowhere.jsonl")
    assert result.exit_code == 1
    assert "nowhere.jsonl" in result.stderr


def test_paths_and_a_watched_folder_exclude_each_other(flywheel: Invoke, tmp_path: Path) -> None:
    assert flywheel("ingest").exit_code == 2
    assert flywheel("ingest", "a", "--watch", str(tmp_path)).exit_code == 2
