"""Rewards of steps: the specification's numbers, and no pay for length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.rewards import tool_reward, turn_credits, turn_reward

SHARES = st.floats(0, 1)


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
