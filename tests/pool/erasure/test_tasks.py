"""After an erasure of single tasks nothing of them can be found, and the tenant's other tasks are as they were."""

from datetime import timedelta
from typing import Any

import pytest

from flywheel.collection.segments import Frame, read_segment
from flywheel.errors import PoolError
from flywheel.pool.batches import batch_members, list_batches
from flywheel.pool.erasure import ErasureReport, erase_tenant, find_tenant
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.exports import make_export
from flywheel.pool.headers import key_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import list_budgets
from flywheel.pool.retention import enforce_retention
from flywheel.pool.rows import Row
from flywheel.pool.salt_rotation import finish_rotation, rotate_salt
from flywheel.pool.schemas import ANONYMIZED, COLD, POINT_COLUMNS, VALIDATED, WARM
from flywheel.pool.tenant_lines import TenantLines
from flywheel.pool.tenants import Tenant
from tests.pool.erasure.test_interrupted_erasure import KILLS
from tests.pool.erasure.two_tenants import (
    ERASED,
    LATER,
    NEXT_DAY,
    OTHER,
    SECRET,
    account,
    content_of,
    database_rows,
    others,
    run_stale,
)
from tests.pool.kills import KilledError, killing
from tests.pool.logs import NOON
from tests.pool.test_retention import DAY

POINTS = (f"{SECRET}-02-0", f"{SECRET}-03-1")
"""One task of each day that became a point."""
WANTED = (*POINTS, "wrong", "waits", "shared")
"""And one in quarantine, one that waits, and one that another tenant has as well."""


def erase(pool: BenchmarkPool, **options: Any) -> ErasureReport:
    return erase_tenant(pool, ERASED, now=LATER, tasks=WANTED, **options)


def traces(pool: BenchmarkPool) -> set[str]:
    """Where the id of a task that is a point, or the key of any but the shared one, is found."""
    needles = [*(task.encode() for task in POINTS), *(key_of(task) for task in WANTED[:-1])]
    files = {path.name: content_of(path) for path in pool.settings.home.rglob("*") if path.is_file()}
    found = {name for name, content in files.items() if any(needle in content for needle in needles)}
    return found | {table for table, row in database_rows(pool) if any(needle in row for needle in needles)}


def points(pool: BenchmarkPool) -> dict[str, list[Row]]:
    """Every point of the tables of the lake and of the hot tier but those of the tasks, which the first one tells."""
    tables = {
        table: [row for batch in pool.lake.read(table, columns=tuple(POINT_COLUMNS)) for row in batch.to_pylist()]
        for table in (VALIDATED, ANONYMIZED, WARM)
    }
    with pool.transaction() as connection:
        hot = connection.execute("SELECT id, hot_points.* FROM hot_points").fetchall()
    tables["hot"] = [{"id": row[0], "row": row} for row in hot]
    gone = {row["id"] for row in tables[VALIDATED] if row["task_id"] in POINTS}
    return {table: sorted((row for row in rows if row["id"] not in gone), key=repr) for table, rows in tables.items()}


def test_nothing_of_the_tasks_is_found_and_all_else_is_as_it_was(filled: BenchmarkPool) -> None:
    before, of_others = points(filled), others(filled)
    assert {"hot_points", "tasks", "task_outcomes", "a.segment", "c.segment"} <= traces(filled)
    assert {len(rows) for rows in before.values()} == {22}
    erase(filled)
    assert traces(filled) == set()
    assert points(filled) == before
    assert others(filled) == of_others
    run_stale(filled)
    assert traces(filled) == set()
    assert [row["id"] for row in points(filled)[WARM]] == [row["id"] for row in before[WARM]]


def test_lines_of_other_tasks_stay_byte_for_byte(filled: BenchmarkPool) -> None:
    def lines() -> list[bytes]:
        paths = sorted(filled.settings.segments_dir.iterdir())
        return [item.payload for path in paths for item in read_segment(path) if isinstance(item, Frame)]

    before = lines()
    report = erase(filled)
    gone = [line for line in before if any(f'"{task}"'.encode() in line for task in WANTED[:-1])]
    gone += [line for line in before if b'"taskId":"shared"' in line and OTHER.encode() not in line]
    assert lines() == [line for line in before if line not in gone]
    assert report.removed["segments"] == len(gone) == 3 + 1 + 3 + 3 + 1 + 2  # a duplicate is among them


def test_what_judges_said_of_the_tenants_answers_goes_with_any_of_its_tasks(filled: BenchmarkPool) -> None:
    erase(filled)
    with filled.transaction() as connection:
        assert connection.execute("SELECT tenant_id FROM judge_opinions").fetchall() == [(OTHER,)]


def test_the_report_counts_what_was_removed(filled: BenchmarkPool) -> None:
    announced = find_tenant(filled, ERASED, now=LATER, tasks=WANTED)
    report = erase(filled)
    assert report.removed == announced.removed
    assert {where: report.removed[where] for where in (VALIDATED, ANONYMIZED, WARM, "hot_points")} == {
        VALIDATED: 2,
        ANONYMIZED: 2,
        WARM: 2,
        "hot_points": 2,
    }
    assert (report.removed[COLD], report.removed["privacy_spending"], report.removed["task_outcomes"]) == (0, 0, 1)
    assert report.removed["quarantine"] == 4  # three logs of one task, and the shared one's that names no tenant
    assert (report.tasks, report.days, report.batches, report.ids) == (5, (DAY, NEXT_DAY), ("b1",), ())
    assert erase(filled).repeated
    whole = erase_tenant(filled, ERASED, now=LATER)
    assert (whole.repeated, whole.removed[WARM]) == (False, 10)


