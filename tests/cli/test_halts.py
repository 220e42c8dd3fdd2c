import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.halts import halt_on_violations
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)
BY = ("--by", "Ann", "--note", "an agent's name, it is gone")


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    """Settings of a pool that a day halts: an agent is named like a person."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    write_segment(settings, "a", task_logs("t1", agent="ann.lee@example.org"))
    with BenchmarkPool.open(settings) as pool:
        index_segments(pool, now=LATER)
        validate_day(pool, DAY, now=LATER)
        anonymize_day(pool, DAY)
        halt_on_violations(pool, DAY, now=LATER)
    return settings


def points_are_gone(settings: Settings) -> None:
    with BenchmarkPool.open(settings) as pool, pool.transaction() as connection:
        connection.execute("UPDATE days SET points_removed_at = %s", (LATER,))


def test_halts_are_listed_lifted_and_kept(flywheel: Invoke, settings: Settings) -> None:
    (halt,) = json.loads(flywheel("pool", "halts", "--json").output)
    assert (halt["day"], halt["lifted_at"]) == ("2026-03-02", None)
    assert "open" in flywheel("pool", "halts").output
    points_are_gone(settings)
    assert "lifted by Ann\nthe pool goes on" in flywheel("pool", "lift", "2026-03-02", *BY).output
    (halt,) = json.loads(flywheel("pool", "halts", "--json").output)
    assert (halt["lifted_by"], halt["note"]) == BY[1::2]


def test_a_halt_is_not_lifted_while_its_day_violates(flywheel: Invoke, settings: Settings) -> None:
    result = flywheel("pool", "lift", "2026-03-02", *BY)
    assert result.exit_code == 1
    assert "its last check found 1 privacy violations" in result.stderr


def test_the_usage_of_lift_names_the_day(flywheel: Invoke) -> None:
    usage = flywheel("pool", "lift", "--help").output
    assert "pool lift [OPTIONS] DAY\n" in usage
    assert "%Y" not in usage


def test_a_pool_that_was_never_halted_says_so(flywheel: Invoke) -> None:
    assert flywheel("pool", "halts").output == "nothing halts the pool, and nothing ever did\n"
    assert json.loads(flywheel("pool", "halts", "--json").output) == []


def test_logs_are_taken_while_the_pool_is_halted_and_the_halt_is_said(
    flywheel: Invoke, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "logs.jsonl").write_text('{"log": "routing"}\n')
    result = flywheel("ingest", str(tmp_path / "logs.jsonl"), "--json")
    assert json.loads(result.stdout)["read"] == 1
    assert "the lines were taken and wait: the pool is halted by 2026-03-02" in result.stderr


def test_status_and_training_say_that_the_pool_is_halted(flywheel: Invoke, settings: Settings) -> None:
    assert "the pool is halted by 2026-03-02" in flywheel("pool", "status").output


def test_alerts_and_their_rules_are_listed(flywheel: Invoke, settings: Settings) -> None:
    (alert,) = json.loads(flywheel("pool", "alerts", "--json").output)
    assert (alert["name"], alert["severity"]) == ("privacy", "critical")
    assert "the pool is halted by 2026-03-02" in flywheel("pool", "alerts").output
    rules = json.loads(flywheel("pool", "alerts", "--rules", "--json").output)
    assert {"name": "volume", "limit": "fewer than 10 points in the last full hour"}.items() <= rules[0].items()
    assert "relative" in flywheel("pool", "alerts", "--rules").output


def test_a_pool_that_is_well_says_so(flywheel: Invoke) -> None:
    assert flywheel("pool", "alerts").output == "collection is well: no alert is active\n"
