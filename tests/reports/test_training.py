"""The report on training: batches, what they consumed, and whether promoted models do better than those before them."""

from datetime import UTC, date, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from flywheel.pool.pool import BenchmarkPool
from flywheel.reports.training import report_training
from flywheel.rollout.promotion import promote
from tests.reports.statistics import count

FIRST, LAST = date(2026, 3, 1), date(2026, 3, 31)
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def add_batch(pool: BenchmarkPool, name: str, *, at: datetime, points: dict[str, int], released: bool = False) -> None:
    with pool.transaction() as connection:
        connection.execute(
            "INSERT INTO batches (id, digest, created_at, first_at, last_at, criteria, distribution, quality,"
            " released_at) VALUES (%s, 'd', %s, %s, %s, '{}', %s, '{}', %s)",
            (name, at, at, at, Jsonb({"points": points}), at if released else None),
        )
        for phase, size in points.items():
            for position in range(size):
                connection.execute(
                    "INSERT INTO batch_points (batch_id, phase, position, point_id, source_task, day, released)"
                    " VALUES (%s, %s, %s, %s, 's', %s, %s)",
                    (name, phase, position, f"{name}-{position}", at.date(), released),
                )


def test_batches_are_counted_by_what_they_are_for_and_given_up_ones_consume_nothing(pool: BenchmarkPool) -> None:
    add_batch(pool, "b1", at=NOON, points={"sft": 2, "grpo": 3})
    add_batch(pool, "b2", at=NOON, points={"sft": 1, "grpo": 1}, released=True)
    add_batch(pool, "e1", at=NOON, points={"grpo": 5})
    add_batch(pool, "e0", at=NOON - timedelta(days=40), points={"grpo": 9})
    found = report_training(pool, FIRST, LAST)
    assert (found.batches, found.given_up) == ({"training": 2, "export": 1}, 1)
    assert (found.mean_points, found.points_consumed) == (4.0, 10)


def test_a_month_without_training_says_so_without_numbers(pool: BenchmarkPool) -> None:
    found = report_training(pool, FIRST, LAST)
    assert (found.batches, found.mean_points, found.promotions) == ({"training": 0, "export": 0}, None, ())
    assert (found.improved, found.worsened, found.mean_quality_gain) == (0, 0, None)


def serve(pool: BenchmarkPool, version: str, at: datetime) -> None:
    tags = {"flywheel.training_batch": "b1", "flywheel.base_model": "m", "flywheel.stage": "grpo"}
    promote(pool.engine, version=version, tags=tags, now=at, actor="ann", reason="better")


def test_a_promoted_model_is_held_against_the_one_that_served_before(pool: BenchmarkPool) -> None:
    serve(pool, "1", NOON - timedelta(days=60))
    serve(pool, "2", NOON)
    serve(pool, "3", NOON + timedelta(days=10))
    day = NOON.date()
    count(pool, day - timedelta(days=29), agent="flywheel-agent-v1", tasks=900, successes=900)  # too long ago
    count(pool, day - timedelta(days=1), agent="flywheel-agent-v1", tasks=100, successes=60)
    count(pool, day, agent="flywheel-agent-v1", tasks=50, successes=50)  # its last tasks, beside the new one
    count(pool, day + timedelta(days=3), agent="flywheel-agent-v2", tasks=100, successes=85)
    found = report_training(pool, FIRST, LAST)
    second, third = found.promotions
    assert (second.version, second.predecessor) == ("2", "1")
    assert second.before is not None
    assert (second.before.tasks, second.after.tasks) == (100, 100)
    assert second.change is not None
    assert second.change.low > 0
    assert second.quality_gain == pytest.approx(0.25)
    assert (third.change, third.quality_gain) == (None, None)  # it had no task yet
    assert (found.improved, found.worsened) == (1, 0)
    assert found.mean_quality_gain == pytest.approx(0.25)
