"""Reports from the command line."""

import getpass
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from flywheel.pool.access.audit import list_audit
from flywheel.pool.pool import BenchmarkPool
from flywheel.rollout.promotion import promote
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.reports.statistics import count

DAY = date(2026, 3, 28)


@pytest.fixture
def opened(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    """Two agents over two weeks: one gets better, the other one is better in all."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as pool:
        for back in range(14):
            count(pool, DAY - timedelta(days=back), tasks=50, successes=30 - 2 * back)
            count(pool, DAY - timedelta(days=back), agent="agent-b", tasks=50, successes=45)
        yield pool


def test_feedback_of_all_agents_is_a_table_and_sentences(flywheel: Invoke, opened: BenchmarkPool) -> None:
    said = flywheel("reports", "feedback", "--day", str(DAY)).output
    assert said.splitlines()[0] == str(DAY)
    (row,) = [line for line in said.splitlines() if line.startswith("agent-a ")]
    assert row.split()[1:6] == ["50", "60.0%", "700", "34.0%", "0.340"]
    assert "improving, +0.04 a day (p = " in row
    assert "agent-a: training need, research: 34.0% of 700 tasks succeeded, of the others' 700 90.0% (-56.0 " in said
    assert "agent-b: strength, research: " in said


def test_a_day_before_all_tasks_is_told_in_words(flywheel: Invoke, opened: BenchmarkPool) -> None:
    day = DAY - timedelta(days=60)
    said = flywheel("reports", "feedback", "--day", str(day)).output
    assert said == f"{day}\n\nno agent had a task in the four weeks until {day}\n"
    compared = flywheel("reports", "compare", "--until", str(day)).output
    assert compared.endswith(f"\nno agent had a task in this week until {day}\n")


def test_feedback_of_one_agent_is_asked_by_name(flywheel: Invoke, opened: BenchmarkPool) -> None:
    (found,) = json.loads(flywheel("reports", "feedback", "agent-b", "--day", str(DAY), "--json").output)
    assert (found["agent_id"], found["day"], found["trends"]["quality"]["direction"]) == ("agent-b", str(DAY), "stable")
    unknown = flywheel("reports", "feedback", "agent-z", "--day", str(DAY))
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "agent-z had no task in the four weeks until 2026-03-28" in unknown.stderr


def test_agents_are_compared_by_week(flywheel: Invoke, opened: BenchmarkPool) -> None:
    said = flywheel("reports", "compare", "--until", str(DAY)).output.splitlines()
    assert said[0] == "week 2026-03-23 to 2026-03-29, counted until 2026-03-28"
    best, other = said[3:5]
    assert best.split()[:3] == ["agent-b", "300", "90.0%"]
    assert best.rstrip().endswith("no more than chance")
    assert other.split()[0] == "agent-a"
    assert other.rstrip().endswith("better")
    month = json.loads(flywheel("reports", "compare", "--period", "month", "--until", str(DAY), "--json").output)
    assert (month["first"], len(month["agents"])) == ("2026-03-01", 2)


def test_collection_is_reported_over_a_week_unless_asked_otherwise(flywheel: Invoke, opened: BenchmarkPool) -> None:
    said = flywheel("reports", "collection", "--to", str(DAY)).output
    assert "2026-03-22 to 2026-03-28" in said
    assert "700, 100.0 a day" in said
    assert "agent-a 350, agent-b 350" in said
    found = json.loads(flywheel("reports", "collection", "--from", "2026-03-27", "--to", str(DAY), "--json").output)
    assert found["by_day"] == {"2026-03-27": 100, "2026-03-28": 100}
    wrong = flywheel("reports", "collection", "--from", "2026-04-01", "--to", str(DAY))
    assert wrong.exit_code == 2
    assert "2026-04-01 is after 2026-03-28" in wrong.stderr


def test_training_is_reported_with_what_promotions_brought(flywheel: Invoke, opened: BenchmarkPool) -> None:
    tags = {"flywheel.training_batch": "b1", "flywheel.base_model": "m", "flywheel.stage": "grpo"}
    noon = datetime(2026, 3, 20, 12, tzinfo=UTC)
    for version, at in (("1", noon - timedelta(days=9)), ("2", noon)):
        promote(opened.engine, version=version, tags=tags, now=at, actor="ann", reason="better")
    count(opened, date(2026, 3, 15), agent="flywheel-agent-v1", tasks=100, successes=50)
    count(opened, date(2026, 3, 22), agent="flywheel-agent-v2", tasks=100, successes=80)
    said = flywheel("reports", "training", "--from", "2026-03-19", "--to", str(DAY)).output
    assert "1, 1 better, 0 worse" in said
    assert "+0.300" in said
    (row,) = [line for line in said.splitlines() if line.startswith("2026-03-20 12:00")]
    assert row.split()[2:6] == ["2", "1", "80.0%", "50.0%"]


def test_promotions_are_told_in_utc_wherever_the_database_is(
    flywheel: Invoke, opened: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime(2026, 3, 20, 23, 30, tzinfo=UTC)
    promote(opened.engine, version="1", tags={}, now=at, actor="ann", reason="better")
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    said = flywheel("reports", "training", "--from", "2026-03-19", "--to", str(DAY)).output
    assert "2026-03-20 23:30" in said


def test_who_read_a_report_is_in_the_audit(flywheel: Invoke, opened: BenchmarkPool) -> None:
    flywheel("reports", "feedback", "--day", str(DAY))
    (entry, *_) = list_audit(opened)
    assert (entry.principal, entry.action) == (getpass.getuser(), "statistics.read")


def test_without_an_argument_yesterday_is_told(flywheel: Invoke, opened: BenchmarkPool) -> None:
    said = flywheel("reports", "feedback").output
    assert said.splitlines()[0] == str(datetime.now(UTC).date() - timedelta(days=1))
