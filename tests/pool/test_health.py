"""Every alert calls at its limit and not just below, in the unit of its setting."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from pydantic import ValidationError

from flywheel.pool.halts import Halt
from flywheel.pool.health import (
    ALARMS,
    Course,
    Failures,
    Mean,
    Readings,
    Rewards,
    Volume,
    Window,
    begun,
    ended,
    judge_health,
    z_of,
)
from flywheel.pool.settings import HealthSettings

LIMITS = HealthSettings()
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USUAL = Mean(5_000, 4_000.0)  # 0.8
WELL = Readings(
    halts=(),
    violations=0,
    violations_since=None,
    volume=Volume(hour=NOON, points=40, before={7: 40, 14: 40, 21: 40, 28: 40}, last_hour=NOON),
    failures=Failures(judged=1_000, failed=0, since=NOON),
    quality=Course(windows=(Window(Mean(500, 400.0), NOON),), earlier=(USUAL,)),
    adoption=Course(windows=(Window(Mean(500, 400.0), NOON),), earlier=(USUAL,)),
    rewards=(),
)


def readings(**fields: object) -> Readings:
    from msgspec.structs import replace

    return replace(WELL, **fields)


def names(found: Readings, limits: HealthSettings = LIMITS) -> list[str]:
    return [alert.name for alert in judge_health(found, limits)]


def volume(**fields: object) -> Readings:
    from msgspec.structs import replace

    return readings(volume=replace(WELL.volume, **fields))


def rewards(z: float, *, points: int = 50, earlier: int = 1_000, deviation: float = 0.1) -> Rewards:
    error = deviation * (1 / points + 1 / earlier) ** 0.5
    return Rewards(
        task_type="research",
        since=NOON,
        block=Mean(points, points * (0.5 + z * error)),
        earlier=earlier,
        mean=0.5,
        deviation=deviation,
    )


def test_a_pool_that_is_well_has_no_alert() -> None:
    assert judge_health(WELL, LIMITS) == ()


def test_the_table_has_the_alerts_of_the_specification_and_says_their_limits() -> None:
    limits = {alarm.name: alarm.limit(LIMITS) for alarm in ALARMS}
    assert list(limits) == [
        "volume",
        "validation_failures",
        "privacy",
        "quality_drop",
        "tool_adoption_drop",
        "reward_drift",
    ]
    assert limits["volume"] == "fewer than 10 points in the last full hour"
    assert limits["validation_failures"] == "more than 10% of the tasks judged in 24 hours"


@pytest.mark.parametrize("field", ["failed_fraction", "drop_fraction"])
def test_a_limit_in_percent_is_refused_where_a_fraction_is_meant(field: str) -> None:
    with pytest.raises(ValidationError):
        HealthSettings(**{field: 10})


def test_nine_points_an_hour_are_too_few_and_ten_are_not() -> None:
    assert names(volume(points=9)) == ["volume"]
    assert names(volume(points=10)) == []


def test_the_hour_is_compared_with_the_best_of_the_same_hours_before() -> None:
    assert names(volume(points=0, before={7: 0, 14: 0, 21: 0, 28: 10})) == ["volume"]
    assert names(volume(points=0, before={7: 9, 14: 9, 21: 9, 28: 9})) == []  # Saturday
    assert names(volume(points=0, before={1: 0, 2: 10})) == ["volume"]
    assert names(volume(points=0, before={1: 9})) == []  # a new pool
    assert names(volume(points=0, before={})) == []


def test_a_pool_that_nobody_feeds_falls_silent_after_four_weeks() -> None:
    assert names(volume(points=0, last_hour=NOON - timedelta(days=28))) == ["volume"]
    assert names(volume(points=0, last_hour=NOON - timedelta(days=28, hours=1))) == []
    assert names(volume(points=0, last_hour=None)) == []


def test_a_tenth_of_failures_is_allowed_and_more_is_not() -> None:
    assert names(readings(failures=Failures(judged=1_000, failed=100, since=NOON))) == []
    (alert,) = judge_health(readings(failures=Failures(judged=1_000, failed=101, since=NOON)), LIMITS)
    assert alert.name == "validation_failures"
    assert "101 of 1,000 tasks validated in the last 24 h are quarantined: 10.1%, 10% allowed" in alert.message


def test_failures_of_a_few_tasks_are_not_judged() -> None:
    assert names(readings(failures=Failures(judged=19, failed=19, since=NOON))) == []
    assert names(readings(failures=Failures(judged=20, failed=3, since=NOON))) == ["validation_failures"]


def test_one_violation_or_one_open_halt_is_critical() -> None:
    halt = Halt(id=1, day=NOON.date(), reason="1", opened_at=NOON, lifted_at=None, lifted_by=None, note="")
    for found in (readings(violations=1, violations_since=NOON), readings(halts=(halt,))):
        assert [(alert.name, alert.severity) for alert in judge_health(found, LIMITS)] == [("privacy", "critical")]
    assert "volume" not in names(readings(halts=(halt,), volume=volume(points=0).volume))  # it says so already


def course(*windows: Mean, earlier: tuple[Mean, ...] = (USUAL,)) -> Course:
    return Course(windows=tuple(Window(mean, NOON) for mean in windows), earlier=earlier)


@pytest.mark.parametrize(("field", "name"), [("quality", "quality_drop"), ("adoption", "tool_adoption_drop")])
def test_a_relative_tenth_less_is_a_drop_and_a_little_less_is_not(field: str, name: str) -> None:
    assert names(readings(**{field: course(Mean(1_000, 720.0))})) == [name]
    assert names(readings(**{field: course(Mean(1_000, 721.0))})) == []


def test_a_drop_that_chance_explains_is_none() -> None:
    assert names(readings(quality=course(Mean(100, 65.0)))) == []  # 3.7 standard errors
    assert names(readings(quality=course(Mean(100, 63.0)))) == ["quality_drop"]  # 4.2
    assert names(readings(quality=course(Mean(19, 0.0)))) == []
    assert names(readings(quality=course(Mean(20, 0.0)))) == ["quality_drop"]


def test_a_fall_that_a_day_cannot_show_is_seen_in_the_week() -> None:
    found = readings(adoption=course(Mean(500, 30.0), Mean(3_500, 210.0), earlier=(Mean(15_000, 1_500.0),)))
    (alert,) = judge_health(found, LIMITS)
    assert alert.message.startswith("tool adoption is 0.060 over 3,500 tasks since 2026-03-02 12:00 UTC, 40.0% below")


def test_a_window_is_held_against_every_earlier_period_and_told_once() -> None:
    fallen, slightly = Mean(3_000, 2_100.0), Mean(3_000, 2_280.0)
    earlier = (slightly, USUAL, fallen)
    (alert,) = judge_health(readings(quality=course(Mean(1_000, 690.0), Mean(3_500, 2_415.0), earlier=earlier)), LIMITS)
    assert "13.8% below the 0.800 of 5,000 before" in alert.message
    assert names(readings(quality=course(Mean(1_000, 690.0), earlier=(slightly, fallen)))) == []


def test_without_earlier_days_nothing_has_dropped() -> None:
    assert names(readings(quality=course(Mean(500, 0.0), earlier=()))) == []
    assert names(readings(quality=course(Mean(500, 0.0), earlier=(Mean(),)))) == []
    assert names(readings(adoption=course(Mean(500, 0.0), earlier=(Mean(500, 0.0),)))) == []


@pytest.mark.parametrize("sign", [-1, 1])
def test_rewards_drift_beyond_three_standard_errors_in_either_direction(sign: int) -> None:
    (alert,) = judge_health(readings(rewards=(rewards(sign * 3.01),)), LIMITS)
    assert (alert.name, alert.subject, alert.key) == ("reward_drift", "research", "reward_drift of research")
    assert names(readings(rewards=(rewards(sign * 2.99),))) == []


def test_few_points_and_constant_rewards_are_no_drift() -> None:
    assert names(readings(rewards=(rewards(10, points=49),))) == []
    assert names(readings(rewards=(rewards(10, earlier=99),))) == []
    constant = Rewards(task_type="a", since=NOON, block=Mean(50, 50 * 0.951), earlier=1_000, mean=0.95, deviation=0.0)
    assert names(readings(rewards=(constant,))) == []


def drifts(stream: np.ndarray) -> np.ndarray:
    """Whether each whole block of 50 after the first 1,000 points of a stream drifts."""
    found = []
    for start in range(1_000, len(stream) - 49, 50):
        earlier, block = stream[:start], stream[start : start + 50]
        z = z_of(
            Rewards(
                task_type="a",
                since=NOON,
                block=Mean(50, float(block.sum())),
                earlier=start,
                mean=float(earlier.mean()),
                deviation=float(earlier.std(ddof=1)),
            )
        )
        found.append(abs(z) > LIMITS.z)
    return np.array(found)


@pytest.mark.parametrize("rewards_of", ["bell", "skewed", "two-valued"])
def test_steady_rewards_raise_few_false_alarms_and_a_real_shift_is_found(rewards_of: str) -> None:
    """At 0.27 % of 20,000 blocks 54 ± 7 false alarms are expected; skewed and two-valued rewards raise a few more."""
    chance = np.random.default_rng(20260302)
    draws: dict[str, Callable[[int], np.ndarray]] = {
        "bell": lambda size: chance.normal(0.7, 0.15, size),
        "skewed": lambda size: chance.beta(8, 1, size),
        "two-valued": lambda size: (chance.random(size) < 0.9) * 0.95,
    }
    draw = draws[rewards_of]
    false_alarms = np.mean(np.concatenate([drifts(draw(51_000)) for _ in range(20)]))
    assert 0.0015 < false_alarms < 0.005
    deviation = float(np.std(draw(10_000)))
    shifted = [drifts(np.concatenate([draw(1_000), draw(50) - 0.8 * deviation]))[-1] for _ in range(200)]
    assert np.mean(shifted) > 0.95


def test_what_began_and_ended_is_told_once() -> None:
    active = judge_health(readings(rewards=(rewards(9),), violations=2, violations_since=NOON), LIMITS)
    assert [alert.key for alert in begun({}, active)] == ["privacy", "reward_drift of research"]
    assert [alert.key for alert in begun({"privacy": "then"}, active)] == ["reward_drift of research"]
    assert begun({"privacy": "then", "reward_drift of research": "then"}, active) == ()
    assert ended({"privacy": "then", "volume": "then"}, active) == ("volume",)