def test_batches_lose_the_copies_of_their_points(filled: BenchmarkPool) -> None:
    (before,) = list_batches(filled)
    ids = {row["id"] for batch in filled.lake.read(VALIDATED, columns=("id", "task_id")) for row in batch.to_pylist()}
    held = {member.point_id for member in batch_members(filled, "b1")}
    erase(filled)
    left = {row["id"] for batch in filled.lake.read(VALIDATED, columns=("id",)) for row in batch.to_pylist()}
    (batch,) = list_batches(filled)
    assert {member.point_id for member in batch_members(filled, "b1")} == held & left != held
    assert batch.digest != before.digest
    assert len(ids - left) == 2


def test_copies_of_points_that_retention_removed_are_found_by_their_task(filled: BenchmarkPool) -> None:
    enforce_retention(filled, now=NOON + timedelta(days=92))
    report = erase(filled)
    assert (report.batches, report.removed[WARM], report.removed["training_batches"] > 0) == (("b1",), 0, True)
    assert traces(filled) == set()


def test_aggregates_and_statistics_count_them_no_longer_once_their_days_have_run(filled: BenchmarkPool) -> None:
    erase(filled)
    assert (filled.get_agent_statistics("agent-a").tasks, filled.get_agent_statistics("agent-c").tasks) == (11, 5)
    run_stale(filled)
    assert account(filled)["points"] == 22
    assert sum(row for batch in filled.lake.read(COLD, columns=("tasks",)) for row in batch["tasks"].to_pylist()) == 22


def test_what_was_spent_of_the_tenants_privacy_budget_stays_spent(filled: BenchmarkPool) -> None:
    criteria = criteria_for(filled.settings, "curriculum", min_points=1, min_task_types=1, noise_epsilon=1.0)
    make_export(filled, criteria, export_id="e1", now=LATER)
    assert set(erase(filled).batches) == {"b1", "e1"}
    assert [held.epsilon_spent for held in list_budgets(filled, now=LATER)] == [1.0, 1.0]
    assert traces(filled) == set()


def test_an_erasure_of_tasks_that_is_killed_at_every_step_comes_to_the_same_end(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, announced = points(filled), find_tenant(filled, ERASED, now=LATER, tasks=WANTED)
    for owner, name in KILLS:
        for at_once in (True, False):
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, killing(getattr(owner, name), before=at_once))
                with pytest.raises(KilledError):
                    erase(filled)
    report = erase(filled)
    assert (report.removed, report.days, report.batches) == (announced.removed, announced.days, announced.batches)
    assert (report.finished_at, report.ids) == (LATER, ())
    assert traces(filled) == set()
    assert points(filled) == before
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*), count(finished_at) FROM erasures").fetchone() == (1, 1)


def test_one_that_was_begun_under_a_salt_is_gone_on_with_before_that_salt_is_forgotten(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("flywheel.pool.erasure.erase_batches", killing(list, before=True))
        with pytest.raises(KilledError):
            erase(filled)
    rotate_salt(filled, now=LATER, by="bob")
    run_stale(filled)
    with pytest.raises(PoolError, match="Run the erasures again"):
        finish_rotation(filled, now=LATER, by="bob")
    assert erase(filled).batches == ("b1",)
    assert finish_rotation(filled, now=LATER, by="bob").nothing
    assert traces(filled) == set()


@pytest.mark.parametrize(
    ("line", "held"),
    [
        (b'{"text": "order-1"}', True),
        (b'{"tenantId": "acme-erased", "text": ["order-1"]}', True),
        (b'{"tenantId": "umbrella", "text": "order-1"}', False),
        (b'{"tenantId": "acme-erased", "text": "order-11"}', False),
        (b'{"taskId": "order-1", "tenantId": "umbrella", "timestamp": "2026-03-02T12:00:00Z"}', False),
        (b'{"text": "order-1"', True),
    ],
)
def test_a_line_that_cannot_be_read_is_the_tasks_if_it_has_its_id_and_names_no_other_tenant(
    line: bytes, held: bool
) -> None:
    tenant = Tenant(id=ERASED, hashes=(), tasks=frozenset(["order-1"]))
    lines = TenantLines(tenant, tasks=frozenset(), only=frozenset([key_of("order-1")]))
    assert lines.hold(line, stray=True) is held


def test_a_task_of_another_tenant_or_without_an_id_is_not_erased(filled: BenchmarkPool) -> None:
    before = others(filled)
    report = erase_tenant(filled, ERASED, now=LATER, tasks=["umbrella-02-0", "nobodys"])
    assert (set(report.removed.values()), report.days) == ({0}, ())
    assert others(filled) == before
    with pytest.raises(PoolError, match="a task without an id"):
        erase_tenant(filled, ERASED, now=LATER, tasks=[POINTS[0], " "])
