"""The pool asked from the command line."""

import getpass
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flywheel.pool.access.audit import list_audit
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.pool import BenchmarkPool
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.queries.points import FIRST_DAY, fill, noon, place_all

OLD, RECENT = FIRST_DAY, FIRST_DAY + timedelta(days=91)


@pytest.fixture
def opened(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    """Twelve points that are too old for single points, twelve recent ones."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as pool:
        fill(pool, [OLD, RECENT], tasks=12)
        place_all(pool, [OLD, RECENT], now=noon(RECENT))
        yield pool


def test_statistics_of_one_agent_or_of_all(flywheel: Invoke, opened: BenchmarkPool) -> None:
    one = json.loads(flywheel("pool", "statistics", "agent-a", "--task-type", "research", "--json").output)
    assert one["tasks"] == opened.get_agent_statistics("agent-a").by_task_type["research"].tasks
    every = json.loads(flywheel("pool", "statistics", "--by", "complexity", "--json").output)
    assert every["total"]["tasks"] == 24
    table = flywheel("pool", "statistics", "--by", "day").output
    assert str(OLD) in table
    assert table.splitlines()[-1].split()[:2] == ["all", "24"]
    failures = flywheel("pool", "statistics", "--failure")
    assert failures.stderr.startswith(f"{OLD}: cannot be answered as asked")


def test_points_as_a_table_name_the_days_that_have_none(flywheel: Invoke, opened: BenchmarkPool) -> None:
    found = flywheel("pool", "points", "--agent", "agent-b", "--limit", "2")
    assert found.stdout.count("agent-b") == 2
    assert f"{OLD}: too old for single points" in found.stderr


def test_where_there_is_no_such_point_it_is_said_in_words(flywheel: Invoke, opened: BenchmarkPool) -> None:
    assert flywheel("pool", "points", "--agent", "nobody").stdout == "the pool has no such point\n"


def test_times_are_taken_as_the_pool_writes_them(flywheel: Invoke, opened: BenchmarkPool) -> None:
    newest, *_ = flywheel("pool", "points", "--format", "jsonl", "--limit", "1").stdout.splitlines()
    at = json.loads(newest)["timestamp"]
    since = flywheel("pool", "points", "--format", "jsonl", "--since", at).stdout.splitlines()
    assert newest in since
    assert all(json.loads(line)["timestamp"] >= at for line in since)


def test_points_as_files_are_the_pools(flywheel: Invoke, opened: BenchmarkPool, tmp_path: Path) -> None:
    expected = sorted(opened.get_points(), key=lambda point: (point.timestamp, point.id))
    lines = flywheel("pool", "points", "--order", "oldest", "--format", "jsonl").stdout.splitlines()
    assert [decode_point(line) for line in lines] == expected
    for form in ("arrow", "parquet"):
        path = tmp_path / f"points.{form}"
        flywheel("pool", "points", "--order", "oldest", "--format", form, "--output", str(path))
        table = pq.read_table(path) if form == "parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
        assert [decode_point(payload) for payload in table["payload"].to_pylist()] == expected


def test_quality_exits_1_until_every_target_is_met(flywheel: Invoke, opened: BenchmarkPool) -> None:
    for day in (OLD, RECENT):
        anonymize_day(opened, day)
    missed = flywheel("pool", "quality")
    assert missed.exit_code == 1
    assert "MISSED  0 privacy violations are open and 2 days unverified" in missed.output
    for day in (OLD, RECENT):
        find_violations(opened, day)
    met = flywheel("pool", "quality", "--json")
    assert met.exit_code == 0
    assert json.loads(met.output)["passed"]
    none = flywheel("pool", "quality", "--from", "2020-01-01", "--to", "2020-01-02")
    assert (none.exit_code, "no day from 2020-01-01 to 2020-01-02 was validated" in none.stderr) == (1, True)


def test_what_the_operator_reads_is_in_the_audit(flywheel: Invoke, opened: BenchmarkPool, tmp_path: Path) -> None:
    flywheel("pool", "points", "--agent", "agent-b", "--limit", "2")
    path = tmp_path / "points.jsonl"
    flywheel("pool", "points", "--min-quality", "0.5", "--format", "jsonl", "--output", str(path))
    flywheel("pool", "statistics", "agent-a", "--task-type", "research")
    flywheel("pool", "quality", "--from", str(OLD))
    flywheel("pool", "batches")
    flywheel("pool", "status")
    read = list(reversed(list_audit(opened, principal=getpass.getuser())))
    assert [(entry.action, entry.rows) for entry in read] == [
        ("points.read", 2),
        ("points.read", None),
        ("statistics.read", 1),
        ("overview.read", 1),
        ("batches.read", 0),
        ("overview.read", 2),
    ]
    asked = {"agents": ["agent-b"], "command": "main pool points", "format": "table", "order": "recent", "limit": 2}
    assert read[0].asked == asked
    assert (read[1].asked["min_quality"], read[1].asked["output"]) == (0.5, str(path))
    assert read[2].asked["agent"] == "agent-a"
