import json
from datetime import timedelta
from pathlib import Path

import pytest

from flywheel.errors import PoolError
from flywheel.pool.batches import batch_members, batch_overlap, export_batch, list_batches, make_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import PhaseReadiness, Readiness, lacking_now, missing, readiness
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES
from flywheel.pool.splits import leaked_tasks
from flywheel.pool.tiers import place_warm
from flywheel.records import decode_point
from flywheel.settings import BatchSettings, PhaseThreshold, Settings
from flywheel.tasks.catalog import environment_of, load_source
from flywheel.tasks.source import Split
from tests.pool.filling import DAY, LATER, fill, some_tasks
from tests.pool.logs import NOON, task_logs

ROW = PhaseThreshold(points=4, quality=0.5, max_age_days=90, task_types=1)
CRITERIA = BatchSettings(
    sft=PhaseThreshold(points=6, quality=0.8, max_age_days=90, task_types=2),
    grpo=ROW,
    max_sft_points=6,
    max_grpo_points=5,
)


@pytest.fixture
def pool(settings: Settings) -> BenchmarkPool:
    return BenchmarkPool.open(settings.model_copy(update={"batch": CRITERIA}))


def test_what_is_missing_is_said_in_numbers(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(4), check=False)
    assert missing(readiness(pool, now=LATER), CRITERIA) == (
        "3 of 6 new points with quality ≥ 0.8 for SFT",
        "0 of 4 new points with quality ≥ 0.5 for GRPO",
        "the privacy check of 1 days with points has not run",
    )
    with pytest.raises(PoolError, match="batch b1 cannot be made yet: 3 of 6 new points"):
        make_batch(pool, "b1", now=LATER)


def test_nothing_is_missing_when_every_threshold_is_met() -> None:
    phase = PhaseReadiness(points=10, task_types=3, agents=1)
    ready = Readiness(sft=phase, grpo=phase, clean_fraction=0.95, privacy_violations=0, unverified_days=0)
    assert missing(ready, CRITERIA) == ()


def test_an_empty_pool_lacks_everything(pool: BenchmarkPool) -> None:
    assert missing(readiness(pool, now=LATER), CRITERIA)[0] == "0 of 6 new points with quality ≥ 0.8 for SFT"


def test_the_phases_of_a_batch_share_no_task_and_keep_to_their_criteria(pool: BenchmarkPool, tmp_path: Path) -> None:
    fill(pool, "a", some_tasks(20))
    batch = make_batch(pool, "b1", now=LATER)
    folder = export_batch(pool, "b1", tmp_path / "batch")
    sft, grpo = (
        [decode_point(line) for line in (folder / f"{phase}.jsonl").read_bytes().splitlines()]
        for phase in ("sft", "grpo")
    )
    assert (len(sft), len(grpo), batch.size) == (6, 5, 11)
    assert all(point.execution.success and point.evaluation.overall_score >= 0.8 for point in sft)
    assert any(not point.execution.success for point in grpo)
    assert not {point.task.source for point in sft} & {point.task.source for point in grpo}
    assert batch_overlap(pool, "b1") == ()
    assert all(len(point.tenant_id) == 64 for point in (*sft, *grpo))
    for line in (folder / "sft.jsonl").read_bytes().splitlines():
        assert line.endswith(b',"exportedAt":"2026-03-03T12:00:00Z","trainingBatchId":"b1"}')


def test_the_manifest_names_what_trained_which_batch(pool: BenchmarkPool, tmp_path: Path) -> None:
    fill(pool, "a", some_tasks(20))
    batch = make_batch(pool, "b1", now=LATER)
    manifest = json.loads((export_batch(pool, "b1", tmp_path) / "manifest.json").read_text())
    members = batch_members(pool, "b1")
    assert manifest["digest"] == batch.digest
    assert manifest["point_ids"]["sft"] == [member.point_id for member in members if member.phase == "sft"]
    assert list_batches(pool) == (batch,)


def test_the_same_id_returns_the_same_batch_though_the_pool_grew(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(20))
    first = make_batch(pool, "b1", now=LATER)
    fill(pool, "b", some_tasks(20, prefix="new"))
    assert make_batch(pool, "b1", now=LATER + timedelta(days=1)) == first


@pytest.mark.parametrize("lake_url", ["folder", "s3"], indirect=True)
def test_a_batch_outlives_the_days_it_was_made_of(pool: BenchmarkPool, tmp_path: Path) -> None:
    fill(pool, "a", some_tasks(20))
    make_batch(pool, "b1", now=LATER)
    before = export_batch(pool, "b1", tmp_path / "before")
    fill(pool, "b", some_tasks(20)[:30:3] + some_tasks(3, prefix="new"))
    place_warm(pool, DAY, now=NOON + timedelta(days=200))
    after = export_batch(pool, "b1", tmp_path / "after")
    for name in ("sft.jsonl", "grpo.jsonl", "manifest.json"):
        assert (before / name).read_bytes() == (after / name).read_bytes()


