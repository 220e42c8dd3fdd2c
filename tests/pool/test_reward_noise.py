"""Exports whose rewards have noise, from the choice to the files: what crosses, what stays true, what is spent."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flywheel.errors import PoolError
from flywheel.pool import exports
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.batches import batch_members, list_batches
from flywheel.pool.export_choice import ExportCriteria, criteria_for
from flywheel.pool.export_files import Format, write_export
from flywheel.pool.exports import make_export, preview_export
from flywheel.pool.metrics import render_metrics
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.privacy_budget import Budget, list_budgets
from flywheel.pool.releases import release_batch
from flywheel.pool.schemas import WARM
from flywheel.pool.settings import AnonymizationSettings, PrivacySettings
from flywheel.records import DataPoint, decode_point
from flywheel.settings import BatchSettings, Phase, PhaseThreshold, Settings
from tests.pool.filling import LATER, fill
from tests.pool.logs import NOON, Log, task_logs

ROW = PhaseThreshold(points=4, quality=0.0, max_age_days=90)
SMALL = BatchSettings(sft=ROW, turn_level_rl=ROW, grpo=ROW, curriculum=ROW)
LIMITS = PrivacySettings(epsilon=6.0)
NOISED = AnonymizationPolicy(add_noise_to_rewards=True, noise_magnitude=0.5)
TENANTS = ("acme", "globex")
MARKED = 0.8125
"""A score that only evaluations hold, and a double whose digits show it anywhere in a file."""


def turn(number: int) -> dict[str, Any]:
    terms = dict.fromkeys(("informationGain", "formatCorrectness", "taskProgress", "safetyScore"), MARKED)
    return {"turnNumber": number, **terms, "turnReward": MARKED, "toolCalled": f"tool-{number}"}


def logs_of(tenants: tuple[str, ...]) -> list[Log]:
    """Eight tasks of each tenant, with one, two or three turns; every number of their evaluation is the marked one."""
    logs: list[Log] = []
    for tenant in tenants:
        for number in range(8):
            routed, executed, evaluated = task_logs(
                f"{tenant}-{number}",
                tenant=tenant,
                at=NOON + timedelta(minutes=number),
                taskType="research" if number % 3 else "tool-calling",
                tokenEfficiency=MARKED,
            )
            evaluated |= {
                "overallScore": MARKED,
                "rubricScores": dict.fromkeys(evaluated["rubricScores"], MARKED),
                "qualityGates": [{**gate, "score": MARKED} for gate in evaluated["qualityGates"]],
                "turnData": [turn(1 + index) for index in range(1 + number % 3)],
            }
            logs += [routed, executed, evaluated]
    return logs


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"batch": SMALL, "privacy": LIMITS, "anonymization": under(NOISED)})


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        fill(opened, "a", logs_of(TENANTS))
        yield opened


def under(default: AnonymizationPolicy, **tenants: AnonymizationPolicy) -> AnonymizationSettings:
    return AnonymizationSettings(policies=AnonymizationPolicies(default=default, tenants=tenants))


def with_privacy(pool: BenchmarkPool, **changes: Any) -> BenchmarkPool:
    changed = pool.settings.privacy.model_copy(update=changes)
    return BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"privacy": changed}))


def with_policies(pool: BenchmarkPool, default: AnonymizationPolicy, **tenants: AnonymizationPolicy) -> BenchmarkPool:
    changed = pool.settings.model_copy(update={"anonymization": under(default, **tenants)})
    return BenchmarkPool(pool.engine, pool.lake, changed)


def asked(pool: BenchmarkPool, phase: Phase = "grpo", **changes: Any) -> ExportCriteria:
    return criteria_for(pool.settings, phase, **{"remove_near_duplicates": False, "max_points": 16, **changes})


def copied(pool: BenchmarkPool, batch_id: str) -> list[DataPoint]:
    read = pool.lake.read("training_batches", columns=("payload", "position"), partitions=[batch_id])
    rows = sorted((row for batch in read for row in batch.to_pylist()), key=lambda row: row["position"])
    return [decode_point(row["payload"]) for row in rows]


def rewards(pool: BenchmarkPool, batch_id: str) -> list[float]:
    return [point.rl_labels.total_reward for point in copied(pool, batch_id)]


def budgets(pool: BenchmarkPool) -> dict[str, Budget]:
    """The present period's, by tenant."""
    by_hash = {tenant_hash(tenant, salt=salt_of(pool.settings)): tenant for tenant in TENANTS}
    return {
        by_hash[held.tenant_hash]: held for held in list_budgets(pool, now=LATER) if held.since <= LATER < held.until
    }


