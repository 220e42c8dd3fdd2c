"""Exports made of a real pool: thresholds, marks, splits, digests."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from flywheel.errors import PoolError
from flywheel.pool.batches import Batch, batch_members, list_batches, make_batch
from flywheel.pool.export_choice import ExportCriteria, criteria_for
from flywheel.pool.exports import make_export, preview_export
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch
from flywheel.pool.schemas import WARM
from flywheel.pool.splits import leaked_tasks
from flywheel.settings import BatchSettings, Phase, PhaseThreshold, Settings
from flywheel.tasks.catalog import environment_of, load_source
from flywheel.tasks.source import Split
from tests.pool.filling import DAY, LATER, fill, some_tasks
from tests.pool.logs import NOON, task_logs

ROW = PhaseThreshold(points=6, quality=0.8, max_age_days=90, task_types=2)
PHASES: tuple[Phase, ...] = ("sft", "turn-level-rl", "grpo", "curriculum")


@pytest.fixture
def pool(settings: Settings) -> BenchmarkPool:
    small = BatchSettings(sft=ROW, turn_level_rl=ROW, grpo=ROW, curriculum=ROW, max_sft_points=6, max_grpo_points=6)
    return BenchmarkPool.open(settings.model_copy(update={"batch": small}))


def asked(pool: BenchmarkPool, phase: Phase = "sft", **changes: Any) -> ExportCriteria:
    return criteria_for(pool.settings, phase, **changes)


def exported(pool: BenchmarkPool, criteria: ExportCriteria, *, export_id: str, now: datetime) -> Batch:
    return make_export(pool, criteria, export_id=export_id, now=now).batch


def ids_of(pool: BenchmarkPool, batch_id: str) -> set[str]:
    return {member.point_id for member in batch_members(pool, batch_id)}


def test_an_empty_pool_exports_nothing_and_says_what_is_missing(pool: BenchmarkPool) -> None:
    plan = preview_export(pool, asked(pool), now=LATER)
    assert plan.batch is None
    assert plan.lacking[0] == "0 of 6 new points with quality ≥ 0.8 of the last 90 days for sft"
    with pytest.raises(PoolError, match="export e1 cannot be made yet: 0 of 6 new points"):
        exported(pool, asked(pool), export_id="e1", now=LATER)
    assert list_batches(pool) == ()


@pytest.mark.parametrize("phase", PHASES)
def test_an_export_is_described_whole(pool: BenchmarkPool, phase: Phase) -> None:
    fill(pool, "a", some_tasks(16))
    batch = exported(pool, asked(pool, phase), export_id="e1", now=LATER)
    assert batch.points == {phase: 12}
    assert batch.task_types == {"research": 4, "tool-calling": 8}
    assert batch.outcomes == {"success": 12}
    assert sum(batch.splits.values()) == sum(batch.complexities.values()) == sum(batch.agents.values()) == 12
    assert batch.quality[phase] == {"mean": pytest.approx(0.95), "min": 0.95, "max": 0.95}
    assert (batch.first_at, batch.last_at) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=15))
    assert batch.criteria["lake_version"] == pool.lake.version(WARM)
    assert batch.criteria["watermark"] == LATER.isoformat()
    assert batch.criteria["min_quality"] == 0.8
    assert list_batches(pool) == (batch,)
    assert leaked_tasks(pool, "e1") == ()


def test_points_that_did_not_pass_the_privacy_check_are_not_exported(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16), check=False)
    with pytest.raises(PoolError, match="the privacy check of 1 days with points has not run"):
        exported(pool, asked(pool), export_id="e1", now=LATER)


def test_a_halted_pool_exports_nothing_new_but_an_export_stays_as_it_is(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    first = exported(pool, asked(pool), export_id="e1", now=LATER)
    with pool.transaction() as connection:
        connection.execute("INSERT INTO halts (day, reason, opened_at) VALUES (%s, 'a phone number', %s)", (DAY, LATER))
    plan = preview_export(pool, asked(pool, "grpo"), now=LATER)
    assert plan.lacking[0].startswith("the pool is halted by 2026-03-02")
    with pytest.raises(PoolError, match="e2 cannot be made yet: the pool is halted"):
        exported(pool, asked(pool, "grpo"), export_id="e2", now=LATER)
    assert exported(pool, asked(pool), export_id="e1", now=LATER) == first


def test_a_dry_run_marks_nothing_and_tells_the_digest(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    first, second = (preview_export(pool, asked(pool), now=LATER).batch for _ in range(2))
    made = exported(pool, asked(pool), export_id="e1", now=LATER)
    assert first is not None
    assert second is not None
    assert first.digest == second.digest == made.digest


def test_the_same_criteria_on_the_same_lake_give_the_same_batch_again(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    first = exported(pool, asked(pool), export_id="e1", now=LATER)
    release_batch(pool, "e1", because="the cluster was lost", now=LATER)
    second = exported(pool, asked(pool), export_id="e2", now=LATER + timedelta(hours=1))
    assert (second.digest, second.splits) == (first.digest, first.splits)
    assert ids_of(pool, "e1") == ids_of(pool, "e2")


def test_another_split_is_another_digest(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    plain, split = (preview_export(pool, asked(pool, heldout_fraction=share), now=LATER).batch for share in (0.1, 0.5))
    assert plain is not None
    assert split is not None
    assert plain.digest != split.digest


def test_an_export_that_exists_is_returned_only_for_its_own_criteria(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    first = exported(pool, asked(pool), export_id="e1", now=LATER)
    assert exported(pool, asked(pool), export_id="e1", now=LATER + timedelta(days=1)) == first
    with pytest.raises(PoolError, match="e1 exists and was made with other criteria"):
        exported(pool, asked(pool, "grpo"), export_id="e1", now=LATER)


def test_a_point_is_marked_once_per_phase_and_free_for_the_others(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    for phase in PHASES:
        exported(pool, asked(pool, phase), export_id=phase, now=LATER)
    assert ids_of(pool, "sft") == ids_of(pool, "curriculum")
    assert preview_export(pool, asked(pool), now=LATER).batch is None
    fill(pool, "b", some_tasks(16, prefix="new"))
    exported(pool, asked(pool), export_id="e2", now=LATER)
    assert not ids_of(pool, "sft") & ids_of(pool, "e2")


def test_two_exports_at_once_mark_no_point_twice(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(32))
    few = asked(pool, min_points=6, max_points=6, min_task_types=1)

    def export(number: int) -> set[str]:
        exported(pool, few, export_id=f"e{number}", now=LATER)
        return ids_of(pool, f"e{number}")

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(export, range(4)))
    assert [len(ids) for ids in found] == [6] * 4
    assert len(set().union(*found)) == 24


def test_failures_are_added_by_choice(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    without = preview_export(pool, asked(pool, "grpo"), now=LATER).batch
    added = preview_export(pool, asked(pool, "grpo", include_failures=True, max_points=20), now=LATER).batch
    assert without is not None
    assert added is not None
    assert without.outcomes == {"success": 12}
    assert added.outcomes == {"success": 12, "failure": 4}
    assert added.quality["grpo"]["min"] == 0.3


def test_near_duplicates_are_left_out_and_counted(pool: BenchmarkPool) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    logs = some_tasks(16)
    for number in range(3):
        said = [{"role": "user", "content": f"{words} {number}"}, {"role": "assistant", "content": "done"}]
        score = 0.9 + number / 100
        logs += task_logs(f"copy{number}", at=NOON + timedelta(hours=1), messages=said, overallScore=score)
    fill(pool, "a", logs)
    cleaned = exported(pool, asked(pool, max_points=20), export_id="e1", now=LATER)
    kept = preview_export(pool, asked(pool, "grpo", max_points=20, remove_near_duplicates=False), now=LATER).batch
    assert kept is not None
    assert (cleaned.size, cleaned.left_out["near_duplicates"]) == (13, 2)
    assert (kept.size, kept.left_out["near_duplicates"]) == (15, 0)
    assert "bench:copy2" in {member.source_task for member in batch_members(pool, "e1")}


def test_reinforcement_learning_keeps_the_different_answers_to_one_prompt(pool: BenchmarkPool) -> None:
    asked_for = {"role": "user", "content": " ".join(f"word{number}" for number in range(60))}
    logs = some_tasks(16)
    for name, answer, worked in (
        ("right", "the first way", True),
        ("same", "the first way", True),
        ("other", "another way of it", True),
        ("wrong", "the first way", False),
    ):
        said = [asked_for, {"role": "assistant", "content": answer}]
        score: dict[str, Any] = {} if worked else {"success": False, "overallScore": 0.3}
        logs += task_logs(name, at=NOON + timedelta(hours=1), source="bench:one", messages=said, **score)
    fill(pool, "a", logs)
    batch = exported(pool, asked(pool, "grpo", include_failures=True, max_points=30), export_id="e1", now=LATER)
    assert sum(member.source_task == "bench:one" for member in batch_members(pool, "e1")) == 3
    assert batch.left_out["near_duplicates"] == 1


def test_points_without_a_conversation_are_left_out_and_counted(pool: BenchmarkPool) -> None:
    asked_again = {"role": "user", "content": "and then?"}
    unanswered = [asked_again, {"role": "assistant", "content": "done"}, asked_again]
    fill(pool, "a", [*some_tasks(16), *task_logs("mute", messages=unanswered)])
    batch = exported(pool, asked(pool, max_points=20), export_id="e1", now=LATER)
    assert (batch.size, batch.left_out["unusable"]) == (12, 1)


def test_a_task_without_a_benchmark_is_split_by_tenant_and_name(pool: BenchmarkPool) -> None:
    logs = [log for n in range(12) for log in task_logs(f"own{n}", taskType="research" if n % 2 else "tool-calling")]
    for log in logs:
        log.pop("source", None)
    fill(pool, "a", logs)
    exported(pool, asked(pool), export_id="e1", now=LATER)
    for member in batch_members(pool, "e1"):
        tenant, _, task = member.source_task.partition("/")
        assert len(tenant) == 64
        assert task.startswith("own")


def test_an_export_without_points_to_train_on_is_refused(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    plan = preview_export(pool, asked(pool, heldout_fraction=0.999, validation_fraction=0), now=LATER)
    assert plan.lacking == ("no task to train on: of its 12 tasks 12 for held-out",)


def test_every_point_of_a_task_is_in_one_split_and_held_out_tasks_stay_so(pool: BenchmarkPool) -> None:
    fill(pool, "a", [log for agent in "abc" for log in renamed(some_tasks(16), agent)])
    half = asked(pool, heldout_fraction=0.5, max_points=60)
    exported(pool, half, export_id="e1", now=LATER)
    splits = {member.source_task: member.split for member in batch_members(pool, "e1")}
    assert all(splits[member.source_task] == member.split for member in batch_members(pool, "e1"))
    held_out = {task for task, split in splits.items() if split == "held-out"}
    assert 0 < len(held_out) < len(splits)
    release_batch(pool, "e1", because="a test", now=LATER)
    none = asked(pool, "grpo", heldout_fraction=0, validation_fraction=0, max_points=60)
    exported(pool, none, export_id="e2", now=LATER)
    again = {member.source_task for member in batch_members(pool, "e2") if member.split == "held-out"}
    assert again == held_out
    assert leaked_tasks(pool, "e2") == ()


def test_the_leakage_check_asks_the_ledger(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    exported(pool, asked(pool, heldout_fraction=0.5), export_id="e1", now=LATER)
    exported(pool, asked(pool, "grpo"), export_id="e2", now=LATER)
    with pool.transaction() as connection:
        connection.execute("UPDATE batch_points SET split = 'train' WHERE batch_id = 'e2' AND split = 'held-out'")
    held_out = {member.source_task for member in batch_members(pool, "e1") if member.split == "held-out"}
    assert set(leaked_tasks(pool, "e2")) == held_out
    assert leaked_tasks(pool, "e1") == ()


def test_training_takes_no_task_that_an_export_held_out(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(40))
    exported(pool, asked(pool, "curriculum", heldout_fraction=0.5, max_points=40), export_id="e1", now=LATER)
    held_out = {member.source_task for member in batch_members(pool, "e1") if member.split == "held-out"}
    make_batch(pool, "b1", now=LATER)
    assert held_out
    assert not held_out & {member.source_task for member in batch_members(pool, "b1")}
    assert leaked_tasks(pool, "b1") == ()


def test_a_plan_counts_held_out_tasks_that_were_trained_on(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(40))
    make_batch(pool, "b1", now=LATER)
    plan = preview_export(pool, asked(pool, "curriculum", heldout_fraction=0.5, max_points=40), now=LATER)
    trained = {member.source_task for member in batch_members(pool, "b1")}
    assert 0 < plan.trained_before < len(trained)


def test_what_the_benchmark_holds_out_is_not_for_training(pool: BenchmarkPool) -> None:
    source = load_source(pool.settings)
    some = [task for split in Split for task in [t for t in source.tasks() if t.split is split][:6]]
    logs = []
    for number, task in enumerate(some):
        kind = "research" if number % 2 else "tool-calling"
        logs += task_logs(f"t{number}", source=task.id, taskType=kind)
    fill(pool, "a", logs)
    exported(pool, asked(pool, heldout_fraction=0, validation_fraction=0), export_id="e1", now=LATER)
    names = {Split.TRAIN: "train", Split.VALIDATION: "validation", Split.HELDOUT: "held-out"}
    splits = {member.source_task: member.split for member in batch_members(pool, "e1")}
    assert len(splits) == 12
    assert splits == {task: names[source.by_id(task).split] for task in splits}


def test_what_a_configured_environment_holds_out_is_not_for_training(pool: BenchmarkPool) -> None:
    tasks = pool.settings.tasks.model_copy(update={"sources": ("code-repair",)})
    pool = BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"tasks": tasks}))
    environment = environment_of("code-repair", tasks)
    logs = [
        log
        for number, task in enumerate(environment.tasks())
        for log in task_logs(f"t{number}", source=task.id, taskType="research" if number % 2 else "tool-calling")
    ]
    fill(pool, "a", logs)
    exported(pool, asked(pool, heldout_fraction=0, validation_fraction=0), export_id="e1", now=LATER)
    names = {Split.TRAIN: "train", Split.VALIDATION: "validation", Split.HELDOUT: "held-out"}
    splits = {member.source_task: member.split for member in batch_members(pool, "e1")}
    assert set(splits.values()) == set(names.values())
    assert splits == {task: names[environment.by_id(task).split] for task in splits}
    assert leaked_tasks(pool, "e1") == ()


def test_an_export_is_no_training_batch(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    exported(pool, asked(pool), export_id="e1", now=LATER)
    with pytest.raises(PoolError, match="e1 is an export for sft, not a training batch"):
        make_batch(pool, "e1", now=LATER)


def test_points_outside_the_time_range_are_left_out(pool: BenchmarkPool) -> None:
    fill(pool, "a", some_tasks(16))
    only = PointFilter(since=NOON + timedelta(minutes=5), until=NOON + timedelta(minutes=15))
    batch = exported(pool, asked(pool, only=only), export_id="e1", now=LATER)
    assert (batch.first_at, batch.last_at) == (NOON + timedelta(minutes=5), NOON + timedelta(minutes=14))


def renamed(logs: list[Any], agent: str) -> list[Any]:
    """The same benchmark tasks, done again by another agent in other words."""
    made = []
    for log in logs:
        changed = {**log, "taskId": f"{log['taskId']}-{agent}"}
        for field in ("selectedAgentId", "agentId"):
            if field in log:
                changed[field] = f"agent-{agent}"
        if "messages" in log:
            answer = f"agent {agent} did {log['taskId']}"
            changed["messages"] = [log["messages"][0], {"role": "assistant", "content": answer}]
        made.append(changed)
    return made
