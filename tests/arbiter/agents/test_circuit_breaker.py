"""The circuit breaker leaves a failing endpoint alone and tries it with one request at a time."""

from flywheel.arbiter.agents.circuit_breaker import LONGEST_REST_S, CircuitBreaker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(failures=3, first_rest_s=5, clock=clock)
    for _ in range(3):
        assert breaker.why_not() == ""
        breaker.failed("it answered 500")
    return breaker


def test_it_opens_after_so_many_failures_in_a_row_and_a_success_between_counts_anew() -> None:
    breaker = CircuitBreaker(failures=3, clock=Clock())
    for _ in range(5):
        breaker.failed("x")
        breaker.failed("x")
        breaker.succeeded()
    assert breaker.state == "closed"
    assert opened(Clock()).state == "open"


def test_while_it_is_open_nothing_goes_through_and_the_reason_is_told() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 4.0
    assert breaker.why_not() == (
        "the endpoint failed 3 times in a row and is left alone for 1.0 s more: it answered 500"
    )
    assert (breaker.rest_s, breaker.reason) == (1.0, "it answered 500")


def test_half_open_lets_one_request_through_until_it_has_ended() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 5.0
    assert breaker.state == "half-open"
    assert breaker.why_not() == ""
    assert "until the one that tries it has ended" in breaker.why_not()
    breaker.abandoned()
    assert breaker.why_not() == "", "who gave up made room for another"
    breaker.succeeded()
    assert (breaker.state, breaker.rest_s, breaker.reason) == ("closed", 0.0, "")


def test_each_trial_that_fails_doubles_the_rest_up_to_a_bound() -> None:
    clock = Clock()
    breaker = opened(clock)
    rests = []
    for _ in range(8):
        clock.now += breaker.rest_s
        assert breaker.why_not() == ""
        breaker.failed("it answered 503")
        rests.append(breaker.rest_s)
    assert rests == [10, 20, 40, 80, 160, LONGEST_REST_S, LONGEST_REST_S, LONGEST_REST_S]
    assert breaker.reason == "it answered 503"


def test_stragglers_that_fail_while_it_is_open_change_nothing() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 3.0
    breaker.failed("sent before")
    assert breaker.rest_s == 2.0