def written(pool: BenchmarkPool, batch_id: str, folder: Path, form: Format = "jsonl") -> str:
    """All that an export's files say, as text."""
    import pyarrow.parquet as pq

    paths = sorted(write_export(pool, batch_id, folder, form).iterdir())
    return "\n".join(
        str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text() for path in paths
    )


def test_rewards_of_two_tenants_are_noised_and_both_budgets_are_spent(pool: BenchmarkPool) -> None:
    batch = make_export(pool, asked(pool), export_id="e1", now=LATER).batch
    found = rewards(pool, "e1")
    assert len(found) == batch.size == 16
    assert all(0 <= reward <= 1 and reward != MARKED for reward in found)
    assert {tenant: held.epsilon_spent for tenant, held in budgets(pool).items()} == {"acme": 2.0, "globex": 2.0}
    assert batch.quality["grpo"] == {"mean": pytest.approx(sum(found) / 16), "min": min(found), "max": max(found)}


def test_the_pool_keeps_its_true_rewards(pool: BenchmarkPool) -> None:
    make_export(pool, asked(pool), export_id="e1", now=LATER)
    stored = [row for batch in pool.lake.read(WARM, columns=("total_reward",)) for row in batch.to_pylist()]
    assert [row["total_reward"] for row in stored] == [MARKED] * 16


@pytest.mark.parametrize("form", ["trl", "parquet", "jsonl"])
@pytest.mark.parametrize("phase", ["grpo", "turn-level-rl"])
def test_no_file_holds_a_true_score_or_a_digest_of_one(
    pool: BenchmarkPool, tmp_path: Path, form: Format, phase: Phase
) -> None:
    pool = with_policies(with_privacy(pool, epsilon=100.0), AnonymizationPolicy())
    make_export(pool, asked(pool, phase), export_id="true", now=LATER)
    told = written(pool, "true", tmp_path / "true", form)
    ids = {member.point_id for member in batch_members(pool, "true")}
    assert str(MARKED) in told
    assert all(point_id in told for point_id in ids)
    release_batch(pool, "true", because="a test", now=LATER)
    make_export(pool, asked(pool, phase, noise_epsilon=10.0), export_id="noised", now=LATER)
    told = written(pool, "noised", tmp_path / "noised", form)
    assert {member.point_id for member in batch_members(pool, "noised")} == ids
    assert str(MARKED) not in told
    assert not any(point_id in told for point_id in ids)


def test_the_manifest_says_what_the_noise_is_and_the_card_that_there_is_some(
    pool: BenchmarkPool, tmp_path: Path
) -> None:
    make_export(pool, asked(pool), export_id="e1", now=LATER)
    folder = write_export(pool, "e1", tmp_path / "e1", "trl")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["noise"] == {
        "mechanism": "laplace",
        "epsilon": 2.0,
        "delta": 0.0,
        "sensitivity": 1.0,
        "scale": 0.5,
        "range": [0.0, 1.0],
        "unit": "the reward of one task's point",
    }
    rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    assert {row["point"] for row in rows} == {name for ids in manifest["point_ids"].values() for name in ids}
    assert sorted(row["reward"] for row in rows) == sorted(rewards(pool, "e1"))
    assert "Rewards have laplace noise, ε = 2, δ = 0." in (folder / "README.md").read_text()


def test_written_again_it_is_the_same_bytes_and_costs_nothing(pool: BenchmarkPool, tmp_path: Path) -> None:
    made = make_export(pool, asked(pool), export_id="e1", now=LATER)
    write_export(pool, "e1", tmp_path / "first", "jsonl", made=made)
    assert make_export(pool, asked(pool), export_id="e1", now=LATER).batch == made.batch
    write_export(pool, "e1", tmp_path / "second", "jsonl")
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert first == second
    assert budgets(pool)["acme"].epsilon_spent == 2.0


