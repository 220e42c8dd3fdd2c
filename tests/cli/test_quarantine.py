import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    """Settings of a pool with a task whose call counts disagree, and a line that is no JSON."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    write_segment(settings, "a", [*task_logs("t1", toolCallCount=5), b"not json"])
    with BenchmarkPool.open(settings) as pool:
        index_segments(pool, now=LATER)
        validate_day(pool, DAY, now=LATER)
    return settings


def ids(flywheel: Invoke, *arguments: str) -> list[str]:
    return [line["id"] for line in json.loads(flywheel("quarantine", "list", *arguments, "--json").output)]


def test_lines_are_listed_by_day_gate_and_state(flywheel: Invoke, settings: Settings) -> None:
    assert len(ids(flywheel)) == 4
    assert len(ids(flywheel, "--gate", "consistent")) == 3
    assert ids(flywheel, "--day", "2020-01-01") == []
    assert ids(flywheel, "--state", "approved") == []
    output = flywheel("quarantine", "list").output
    assert "toolCallCount is 5, the calls in toolsUsed add up to 1" in output
    assert "not JSON: JSON is malformed" in output


def test_the_gates_are_listed_with_what_can_be_waived(flywheel: Invoke) -> None:
    found = {gate["gate"]: gate for gate in json.loads(flywheel("quarantine", "gates", "--json").output)}
    assert [name for name, gate in found.items() if gate["waivable"]] == ["time", "consistent", "rejected"]
    assert {name for name, gate in found.items() if gate["severity"] == "quarantine"} == {
        *("complete", "types", "bounds", "time", "consistent", "rejected")
    }
    assert found["outlier"]["demands"] in flywheel("quarantine", "gates").output


def test_a_line_is_shown_as_it_arrived_with_what_was_turned_away_with_it(flywheel: Invoke, settings: Settings) -> None:
    first, second, third = sorted(ids(flywheel, "--gate", "consistent"))
    output = flywheel("quarantine", "show", first[:12]).output
    assert '"taskId": "t1"' in output
    assert "- toolCallCount is 5" in output
    assert f"{second[:12]}, {third[:12]}" in output


def test_a_released_task_becomes_a_point_and_a_rejected_one_no_longer(flywheel: Invoke, settings: Settings) -> None:
    line = ids(flywheel, "--gate", "consistent")[0]
    with BenchmarkPool.open(settings) as pool:
        for decision, points in (("release", 1), ("reject", 0)):
            version = stale_days(pool)[0].version
            assert flywheel("quarantine", decision, line[:12], "--note", "their tool counts retries").exit_code == 0
            assert stale_days(pool)[0].version > version
            assert validate_day(pool, DAY, now=LATER).points == points
    assert len(ids(flywheel, "--state", "rejected")) == 3


def test_a_line_that_is_no_log_cannot_be_released(flywheel: Invoke, settings: Settings) -> None:
    line = ids(flywheel, "--gate", "types")[0]
    result = flywheel("quarantine", "release", line, "--note", "why not")
    assert result.exit_code == 1
    assert "cannot become a point as it is (not JSON" in result.stderr
    assert ids(flywheel, "--state", "approved") == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "0123"), 1, "no quarantined line has the id 0123"),
        (("show", ""), 1, "no quarantined line has the id"),
        (("release", "0123"), 2, "--note"),
        (("list", "--day", "yesterday"), 2, "yesterday"),
    ],
)
def test_what_cannot_be_done_is_said(flywheel: Invoke, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = flywheel("quarantine", *arguments)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
