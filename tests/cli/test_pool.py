import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.cli.conftest import Invoke

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def malformed(flywheel: Invoke, home: Path, database_url: str, tmp_path: Path) -> str:
    """One malformed line, ingested and validated; the day it belongs to."""
    (tmp_path / "logs.jsonl").write_text("not json\n")
    flywheel("ingest", str(tmp_path / "logs.jsonl"), "--format", "native")
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as pool:
        [day] = index_segments(pool, now=NOW).days
        validate_day(pool, day, now=NOW)
    return day.isoformat()


def test_the_status_accounts_for_every_line_and_says_what_training_lacks(flywheel: Invoke, malformed: str) -> None:
    found = json.loads(flywheel("pool", "status", "--json").output)
    assert (found["counts"]["lines"], found["counts"]["points"], found["counts"]["quarantined"]) == (1, 0, 1)
    assert [day["day"] for day in found["days"]] == [malformed]
    assert found["missingForTraining"]
    output = flywheel("pool", "status").output
    assert malformed in output
    assert "\n  ".join(("not ready for a training batch:", *found["missingForTraining"])) in output


def test_an_empty_pool_has_no_batches_and_an_agent_without_tasks_no_rates(flywheel: Invoke) -> None:
    assert json.loads(flywheel("pool", "batches", "--json").output) == []
    found = json.loads(flywheel("pool", "statistics", "reference", "--json").output)
    assert (found["tasks"], found["success_rate"]) == (0, None)