def test_the_same_points_exported_anew_are_drawn_anew_and_spent_anew(pool: BenchmarkPool) -> None:
    """The same criteria on the same lake choose the same points in the same order; the noise is not of the criteria."""
    first = make_export(pool, asked(pool), export_id="e1", now=LATER).batch
    release_batch(pool, "e1", because="the cluster was lost", now=LATER)
    assert budgets(pool)["acme"].epsilon_spent == 2.0
    second = make_export(pool, asked(pool), export_id="e2", now=LATER).batch
    places = [[(m.point_id, m.position, m.split) for m in batch_members(pool, name)] for name in ("e1", "e2")]
    assert places[0] == places[1]
    assert first.digest != second.digest
    assert rewards(pool, "e1") != rewards(pool, "e2")
    assert {held.epsilon_spent for held in budgets(pool).values()} == {4.0}


def test_a_spent_budget_refuses_also_the_dry_run_and_nothing_is_marked(pool: BenchmarkPool) -> None:
    for number in range(3):
        make_export(pool, asked(pool), export_id=f"e{number}", now=LATER)
        release_batch(pool, f"e{number}", because="again", now=LATER)
    plan = preview_export(pool, asked(pool), now=LATER)
    assert "of 2 tenants 2 have less" in plan.lacking[0]
    with pytest.raises(
        PoolError, match=r"e3 cannot be made yet: its noise spends ε 2 .* has ε 0 of 6 .* period ends on"
    ):
        make_export(pool, asked(pool), export_id="e3", now=LATER)
    assert len(list_batches(pool)) == 3
    assert b"flywheel_pool_privacy_spent_tenants 2.0" in render_metrics(pool, now=LATER)
    later = LATER + timedelta(days=60)
    assert preview_export(with_privacy(pool, period_days=30), asked(pool), now=later).lacking == ()


def test_a_dry_run_draws_nothing_and_shows_neither_digest_nor_quality(pool: BenchmarkPool) -> None:
    plan = preview_export(pool, asked(pool), now=LATER)
    assert plan.batch is not None
    assert (plan.batch.digest, plan.batch.quality, plan.lacking) == ("", {}, ())
    assert plan.batch.criteria["noise"]["epsilon"] == 2.0
    assert budgets(pool) == {}


def test_points_of_one_tenant_stay_true_unless_noise_is_asked_for(settings: Settings) -> None:
    with BenchmarkPool.open(settings) as alone:
        fill(alone, "a", logs_of(("acme",)))
        true = make_export(alone, asked(alone, min_points=4), export_id="e1", now=LATER).batch
        assert "noise" not in true.criteria
        assert set(rewards(alone, "e1")) == {MARKED}
        assert budgets(alone) == {}
        release_batch(alone, "e1", because="again", now=LATER)
        make_export(alone, asked(alone, noise_epsilon=1.0), export_id="e2", now=LATER)
        assert MARKED not in rewards(alone, "e2")
        assert budgets(alone)["acme"].epsilon_spent == 1.0


def test_without_the_policy_rewards_cross_as_they_are(pool: BenchmarkPool, tmp_path: Path) -> None:
    pool = with_policies(pool, AnonymizationPolicy())
    make_export(pool, asked(pool), export_id="e1", now=LATER)
    assert set(rewards(pool, "e1")) == {MARKED}
    write_export(pool, "e1", tmp_path / "e1", "jsonl")
    assert json.loads((tmp_path / "e1" / "manifest.json").read_text())["noise"] is None


def test_the_tenant_that_wants_most_noise_decides_for_all(pool: BenchmarkPool) -> None:
    louder = AnonymizationPolicy(add_noise_to_rewards=True, noise_magnitude=1.0)
    elsewhere = preview_export(with_policies(pool, AnonymizationPolicy(), initech=louder), asked(pool), now=LATER)
    assert elsewhere.batch is not None
    assert "noise" not in elsewhere.batch.criteria
    pool = with_policies(pool, AnonymizationPolicy(), globex=louder)
    noise = make_export(pool, asked(pool), export_id="e1", now=LATER).batch.criteria["noise"]
    assert (noise["scale"], noise["epsilon"]) == (1.0, 1.0)