def test_a_point_serves_a_phase_once(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(20))
    make_batch(pool, "b1", now=LATER)
    used = {(member.phase, member.point_id) for member in batch_members(pool, "b1")}
    fill(pool, "b", some_tasks(20, prefix="new"))
    make_batch(pool, "b2", now=LATER)
    assert not used & {(member.phase, member.point_id) for member in batch_members(pool, "b2")}


def test_points_that_were_changed_are_not_exported(pool: BenchmarkPool, tmp_path: Path) -> None:
    fill(pool, "a", some_tasks(20))
    make_batch(pool, "b1", now=LATER)
    pool.replace(BATCHES, "b1", [], schema=arrow_schema(BATCH_COLUMNS), key="batch_id")
    with pytest.raises(PoolError, match="0 points of batch b1"):
        export_batch(pool, "b1", tmp_path)


def test_an_id_that_could_leave_its_partition_is_refused(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="cannot name a batch"):
        make_batch(pool, "b1' OR '1'='1", now=LATER)


def test_a_failed_read_is_not_taken_for_an_empty_pool(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(4))
    log = Path(pool.lake.table_url("data_points")) / "_delta_log" / "00000000000000000000.json"
    log.write_text("damaged")
    with pytest.raises(PoolError, match=r"data_points at .* cannot be read"):
        readiness(pool, now=LATER)


def test_failures_come_on_top_of_what_grpo_counts(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(12))
    assert readiness(pool, now=LATER).grpo.points == 3
    anything = CRITERIA.model_copy(update={"grpo": ROW.model_copy(update={"quality": 0.0})})
    counting = BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"batch": anything}))
    assert readiness(counting, now=LATER).grpo.points == 5


def test_what_the_benchmark_keeps_from_training_and_what_it_does_not_know_is_not_trained_on(
    pool: BenchmarkPool,
) -> None:
    source = load_source(pool.settings)
    kept = [
        next(task.id for task in source.tasks() if task.split is split) for split in (Split.HELDOUT, Split.VALIDATION)
    ]
    own = next(task.id for task in source.tasks() if task.split is Split.TRAIN)
    logs = some_tasks(20)
    for task in (*kept, own, f"{source.name}:no_such_task"):
        logs += task_logs(task, at=NOON + timedelta(hours=1), source=task)
    fill(pool, "a", logs)
    make_batch(pool, "b1", now=LATER)
    trained = {member.source_task for member in batch_members(pool, "b1")}
    assert {task for task in trained if task.startswith(f"{source.name}:")} == {own}
    assert leaked_tasks(pool, "b1") == ()
    with pool.transaction() as connection:
        connection.execute("UPDATE batch_points SET source_task = %s WHERE source_task = %s", (kept[0], own))
    assert leaked_tasks(pool, "b1") == (kept[0],)


def test_points_that_cannot_be_trained_on_give_way_to_others(pool: BenchmarkPool) -> None:
    asked, answered = {"role": "user", "content": "and then?"}, {"role": "assistant", "content": "done"}
    broken = {"role": "assistant", "toolCalls": [{"name": "f", "arguments": "{"}]}
    logs = some_tasks(20) + task_logs("mute", at=NOON + timedelta(hours=1), messages=[asked])
    for name, messages in {"open": [asked, answered, asked], "broken": [asked, broken]}.items():
        logs += task_logs(name, at=NOON + timedelta(hours=1), messages=messages)
    fill(pool, "a", logs)
    batch = make_batch(pool, "b1", now=LATER)
    trained = {member.source_task for member in batch_members(pool, "b1")}
    assert not trained & {"bench:mute", "bench:open", "bench:broken"}
    assert (batch.points, batch.left_out) == ({"sft": 6, "grpo": 5}, {"unusable": 2})


def test_no_run_starts_for_points_that_only_seem_to_be_enough(pool: BenchmarkPool) -> None:
    logs = some_tasks(14)
    for log in logs:
        if log["taskId"] == "t1" and "messages" in log:
            log["messages"] = [*log["messages"], {"role": "user", "content": "and then?"}]
    fill(pool, "a", logs)
    assert missing(readiness(pool, now=LATER), CRITERIA) == ()
    assert lacking_now(pool, now=LATER) == ("3 of 4 new points with quality ≥ 0.5 for GRPO",)


def test_tasks_of_environments_that_the_training_loop_cannot_verify_are_in_no_batch(pool: BenchmarkPool) -> None:
    others = [
        log
        for number, task in enumerate(environment_of("code-repair", pool.settings.tasks).tasks())
        for log in task_logs(f"other{number}", source=task.id)
    ]
    fill(pool, "a", [*some_tasks(20), *others])
    make_batch(pool, "b1", now=LATER)
    sources = {member.source_task for member in batch_members(pool, "b1")}
    assert sources
    assert not [source for source in sources if source.startswith("code-repair:")]
