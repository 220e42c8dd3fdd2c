"""``flywheel collection`` shows what lies there and brings dead letters back."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from flywheel.cli import main
from flywheel.collection import SegmentWriter
from flywheel.collection.dead_letters import write_dead_letter
from flywheel.collection.segments import closed_segments
from tests.collection.reading import payloads_in

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


def run(home: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["--home", str(home), "collection", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_status_tells_closed_living_and_orphaned_segments_and_dead_letters(tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    assert "0 segments closed" in run(tmp_path, "status")
    writer = SegmentWriter(folder, clock=lambda: START)
    writer.append(b"closed")
    writer.close()
    writer.append(b"living")
    (folder / "dead.open").write_bytes(b"FLYSEG01")
    write_dead_letter(folder / "dead-letters", [b"a", b"b"], reason="EIO", now=START)
    found = json.loads(run(tmp_path, "status", "--json"))
    assert (found["closed_segments"], found["live_segments"], found["orphaned_segments"]) == (1, 1, 1)
    assert [(letter["logs"], letter["reason"]) for letter in found["dead_letters"]] == [(2, "EIO")]
    assert "2 logs, EIO" in run(tmp_path, "status")
    writer.close()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_retry_makes_dead_letters_segments_again(tmp_path: Path, elsewhere: bool) -> None:
    letters = tmp_path / ("other" if elsewhere else "segments/dead-letters")
    write_dead_letter(letters, [b"a", b"b"], reason="ENOSPC", now=START)
    options = ["--dead-letters", str(letters)] if elsewhere else []
    assert "1 dead letters are segments again" in run(tmp_path, "retry", *options)
    assert payloads_in(tmp_path / "segments") == [b"a", b"b"]
    assert closed_segments(letters) == []
    assert "there are no dead letters" in run(tmp_path, "retry", *options)
    assert len(closed_segments(tmp_path / "segments")) == 1


def test_traces_that_were_set_aside_are_shown_and_wait_again(tmp_path: Path) -> None:
    letters = tmp_path / "spans" / "dead-letters"
    write_dead_letter(letters, [b"span", b"event"], reason="KeyError", now=START)
    found = json.loads(run(tmp_path, "status", "--json"))
    assert [(letter["logs"], letter["reason"]) for letter in found["set_aside"]] == [(2, "KeyError")]
    assert "2 spans of a trace, KeyError" in run(tmp_path, "status")
    assert json.loads(run(tmp_path, "retry", "--json")) == {"retried": 1}
    assert payloads_in(tmp_path / "spans") == [b"span", b"event"]


def test_the_folder_of_dead_letters_is_configuration_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_COLLECTION__DEAD_LETTERS", str(tmp_path / "other"))
    write_dead_letter(tmp_path / "other", [b"a"], reason="EIO", now=START)
    assert "1 logs, EIO" in run(tmp_path, "status")
    assert json.loads(run(tmp_path, "retry", "--json")) == {"retried": 1}