def test_less_noise_than_the_policy_asks_for_is_refused_and_more_is_not(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match=r"noise_magnitude 0\.5\) allows at most ε 2 an export, not 2\.5"):
        make_export(pool, asked(pool, noise_epsilon=2.5), export_id="e1", now=LATER)
    make_export(pool, asked(pool, noise_epsilon=0.5), export_id="e1", now=LATER)
    assert budgets(pool)["acme"].epsilon_spent == 0.5


def test_each_turn_of_turn_level_training_has_noise_of_its_own_and_all_of_them_are_spent(pool: BenchmarkPool) -> None:
    """Up to three turns and the total: four values of sensitivity 1 each."""
    pool = with_privacy(pool, epsilon=8.0)
    batch = make_export(pool, asked(pool, "turn-level-rl"), export_id="e1", now=LATER).batch
    assert (batch.criteria["noise"]["sensitivity"], batch.criteria["noise"]["epsilon"]) == (4.0, 8.0)
    points = copied(pool, "e1")
    assert sorted({len(point.rl_labels.turns) for point in points}) == [1, 2, 3]
    drawn = [turn.turn_reward for point in points for turn in point.rl_labels.turns]
    inner = [value for value in [*drawn, *rewards(pool, "e1")] if 0 < value < 1]
    assert len(set(inner)) == len(inner) > 0
    assert budgets(pool)["globex"].epsilon_left == 0


def test_gaussian_noise_spends_delta_too(pool: BenchmarkPool) -> None:
    criteria = asked(pool, noise_epsilon=1.0, noise_delta=1e-7)
    assert make_export(pool, criteria, export_id="e1", now=LATER).batch.criteria["noise"]["mechanism"] == "gaussian"
    held = budgets(pool)["acme"]
    assert (held.epsilon_spent, held.delta_spent, held.delta_left) == (1.0, 1e-7, 9e-7)
    too_much = asked(pool, "curriculum", min_task_types=1, noise_epsilon=1.0, noise_delta=1e-5)
    with pytest.raises(PoolError, match="spends ε 1 and δ 1e-05"):
        make_export(pool, too_much, export_id="e2", now=LATER)


@pytest.mark.parametrize(
    "noise", [{"noise_epsilon": 0.0}, {"noise_delta": 0.1}, {"noise_epsilon": 1, "noise_delta": 1}]
)
def test_noise_that_cannot_be_is_refused_as_a_criterion(pool: BenchmarkPool, noise: dict[str, Any]) -> None:
    with pytest.raises(PoolError, match="these criteria cannot be met"):
        asked(pool, **noise)


def test_an_export_that_fails_spends_nothing(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise PoolError("the lake has no room")

    with monkeypatch.context() as patched:
        patched.setattr(exports, "copy_points", full)
        with pytest.raises(PoolError, match="no room"):
            make_export(pool, asked(pool), export_id="e1", now=LATER)
    assert budgets(pool) == {}
    make_export(pool, asked(pool), export_id="e1", now=LATER)
    assert budgets(pool)["acme"].epsilon_spent == 2.0


KILLED = """
    import os, signal, sys
    from datetime import datetime
    from flywheel.pool import exports
    from flywheel.pool.export_choice import criteria_for
    from flywheel.pool.pool import BenchmarkPool
    from flywheel.settings import Settings

    pool = BenchmarkPool.open(Settings.model_validate_json(sys.argv[1]))
    check = exports.check_leakage
    exports.check_leakage = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    criteria = criteria_for(pool.settings, "grpo", remove_near_duplicates=False, max_points=16)
    exports.make_export(pool, criteria, export_id="e1", now=datetime.fromisoformat(sys.argv[2]))
"""


def test_an_export_that_is_killed_when_all_is_written_and_nothing_committed_spends_nothing(pool: BenchmarkPool) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), pool.settings.model_dump_json(), LATER.isoformat()]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    orphaned = rewards(pool, "e1")
    assert (len(orphaned), budgets(pool), list_batches(pool)) == (16, {}, ())
    make_export(pool, asked(pool), export_id="e1", now=LATER)
    assert rewards(pool, "e1") != orphaned
    assert budgets(pool)["acme"].epsilon_spent == 2.0
