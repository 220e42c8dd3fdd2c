"""Tests that may be looked at after every outcome: how often they are wrong, and how soon right. Seeds are fixed."""

import math
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flywheel.sequential import Counts, log_e_above, log_largest, log_mixture, rate_change

ALPHA = 0.05
STREAMS = 400
Stream = NDArray[np.int64]


def coin(rng: np.random.Generator, rate: float, tasks: int) -> Stream:
    return (rng.random(tasks) < rate).astype(np.int64)


def blocks(outcomes: Stream, size: int = 20) -> tuple[Counts, Counts]:
    parts = [outcomes[start : start + size] for start in range(0, len(outcomes), size)]
    return np.array([part.sum() for part in parts]), np.array([len(part) for part in parts])


def change_found(outcomes: Stream, alpha: float = ALPHA) -> bool:
    return rate_change(*blocks(outcomes)).log_e >= math.log(1 / alpha)


def first_alarm(outcomes: Stream, alarm: Callable[[Stream], bool], *, every: int = 10) -> int | None:
    """After how many outcomes somebody who looks every so often is first told that something changed."""
    return next((n for n in range(every, len(outcomes) + 1, every) if alarm(outcomes[:n])), None)


def halves_differ(outcomes: Stream) -> bool:
    """The test of two proportions that one would do without thinking of looks: first half against second."""
    middle = len(outcomes) // 2
    before, after = outcomes[:middle], outcomes[middle:]
    share = outcomes.mean()
    deviation = math.sqrt(max(1e-12, share * (1 - share) * (1 / len(before) + 1 / len(after))))
    return bool(abs(before.mean() - after.mean()) / deviation > 1.96)


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_forty_looks_at_an_agent_that_does_not_change_are_wrong_in_at_most_five_percent(rate: float) -> None:
    rng = np.random.default_rng(1)
    streams = [coin(rng, rate, 400) for _ in range(STREAMS)]
    wrong = sum(first_alarm(stream, change_found) is not None for stream in streams)
    naive = sum(first_alarm(stream, halves_differ) is not None for stream in streams[:100])
    assert wrong <= ALPHA * STREAMS
    assert naive > 30, "the same looks with a test made for one look are wrong far more often"


@pytest.mark.parametrize("rate", [0.4, 0.6])
def test_an_agent_that_is_no_better_than_the_rate_is_called_better_in_at_most_five_percent(rate: float) -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(1_000):
        successes = np.cumsum(coin(rng, rate, 300))
        wrong += any(log_e_above(int(s), n, 0.6) >= math.log(1 / ALPHA) for n, s in enumerate(successes, start=1))
    assert wrong <= ALPHA * 1_000


def test_a_change_is_found_soon_and_in_the_right_place() -> None:
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(50):
        stream = np.concatenate([coin(rng, 0.9, 200), coin(rng, 0.6, 200)])
        found = first_alarm(stream, change_found)
        assert found is not None
        assert found > 200
        delays.append(found - 200)
        assert abs(rate_change(*blocks(stream)).blocks_before - 10) <= 3
    assert median(delays) <= 80


def test_a_capable_agent_is_found_soon() -> None:
    rng = np.random.default_rng(4)
    needed = []
    for _ in range(50):
        successes = np.cumsum(coin(rng, 0.9, 200))
        needed += [next(n for n in range(1, 201) if log_e_above(int(successes[n - 1]), n, 0.6) >= math.log(1 / ALPHA))]
    assert median(needed) <= 30


def test_two_halves_that_could_not_differ_more_are_told_apart_by_hand() -> None:
    # One place for the change, weight 1/2; before 20 failures, after 20 successes; one rate gives them 2^-40.
    mixture = 2 * log_mixture(20, 0)
    found = rate_change(np.array([0, 20]), np.array([20, 20]))
    assert found.log_e == pytest.approx(math.log(0.5) + mixture + 40 * math.log(2))
    assert found.blocks_before == 1


@given(st.integers(0, 12))
def test_the_mixture_is_a_probability_over_all_orders_of_outcomes(tasks: int) -> None:
    total = sum(math.comb(tasks, s) * math.exp(log_mixture(s, tasks - s)) for s in range(tasks + 1))
    assert total == pytest.approx(1)


@given(st.integers(0, 300), st.integers(0, 300), st.floats(0.01, 0.99))
def test_the_largest_likelihood_is_the_largest(successes: int, failures: int, rate: float) -> None:
    tasks = successes + failures
    if tasks:
        assert log_largest(successes, tasks) >= successes * math.log(rate) + failures * math.log1p(-rate) - 1e-9


@pytest.mark.parametrize(("successes", "tasks"), [((), ()), ((3,), (5,))])
def test_without_a_place_for_a_change_nothing_is_said(successes: tuple[int, ...], tasks: tuple[int, ...]) -> None:
    found = rate_change(np.array(successes, dtype=np.int64), np.array(tasks, dtype=np.int64))
    assert (found.log_e, found.blocks_before) == (0.0, 0)
    assert log_e_above(0, 0, 0.5) == -math.inf
