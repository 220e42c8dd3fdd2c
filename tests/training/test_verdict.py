"""A model that is not better is not registered."""

import random

import pytest

from flywheel.training.verdict import TaskOutcome, judge, mcnemar_exact


def outcomes(right: int, tasks: int, *, kind: str = "a", shift: int = 0) -> list[TaskOutcome]:
    return [TaskOutcome(task_id=f"{kind}{n}", task_type=kind, exact=(n + shift) % tasks < right) for n in range(tasks)]


def test_a_clearly_better_model_is_better() -> None:
    verdict = judge(outcomes(20, 200), outcomes(70, 200))
    assert verdict.is_better
    assert "35.0% exact against 10.0%" in verdict.reason


def test_a_baseline_of_zero_can_be_beaten() -> None:
    assert judge(outcomes(0, 100), outcomes(30, 100)).is_better


def test_the_same_answers_are_not_better() -> None:
    verdict = judge(outcomes(50, 100), outcomes(50, 100))
    assert not verdict.is_better
    assert "at least 55.0% was needed" in verdict.reason


def test_two_models_that_know_nothing_are_not_better_than_each_other() -> None:
    verdict = judge(outcomes(0, 100), outcomes(0, 100))
    assert not verdict.is_better
    assert "nothing was learned" in verdict.reason


def test_a_gain_below_ten_percent_is_not_enough_however_sure() -> None:
    assert not judge(outcomes(5000, 10_000), outcomes(5400, 10_000)).is_better


def test_a_large_gain_by_luck_is_not_enough() -> None:
    verdict = judge(outcomes(2, 20), outcomes(4, 20))
    assert not verdict.is_better
    assert "not significant (p = 0.50)" in verdict.reason


def test_forgetting_one_type_is_not_made_up_for_by_another() -> None:
    before = [*outcomes(10, 200), *outcomes(60, 60, kind="b")]
    after = [*outcomes(190, 200), *outcomes(30, 60, kind="b")]
    verdict = judge(before, after)
    assert not verdict.is_better
    assert "b is significantly worse" in verdict.reason


def test_models_must_have_answered_the_same_tasks() -> None:
    with pytest.raises(ValueError, match="were not answered by both"):
        judge(outcomes(1, 10), outcomes(1, 9))


def test_mcnemar_agrees_with_the_binomial() -> None:
    assert mcnemar_exact(5, 0) == pytest.approx(2 * 0.5**5)
    assert mcnemar_exact(3, 3) == 1.0


def test_equal_models_are_called_better_at_most_as_often_as_stated() -> None:
    rng = random.Random(0)
    alarms = 0
    for _ in range(400):
        pair = [
            [TaskOutcome(task_id=str(n), task_type="a", exact=rng.random() < 0.3) for n in range(150)] for _ in "ab"
        ]
        alarms += judge(*pair).is_better
    assert alarms / 400 <= 0.04  # one side of a two-sided test at 5 %
