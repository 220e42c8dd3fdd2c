"""A violation halts the real pool: runs, sensors and training wait until a person lifts it, and lines are not lost."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from flywheel.errors import PoolError
from flywheel.pool.batches import make_batch
from flywheel.pool.halts import lift, list_halts, open_halts
from flywheel.pool.intake import index_segments
from flywheel.pool.overview import list_days, pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from resources.benchmark_pool import BenchmarkPoolResource
from tests.pool.logs import task_logs, write_segment

YESTERDAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = YESTERDAY.date()
PERSONAL = "ann.lee@example.org"  # agents' names are kept as they are, so this one stays until that is mended


@pytest.fixture
def pool(asset_settings: Settings) -> Iterator[BenchmarkPool]:
    """A pool with a day of two tasks, one of an agent that is named like a person."""
    logs = [*task_logs("t1", at=YESTERDAY), *task_logs("t2", at=YESTERDAY, agent=PERSONAL)]
    write_segment(asset_settings, "a", logs, written_at=YESTERDAY)
    with BenchmarkPool.open(asset_settings) as opened:
        index_segments(opened, now=datetime.now(UTC))
        yield opened


def run_day(instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    from definitions import defs

    job = defs.resolve_job_def("pool_day")
    return job.execute_in_process(partition_key=str(DAY), instance=instance, raise_on_error=False)


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> list[dg.RunRequest] | str:
    """What a sensor requests, or why it does not."""
    from definitions import defs

    context = dg.build_sensor_context(
        instance=instance,
        resources={"benchmark_pool": BenchmarkPoolResource()},
        repository_def=defs.get_repository_def(),
    )
    evaluated = sensor.evaluate_tick(context)
    return list(evaluated.run_requests) if evaluated.run_requests else evaluated.skip_message or ""


def tiers(pool: BenchmarkPool) -> tuple[int | None, ...]:
    (day,) = list_days(pool)
    return day.hot, day.warm, day.cold


def mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make anonymization look into agents' names too."""
    from flywheel.pool.anonymization import points

    monkeypatch.setattr(points, "KEPT_WITHIN", {"task": ("type", "complexity"), "routing": ("strategy",)})


def test_a_violation_halts_the_pool_until_a_person_lifts_it(
    pool: BenchmarkPool, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sensors.new_segments import new_segments
    from sensors.training_batch_ready import training_batch_ready

    assert len(tick(new_segments, instance)) == 1
    result = run_day(instance)
    assert not result.success
    assert {check.check_name for check in result.get_asset_check_evaluations() if not check.passed} >= {"no_pii_left"}
    assert tiers(pool) == (None, None, None)

    write_segment(pool.settings, "b", task_logs("t3", at=YESTERDAY), written_at=YESTERDAY)
    reason = tick(new_segments, instance)
    assert isinstance(reason, str)
    assert reason.startswith(f"nothing is indexed and no day runs by itself: the pool is halted by {DAY}")
    assert f"flywheel pool lift {DAY} --by NAME --note TEXT" in reason
    assert str(tick(training_batch_ready, instance)).startswith(f"no training starts: the pool is halted by {DAY}")
    with pytest.raises(PoolError, match="the pool is halted"):
        make_batch(pool, "b1", now=datetime.now(UTC))
    with pool.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM segments").fetchone() == (1,)
    with pytest.raises(PoolError, match="its last check found 1 privacy violations"):
        lift(pool, DAY, by="Ann", note="let it pass", now=datetime.now(UTC))

    mend(monkeypatch)
    assert run_day(instance).success
    assert tiers(pool) == (2, 2, 2)  # points, points, aggregates
    assert len(open_halts(pool)) == 1
    assert str(tick(new_segments, instance)).startswith("nothing is indexed")

    lift(pool, DAY, by="Ann", note="agents' names are looked into now", now=datetime.now(UTC))
    requests = tick(new_segments, instance)
    assert not isinstance(requests, str)
    assert [request.partition_key for request in requests] == [str(DAY)]
    assert run_day(instance).success
    assert pool_counts(pool)["lines_in_points"] == 9
    assert [(halt.day, halt.lifted_by) for halt in list_halts(pool)] == [(DAY, "Ann")]


def test_retention_goes_on_while_the_pool_is_halted(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    from definitions import defs
    from sensors.points_expired import points_expired

    run_day(instance)
    assert len(open_halts(pool)) == 1
    assert isinstance(points_expired(benchmark_pool=BenchmarkPoolResource()), dg.RunRequest)
    assert defs.resolve_job_def("pool_retention").execute_in_process(instance=instance).success


def test_an_alert_is_announced_when_it_begins_and_when_it_ends(
    pool: BenchmarkPool, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sensors.collection_degraded import collection_degraded

    cursor: str | None = None

    def look() -> tuple[str, list[str]]:
        nonlocal cursor
        context = dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"benchmark_pool": BenchmarkPoolResource()}
        )
        said: list[str] = []
        for level in ("info", "warning", "error"):
            monkeypatch.setattr(context.log, level, said.append)
        evaluated = collection_degraded.evaluate_tick(context)
        cursor = evaluated.cursor
        return evaluated.skip_message or "", said

    assert look() == ("collection is well: no alert is active", [])
    run_day(instance)
    reason, said = look()
    assert reason.startswith(f"privacy (critical): the pool is halted by {DAY}")
    assert [line.partition(":")[0] for line in said] == ["alert privacy began"]
    assert look() == (reason, [])
    mend(monkeypatch)
    run_day(instance)
    lift(pool, DAY, by="Ann", note="mended", now=datetime.now(UTC))
    reason, said = look()
    assert reason == "collection is well: no alert is active"
    assert [line.partition(";")[0] for line in said] == ["alert privacy ended"]
    assert look() == (reason, [])


def test_checks_of_one_asset_can_be_run_by_themselves(
    pool: BenchmarkPool, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from definitions import defs

    mend(monkeypatch)
    run_day(instance)
    alone = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        partition_key=str(DAY), instance=instance, asset_selection=[dg.AssetKey("agent_statistics")]
    )
    assert alone.success
    names = {check.check_name for check in alone.get_asset_check_evaluations()}
    assert names == {
        "volume_is_usual",
        "quality_did_not_drop",
        "tool_adoption_did_not_drop",
        "reward_did_not_drift",
    }
