"""After an erasure nothing of the tenant can be found anywhere, and nothing of anybody else has changed."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flywheel.arbiter.audit_trail.contents import Erasure, read_content
from flywheel.arbiter.audit_trail.heads import read_head
from flywheel.arbiter.audit_trail.trail import newest
from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.collection.segments import Frame, read_segment, segment_bytes
from flywheel.errors import PoolError, ServiceAnswerError
from flywheel.pool import tenant_lines
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.tenants import salt_file
from flywheel.pool.batches import batch_members, export_batch, list_batches, make_batch
from flywheel.pool.erasure import TouchedModel, erase_tenant, find_tenant
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.exports import make_export
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import list_budgets
from flywheel.pool.retention import enforce_retention
from flywheel.pool.schemas import ANONYMIZED, COLD, VALIDATED, WARM
from flywheel.pool.tiers import place_warm, unchecked_days
from tests.pool.erasure.two_tenants import (
    CRITERIA,
    ERASED,
    LATER,
    NEXT_DAY,
    SECRET,
    account,
    content_of,
    database_rows,
    lines_of_erased,
    lines_of_other,
    others,
    places,
    run_stale,
    tasks,
)
from tests.pool.logs import NOON, write_segment
from tests.pool.test_retention import DAY, run_day


def test_nothing_of_the_tenant_is_found_anywhere(filled: BenchmarkPool) -> None:
    before = places(filled)
    assert {f"{what} in segments/a.segment" for what in ("name", "secret")} <= before
    tables = {place.rpartition(" ")[2] for place in before if " in table " in place}
    assert {"quarantine", "hot_points", "tasks", "task_outcomes", "audit_contents"} <= tables
    assert "name in verdicts/waits.segment" in before
    assert any("lake/" in place for place in before)
    assert any("training/b1" in place for place in before)
    erase_tenant(filled, ERASED, now=LATER)
    assert places(filled) == set()
    run_stale(filled)
    assert places(filled) == set()


@pytest.mark.parametrize("lake_url", ["s3"], indirect=True)
def test_a_tenant_is_erased_from_an_object_store(filled: BenchmarkPool, s3: Any) -> None:
    erase_tenant(filled, ERASED, now=LATER)
    bucket, _, prefix = filled.lake.url.removeprefix("s3://").partition("/")
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]]
    folder = filled.settings.home / "copied"
    for number, key in enumerate(keys):
        target = folder / f"{number}{Path(key).suffix}"
        target.parent.mkdir(exist_ok=True)
        s3.download_file(bucket, key, str(target))
    assert any(path.suffix == ".parquet" for path in folder.iterdir())
    assert places(filled) == set()


def test_nothing_of_other_tenants_changes(filled: BenchmarkPool) -> None:
    before = others(filled)
    assert all(before.values())
    segments = {path.name: segment_bytes(path) for path in filled.settings.segments_dir.iterdir()}
    written = {path.name: path.stat().st_mtime for path in filled.settings.segments_dir.iterdir()}
    members = {m.point_id: (m.phase, m.position) for m in batch_members(filled, "b1")}
    erase_tenant(filled, ERASED, now=LATER)
    assert others(filled) == before
    folder = filled.settings.segments_dir
    assert segment_bytes(folder / "b.segment") == segments["b.segment"]
    assert {path.name: path.stat().st_mtime for path in folder.iterdir()} == written
    frames = [frame.payload for frame in read_segment(folder / "a.segment") if isinstance(frame, Frame)]
    assert all(frame in segments["a.segment"] for frame in frames)
    assert len(frames) == 6 * 3 + len(lines_of_other())
    kept = {m.point_id: (m.phase, m.position) for m in batch_members(filled, "b1")}
    assert kept == {point_id: place for point_id, place in members.items() if point_id in kept}
    assert kept.keys() == members.keys() & {row["id"] for row in before[WARM]}


def test_statistics_count_what_is_left(filled: BenchmarkPool) -> None:
    alone = filled.get_agent_statistics("agent-b").by_task_type
    assert (filled.get_agent_statistics("agent-a").tasks, filled.get_agent_statistics("agent-c").tasks) == (12, 6)
    erase_tenant(filled, ERASED, now=LATER)
    assert (filled.get_agent_statistics("agent-a").tasks, filled.get_agent_statistics("agent-c").tasks) == (6, 0)
    assert filled.get_agent_statistics("agent-b").by_task_type == alone


def test_the_next_run_of_a_day_makes_its_account_anew_and_the_same_points(filled: BenchmarkPool) -> None:
    before, counted = others(filled), account(filled)
    report = erase_tenant(filled, ERASED, now=LATER)
    assert [stale.day for stale in stale_days(filled)] == list(report.days) == [DAY, NEXT_DAY]
    run_stale(filled)
    after = account(filled)
    assert counted["lines"] - after["lines"] == report.removed["segments"]
    assert (after["points"], after["waiting"], after["quarantined"]) == (12, 3, 1)
    remade = others(filled)
    assert [row["id"] for row in remade[WARM]] == [row["id"] for row in before[WARM]]
    first = {table: [row for row in rows if row["day"] == DAY] for table, rows in remade.items() if table != "hot"}
    assert first == {
        table: [row for row in rows if row["day"] == DAY] for table, rows in before.items() if table != "hot"
    }
    assert stale_days(filled) == ()


def test_the_report_counts_what_was_removed_and_names_the_batches(filled: BenchmarkPool) -> None:
    announced = find_tenant(filled, ERASED, now=LATER)
    found = places(filled)
    assert found
    report = erase_tenant(filled, ERASED, now=LATER)
    assert report.removed == announced.removed
    assert report.removed == {
        "waiting_spans": 0,
        "dead_letters": 0,
        "segments": 6 * 3 * 2 + len(lines_of_erased()),
        "tasks": 29,
        "task_outcomes": 2,
        "task_runs": 1,
        "verdicts": 3,
        "judge_opinions": 1,
        "quarantine": 8,
        VALIDATED: 12,
        ANONYMIZED: 12,
        WARM: 12,
        COLD: 4,
        "hot_points": 12,
        "training_batches": 12,
        "privacy_spending": 0,
    }
    assert (report.batches, report.requested_at, report.finished_at) == (("b1",), LATER, LATER)
    assert (report.models, report.registry) == (None, "no model registry was given")
    assert set(find_tenant(filled, ERASED, now=LATER).removed.values()) == {0}


def test_the_audit_trail_verifies_after_an_erasure_and_names_who_asked_for_it(filled: BenchmarkPool) -> None:
    erase_tenant(filled, ERASED, now=LATER, by="ann")
    report = verify_trail(filled.engine, heads=[read_head(filled.settings.audit_head)])
    assert (report.intact, report.verdicts, report.erased) == (True, 3, 3)
    with filled.engine.connect() as connection:
        said = read_content(newest(connection, limit=1)[0].content or b"")
    assert isinstance(said, Erasure)
    assert (said.by, said.erased) == ("ann", 3)


def test_what_was_spent_of_its_privacy_budget_goes_and_what_others_spent_stays(filled: BenchmarkPool) -> None:
    criteria = criteria_for(filled.settings, "curriculum", min_points=1, min_task_types=1, noise_epsilon=1.0)
    make_export(filled, criteria, export_id="e1", now=LATER)
    assert "hash in table privacy_spending" in places(filled)
    assert len(list_budgets(filled, now=LATER)) == 2
    assert erase_tenant(filled, ERASED, now=LATER).removed["privacy_spending"] == 1
    assert places(filled) == set()
    assert [held.epsilon_spent for held in list_budgets(filled, now=LATER)] == [1.0]


def test_a_dry_run_changes_nothing(filled: BenchmarkPool) -> None:
    before = {path: content_of(path) for path in filled.settings.home.rglob("*") if path.is_file()}
    rows = sorted(database_rows(filled))
    find_tenant(filled, ERASED, now=LATER)
    assert {path: content_of(path) for path in filled.settings.home.rglob("*") if path.is_file()} == before
    assert sorted(database_rows(filled)) == rows


def test_a_batch_says_how_many_points_it_lost_and_can_still_be_exported(filled: BenchmarkPool, tmp_path: Path) -> None:
    (before,) = list_batches(filled)
    erase_tenant(filled, ERASED, now=LATER)
    (batch,) = list_batches(filled)
    assert batch.criteria["erased"] == [{"at": LATER.isoformat(), "points": 12, "formerDigest": before.digest}]
    assert (batch.id, batch.size, sum(batch.task_types.values())) == ("b1", before.size - 12, before.size - 12)
    assert not (filled.settings.home / "training" / "b1" / "sft" / "batch").exists()
    manifest = json.loads((export_batch(filled, "b1", tmp_path) / "manifest.json").read_text())
    assert manifest["digest"] == batch.digest != before.digest
    exported = (tmp_path / "sft.jsonl").read_text() + (tmp_path / "grpo.jsonl").read_text()
    assert len(exported.splitlines()) == batch.size
    assert SECRET not in exported


def test_a_second_erasure_says_that_it_was_done(filled: BenchmarkPool) -> None:
    first = erase_tenant(filled, ERASED, now=LATER)
    versions = {table: filled.lake.version(table) for table in (VALIDATED, WARM)}
    again = erase_tenant(filled, ERASED, now=LATER + timedelta(days=1))
    assert (again.repeated, again.finished_at, again.removed) == (True, LATER, first.removed)
    assert {table: filled.lake.version(table) for table in (VALIDATED, WARM)} == versions
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM erasures").fetchone() == (1,)


def test_logs_that_arrive_later_are_new_data_and_can_be_erased_again(filled: BenchmarkPool) -> None:
    erase_tenant(filled, ERASED, now=LATER)
    write_segment(filled.settings, "d", tasks(ERASED, secret=SECRET))
    index_segments(filled, now=LATER)
    run_stale(filled)
    assert find_tenant(filled, ERASED, now=LATER).removed[WARM] == 6
    again = erase_tenant(filled, ERASED, now=LATER)
    assert (again.repeated, again.removed["segments"]) == (False, 18)
    assert places(filled) == set()


def test_a_file_that_is_no_segment_is_emptied_if_it_names_the_tenant(pool: BenchmarkPool) -> None:
    path = write_segment(pool.settings, "a", [])
    path.write_bytes(b'no segment, but "acme-erased"')
    index_segments(pool, now=NOON)
    erase_tenant(pool, ERASED, now=NOON)
    assert list(read_segment(path)) == []
    assert places(pool) == set()


def test_what_an_erasure_leaves_counts_as_checked_where_the_whole_was(filled: BenchmarkPool) -> None:
    anonymize_day(filled, NEXT_DAY)  # nobody looked at this day's points since
    erase_tenant(filled, ERASED, now=LATER)
    with filled.transaction() as connection:
        assert unchecked_days(connection) == frozenset()
        found = connection.execute("SELECT day, verified_digest IS NULL FROM days ORDER BY day").fetchall()
    assert found[-2:] == [(DAY, False), (NEXT_DAY, True)]
    assert place_warm(filled, DAY, now=LATER).rows == 6
    with pytest.raises(PoolError, match="the privacy check did not look at its points"):
        place_warm(filled, NEXT_DAY, now=LATER)


def test_a_day_whose_points_retention_removed_is_counted_anew_by_its_next_run(filled: BenchmarkPool) -> None:
    old = NOON + timedelta(days=92)
    enforce_retention(filled, now=old)
    before = others(filled)[COLD]
    erase_tenant(filled, ERASED, now=old)
    assert others(filled)[COLD] == before
    assert places(filled) == set()
    assert filled.get_agent_statistics("agent-c").tasks == 0
    run_stale(filled, now=old)
    enforce_retention(filled, now=old)
    assert others(filled)[COLD] == before
    assert (filled.get_agent_statistics("agent-a").tasks, filled.get_agent_statistics("agent-b").tasks) == (6, 6)


def test_points_under_another_salt_are_removed_by_their_ids_and_counted(filled: BenchmarkPool) -> None:
    from pydantic import SecretStr

    changed = filled.settings.model_copy(update={"tenant_salt": SecretStr("another")})
    lost = salt_file(filled.settings).rename(filled.settings.home.parent / "lost")
    report = erase_tenant(BenchmarkPool(filled.engine, filled.lake, changed), ERASED, now=LATER)
    lost.rename(salt_file(filled.settings))
    assert report.other_salt == 12
    assert report.batches == ("b1",)
    left = {place for place in places(filled) if not place.startswith("hash in lake/aggregates")}
    assert left == set()


def model(serves: bool) -> TouchedModel:
    return TouchedModel(
        name="flywheel-agent", version="3", stage="grpo", batch="b1", aliases=("champion",), serves=serves
    )


def test_models_are_named_and_a_registry_that_cannot_be_asked_is_asked_again(filled: BenchmarkPool) -> None:
    asked = []

    def silent(batches: tuple[str, ...]) -> tuple[TouchedModel, ...]:
        asked.append(batches)
        raise ServiceAnswerError("MLflow does not answer; look for b1")

    report = erase_tenant(filled, ERASED, now=LATER, models_of=silent)
    assert (asked, report.models, report.registry) == ([("b1",)], None, "MLflow does not answer; look for b1")
    again = erase_tenant(filled, ERASED, now=LATER, models_of=lambda _: (model(serves=True),))
    assert (again.repeated, again.models, again.registry) == (True, (model(serves=True),), "")
    assert erase_tenant(filled, ERASED, now=LATER, models_of=silent).models == (model(serves=True),)


def test_a_tenant_that_nobody_knows_leaves_the_pool_as_it_is(filled: BenchmarkPool) -> None:
    before = others(filled)
    report = erase_tenant(filled, "nobody", now=LATER)
    assert (set(report.removed.values()), report.days, report.batches, report.models) == ({0}, (), (), ())
    assert others(filled) == before
    assert stale_days(filled) == ()


def test_a_tenant_without_a_name_is_refused(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", [b'{"tenantId": ""}'])
    with pytest.raises(PoolError, match="without a name"):
        erase_tenant(pool, "", now=NOON)


def test_a_batch_that_was_made_of_its_points_alone_is_empty(pool: BenchmarkPool, tmp_path: Path) -> None:
    write_segment(
        pool.settings, "a", tasks(ERASED, secret=SECRET) + tasks(ERASED, agent="agent-b", secret=f"{SECRET}s")
    )
    index_segments(pool, now=LATER)
    run_day(pool, now=LATER)
    few = CRITERIA.model_copy(update={"max_sft_points": 6})
    make_batch(BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"batch": few})), "b1", now=LATER)
    assert erase_tenant(pool, ERASED, now=LATER).batches == ("b1",)
    (batch,) = list_batches(pool)
    assert (batch.size, batch.criteria["erased"][0]["points"]) == (0, 12)
    assert places(pool) == set()


@pytest.mark.parametrize(
    ("line", "held"),
    [
        (b'{"tenantId": "acme-erased"', True),
        (b'{"tenant": {"names": ["acme-erased"]}}', True),
        (b'{"tenant": "not acme-erased"}', False),
        (b'{"tenantId": "\\u0061cme-erased"}', True),
        (b"acme-erased", False),
    ],
)
def test_a_line_that_cannot_be_read_is_the_tenants_if_a_string_of_it_is_its_name(line: bytes, held: bool) -> None:
    assert tenant_lines.mentions(line, ERASED) is held
