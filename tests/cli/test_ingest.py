import json
from pathlib import Path

from tests.cli.conftest import Invoke


def test_lines_are_taken_once_and_counted(flywheel: Invoke, tmp_path: Path, home: Path) -> None:
    (tmp_path / "logs.jsonl").write_text('{"log": "routing"}\nnot json\n\n')
    first = json.loads(flywheel("ingest", str(tmp_path / "logs.jsonl"), "--json").output)
    again = json.loads(flywheel("ingest", str(tmp_path / "logs.jsonl"), "--json").output)
    assert (first["lines"], first["blank_lines"], first["files"]) == (2, 1, 1)
    assert (again["lines"], again["skipped_files"]) == (0, 1)
    assert len(list((home / "segments").glob("*.segment"))) == 1


def test_standard_input_is_read(flywheel: Invoke) -> None:
    assert flywheel("ingest", "-", stdin='{"log": "routing"}\n').output.startswith("1 lines of 1 files taken")


def test_a_file_that_is_not_there_is_an_error_that_names_it(flywheel: Invoke) -> None:
    result = flywheel("ingest", "nowhere.jsonl")
    assert result.exit_code == 1
    assert "nowhere.jsonl" in result.stderr
