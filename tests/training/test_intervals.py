"""Intervals hold what they promise."""

import random

import pytest

from flywheel.training.intervals import difference, mean_interval, paired_difference, wilson


def test_wilson_agrees_with_the_published_example() -> None:
    """Newcombe 1998, table I: 81 of 263."""
    interval = wilson(81, 263, confidence=0.95)
    assert interval.low == pytest.approx(0.2553, abs=5e-5)
    assert interval.high == pytest.approx(0.3662, abs=5e-5)


def test_wilson_stays_within_zero_and_one() -> None:
    assert wilson(0, 20, confidence=0.95).low == 0
    assert wilson(20, 20, confidence=0.95).high == 1


def test_wilson_covers_the_truth_as_often_as_stated() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(1000):
        interval = wilson(sum(rng.random() < 0.1 for _ in range(150)), 150, confidence=0.95)
        covered += interval.low <= 0.1 <= interval.high
    assert covered / 1000 == pytest.approx(0.95, abs=0.02)


def test_pairing_removes_what_tasks_differ_in() -> None:
    easy_and_hard = [0.0, 1.0] * 50
    better = [value + 0.1 + 0.01 * (number % 3) for number, value in enumerate(easy_and_hard)]
    paired = paired_difference(easy_and_hard, better, confidence=0.95)
    assert paired.low > 0.1
    assert paired.half_width < mean_interval(easy_and_hard, confidence=0.95).half_width / 10


def test_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no trials"):
        wilson(0, 0, confidence=0.95)
    with pytest.raises(ValueError, match="mean of 1 values"):
        mean_interval([0.5], confidence=0.95)


def test_a_difference_of_proportions_agrees_with_the_published_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 873-890, table II, method 10, example (a): 56/70 - 48/80
    interval = difference((48, 80), (56, 70), confidence=0.95)
    assert interval.value == pytest.approx(0.2)
    assert [interval.low, interval.high] == pytest.approx([0.0524, 0.3339], abs=5e-5)
    extreme = difference((0, 10), (10, 10), confidence=0.95)
    assert [extreme.low, extreme.high] == pytest.approx([0.6075, 1.0], abs=5e-5)
