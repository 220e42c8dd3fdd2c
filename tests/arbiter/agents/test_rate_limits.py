"""No minute has more requests or tokens than the limit, and nobody waits longer than needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.agents.rate_limits import MINUTE_S, Booking, RateLimits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(st.tuples(st.floats(0, 40), st.integers(1, 120)), max_size=40),
    st.integers(1, 5),
    st.integers(100, 300),
)
def test_no_minute_has_more_than_the_limits(arrivals: list[tuple[float, int]], requests: int, tokens: int) -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    sent: list[tuple[float, int]] = []
    for pause, wanted in arrivals:
        clock.now += pause
        for _ in range(1_000):
            found = limits.book(wanted, requests_per_minute=requests, tokens_per_minute=tokens)
            if isinstance(found, Booking):
                break
            assert found > 0
            clock.now += max(found, 1e-9)
        else:
            pytest.fail("it never became possible")
        sent.append((clock.now, wanted))
    for at, _ in sent:
        minute = [count for moment, count in sent if at - MINUTE_S + 1e-6 < moment <= at]
        assert len(minute) <= requests
        assert sum(minute) <= tokens or len(minute) == 1


def test_what_was_thought_to_take_more_than_it_did_makes_room() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    first = limits.book(90, requests_per_minute=None, tokens_per_minute=100)
    assert isinstance(first, Booking)
    assert limits.book(50, requests_per_minute=None, tokens_per_minute=100) == MINUTE_S
    limits.settle(first, tokens=20)
    assert isinstance(limits.book(50, requests_per_minute=None, tokens_per_minute=100), Booking)
    clock.now = 2 * MINUTE_S
    limits.settle(first, tokens=10_000)
    assert isinstance(limits.book(90, requests_per_minute=None, tokens_per_minute=100), Booking), "long forgotten"


def test_a_pause_holds_for_everybody_and_a_shorter_one_does_not_end_it() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    limits.pause(30)
    limits.pause(1)
    assert limits.book(1, requests_per_minute=None, tokens_per_minute=None) == 30
    clock.now = 30
    assert isinstance(limits.book(1, requests_per_minute=None, tokens_per_minute=None), Booking)
