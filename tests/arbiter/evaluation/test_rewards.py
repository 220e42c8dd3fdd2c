"""Rewards of steps: the specification's numbers, and no pay for length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.rewards import (
    RecommendationOutcome,
    process_reward,
    recommendation_process_reward,
    recommendation_reward,
    tool_reward,
    turn_credits,
    turn_reward,
)

SHARES = st.floats(0, 1)
COUNTS = st.integers(0, 200)


def test_a_turns_reward_has_the_specifications_weights() -> None:
    assert turn_reward(gain=1, format_score=0, progress=0, safety=0) == pytest.approx(0.4)
    assert turn_reward(gain=0, format_score=1, progress=0, safety=0) == pytest.approx(0.3)
    assert turn_reward(gain=0, format_score=0, progress=1, safety=0) == pytest.approx(0.2)
    assert turn_reward(gain=0, format_score=0, progress=0, safety=1) == pytest.approx(0.1)
    assert turn_reward(gain=1, format_score=1, progress=1, safety=1, multiplier=0.3) == pytest.approx(0.3)


def test_a_tools_reward_has_the_specifications_weights() -> None:
    assert tool_reward(choice=1, format_score=0, utility=0, error_handling=0) == pytest.approx(0.4)
    assert tool_reward(choice=0, format_score=1, utility=0, error_handling=0) == pytest.approx(0.3)
    assert tool_reward(choice=0, format_score=0, utility=1, error_handling=0) == pytest.approx(0.2)
    assert tool_reward(choice=0, format_score=0, utility=0, error_handling=1) == pytest.approx(0.1)


@given(total=st.floats(-1, 1), gains=st.lists(SHARES, min_size=1, max_size=50), more=st.lists(SHARES, max_size=50))
def test_a_longer_conversation_has_the_same_total_credit(total: float, gains: list[float], more: list[float]) -> None:
    assert sum(turn_credits(total, gains)) == pytest.approx(total, abs=1e-9)
    assert sum(turn_credits(total, [*gains, *more])) == pytest.approx(total, abs=1e-9)


def test_credit_goes_where_something_was_added_and_evenly_where_nothing_was() -> None:
    assert turn_credits(0.8, [0.0, 0.75, 0.25]) == pytest.approx((0.0, 0.6, 0.2))
    assert turn_credits(0.6, [0.0, 0.0]) == pytest.approx((0.3, 0.3))


@given(gains=st.lists(SHARES, min_size=1, max_size=30), empty=st.integers(1, 30))
def test_empty_turns_take_credit_from_nobody_and_get_none(gains: list[float], empty: int) -> None:
    if sum(gains) > 1e-6:
        credits = turn_credits(1.0, [*gains, *(0.0,) * empty])
        assert credits[: len(gains)] == pytest.approx(turn_credits(1.0, gains))
        assert set(credits[len(gains) :]) == {0.0}


def test_calls_earn_and_cost_what_the_specification_says() -> None:
    assert process_reward(succeeded=1, timed_out=0, needed=1) == pytest.approx(0.05)
    assert process_reward(succeeded=0, timed_out=1, needed=1) == pytest.approx(-0.1)
    with pytest.raises(ValueError, match="0 calls are needed"):
        process_reward(succeeded=0, timed_out=0, needed=0)


@given(succeeded=COUNTS, timed_out=COUNTS, needed=st.integers(1, 50), more=COUNTS)
def test_neither_more_calls_than_needed_nor_more_timeouts_change_a_reward_without_bound(
    succeeded: int, timed_out: int, needed: int, more: int
) -> None:
    reward = process_reward(succeeded=needed, timed_out=timed_out, needed=needed)
    assert process_reward(succeeded=needed + more, timed_out=timed_out, needed=needed) == reward
    least, most = -0.1 - 1e-9, 0.05 + 1e-9
    assert least <= process_reward(succeeded=succeeded, timed_out=timed_out, needed=needed) <= most


def test_recommendations_are_rewarded_as_specified() -> None:
    def reward(**outcome: bool | str) -> float:
        return recommendation_reward(RecommendationOutcome(**{"format_valid": False, **outcome}))  # type: ignore[arg-type]

    assert reward(decision="accepted") == 1
    assert reward(decision="rejected") == -1
    assert reward(reliability_improved=True) == 0.5
    assert reward(format_valid=True) == 0.1
    assert reward() == 0
    applied = RecommendationOutcome(format_valid=True, applied=True, reliability_change=-0.2)
    assert recommendation_process_reward(applied) == pytest.approx(0.8)
    assert recommendation_process_reward(RecommendationOutcome(format_valid=True)) == 0
