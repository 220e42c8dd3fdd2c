"""``flywheel pool waiting``, and the watermark in ``flywheel pool status``."""

import getpass
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flywheel.collection import SegmentWriter
from flywheel.pool.access.audit import list_audit
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.logs import NOON, lines_of, task_logs, write_segment

NOW = datetime.now(UTC)


@pytest.fixture
def pool(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    """A task that has waited for three days and one that has for an hour."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as opened:
        for task, tenant, back in (("old", "acme", timedelta(days=3)), ("new", "globex", timedelta(hours=1))):
            write_segment(settings, task, task_logs(task, tenant=tenant)[:2])
            index_segments(opened, now=NOW - back)
        validate_day(opened, NOON.date(), now=NOW)
        yield opened


def listed(flywheel: Invoke, *arguments: str) -> list[str]:
    return [task["task_id"] for task in json.loads(flywheel("pool", "waiting", *arguments, "--json").output)]


def test_waiting_tasks_are_listed_by_tenant_age_and_limit(flywheel: Invoke, pool: BenchmarkPool) -> None:
    hashed = tenant_hash("acme", salt=salt_of(pool.settings))
    assert listed(flywheel) == ["old", "new"]
    assert listed(flywheel, "--tenant", "acme") == listed(flywheel, "--tenant", hashed) == ["old"]
    assert listed(flywheel, "--tenant", "acme", "--tenant", "globex") == ["old", "new"]
    assert listed(flywheel, "--tenant", "nobody") == []
    assert listed(flywheel, "--older-than", "2d") == ["old"]
    assert listed(flywheel, "--older-than", "59m") == ["old", "new"]
    result = flywheel("pool", "waiting", "--limit", "1")
    assert result.stderr == "1 are shown; --limit shows more\n"
    for word in ("old", hashed, "routing, execution", "evaluation", f"{NOW + timedelta(days=4):%Y-%m-%d %H:%M}"):
        assert word in result.stdout
    entry = list_audit(pool, principal=getpass.getuser(), action="waiting.read")[0]
    assert (entry.rows, entry.asked["command"].split()[1:], entry.asked["limit"]) == (1, ["pool", "waiting"], 1)


@pytest.mark.parametrize("span", ["2", "d", "-2d", "2w", "100000d"])
def test_what_is_no_time_span_is_refused(flywheel: Invoke, span: str) -> None:
    result = flywheel("pool", "waiting", f"--older-than={span}")
    assert result.exit_code == 2
    assert f"'{span}' is no time span; write 90m, 12h or 2d" in result.stderr


def test_the_longest_time_span_is_one(flywheel: Invoke, pool: BenchmarkPool) -> None:
    assert listed(flywheel, "--older-than", "99999d") == []


def test_the_status_says_up_to_when_logs_were_taken_in_and_how_far_each_day_is(
    flywheel: Invoke, pool: BenchmarkPool
) -> None:
    opened_at = NOW.replace(microsecond=0) - timedelta(minutes=20)
    collector = SegmentWriter(pool.settings.segments_dir, clock=lambda: opened_at)
    collector.append(lines_of(task_logs("t1"))[0])
    index_segments(pool, now=NOW)
    output = flywheel("pool", "status").output
    assert f"watermark: {opened_at:%Y-%m-%d %H:%M:%S} UTC, as of {NOW:%Y-%m-%d %H:%M} UTC, held back by" in output
    found = json.loads(flywheel("pool", "status", "--json").output)
    assert datetime.fromisoformat(found["watermark"]["at"]) == opened_at
    assert [(day["completeness"], day["waiting_tasks"]) for day in found["days"]] == [("waiting", 2)]
    collector.close()


def test_the_status_of_an_empty_pool_says_that_nobody_looked(flywheel: Invoke) -> None:
    assert "watermark: none, nobody has looked for segments yet" in flywheel("pool", "status").output


def test_where_nothing_waits_it_says_so(flywheel: Invoke) -> None:
    assert flywheel("pool", "waiting").output == "no task waits\n"
    assert flywheel("pool", "waiting", "--tenant", "nobody").output == "no task that was asked for waits\n"
