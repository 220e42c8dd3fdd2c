"""``flywheel pool export`` and ``release``."""

import json
from pathlib import Path

import pytest

from flywheel.pool.access.audit import list_audit
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.filling import fill, some_tasks

# The points are of March 2026.
ASK = ("--phase", "sft", "--min-points", "6", "--min-task-types", "2", "--max-age-days", "36500")


@pytest.fixture
def filled(home: Path, database_url: str) -> None:
    with BenchmarkPool.open(Settings.load(profile="smoke", home=home, database_url=database_url)) as pool:
        fill(pool, "a", some_tasks(16))


def test_a_dry_run_says_what_would_be_exported_and_what_is_missing(flywheel: Invoke, filled: None) -> None:
    output = flywheel("pool", "export", *ASK, "--dry-run").output
    assert "success 12" in output
    assert "the export can be made" in output
    lacking = json.loads(flywheel("pool", "export", *ASK, "--min-quality", "0.99", "--dry-run", "--json").output)
    assert lacking["batch"] is None
    assert lacking["lacking"][0].startswith("0 of 6 new points with quality ≥ 0.99")
    assert json.loads(flywheel("pool", "batches", "--json").output) == []


def test_an_export_is_made_written_listed_written_again_and_released(
    flywheel: Invoke, filled: None, tmp_path: Path
) -> None:
    made = json.loads(flywheel("pool", "export", *ASK, "--id", "e1", "--output", str(tmp_path / "e1"), "--json").output)
    assert (made["batch"]["id"], made["batch"]["points"]) == ("e1", {"sft": 12})
    assert (tmp_path / "e1" / "train.jsonl").exists()
    listed = flywheel("pool", "batches").output
    assert "sft 12" in listed
    assert "train" in flywheel("pool", "batches", "e1").output
    again = flywheel("pool", "export", "--batch", "e1", "--output", str(tmp_path / "again"))
    assert again.exit_code == 0
    manifests = [(tmp_path / name / "manifest.json").read_bytes() for name in ("e1", "again")]
    assert manifests[0] == manifests[1]
    released = flywheel("pool", "release", "e1", "--because", "the cluster was lost")
    assert released.output == "12 points of e1 may be chosen again: the cluster was lost\n"
    assert "the cluster was lost" in flywheel("pool", "batches").output
    assert flywheel("pool", "export", "--batch", "e1", "--output", str(tmp_path / "third")).exit_code == 1


def test_what_is_missing_is_an_error(flywheel: Invoke, filled: None) -> None:
    result = flywheel("pool", "export", "--phase", "curriculum", "--id", "e1")
    assert result.exit_code == 1
    assert "export e1 cannot be made yet" in result.stderr


def test_a_folder_in_use_is_refused_before_any_point_is_marked(flywheel: Invoke, filled: None, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    assert flywheel("pool", "export", *ASK, "--output", str(tmp_path)).exit_code == 1
    inside_a_file = str(tmp_path / "notes" / "x")
    refused = flywheel("pool", "export", *ASK, "--output", inside_a_file)
    assert (refused.exit_code, "cannot be made" in refused.stderr) == (1, True)
    assert json.loads(flywheel("pool", "batches", "--json").output) == []


def test_who_cannot_write_an_export_is_told_how_to_write_it_again(
    flywheel: Invoke, filled: None, tmp_path: Path, home: Path
) -> None:
    assert flywheel("pool", "export", *ASK, "--id", "e1").exit_code == 0
    for file in (home / "lake").glob("*/batch_id=e1/*.parquet"):
        file.unlink()
    result = flywheel("pool", "export", "--batch", "e1", "--output", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "flywheel pool export --batch e1 --format trl --output DIR" in result.stderr


def test_exports_and_releases_are_audited(flywheel: Invoke, filled: None, home: Path, database_url: str) -> None:
    flywheel("pool", "export", *ASK, "--id", "e1")
    flywheel("pool", "release", "e1", "--because", "a test")
    with BenchmarkPool.open(Settings.load(profile="smoke", home=home, database_url=database_url)) as pool:
        entries = [(entry.action, entry.asked["batch"], entry.rows) for entry in list_audit(pool)]
    assert entries == [("batch.release", "e1", 12), ("export.make", "e1", 12)]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--phase", "sft", "--batch", "e1"),
        ("--batch", "e1"),
        ("--batch", "e1", "--output", "x", "--dry-run"),
        ("--phase", "sft", "--complexity-mix", "complex"),
        ("--phase", "play"),
    ],
)
def test_wrong_usage_is_said_to_be_so(flywheel: Invoke, arguments: tuple[str, ...]) -> None:
    assert flywheel("pool", "export", *arguments).exit_code == 2
