"""The circuit breaker leaves a failing endpoint alone and tries it with one request at a time."""

from flywheel.arbiter.agents.circuit_breaker import LONGEST_REST_S, CircuitBreaker, Pass


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def entered(breaker: CircuitBreaker) -> Pass:
    request = breaker.enter()
    assert isinstance(request, Pass), request
    return request


def opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(failures=3, first_rest_s=5, clock=clock)
    for _ in range(3):
        breaker.failed(entered(breaker), "it answered 500")
    return breaker


def test_it_opens_after_so_many_failures_in_a_row_and_a_success_between_counts_anew() -> None:
    breaker = CircuitBreaker(failures=3, clock=Clock())
    for _ in range(5):
        breaker.failed(entered(breaker), "x")
        breaker.failed(entered(breaker), "x")
        breaker.succeeded(entered(breaker))
    assert breaker.state == "closed"
    assert opened(Clock()).state == "open"


def test_while_it_is_open_nothing_goes_through_and_the_reason_is_told() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 4.0
    assert breaker.enter() == ("the endpoint failed 3 times in a row and is left alone for 1.0 s more: it answered 500")
    assert (breaker.rest_s, breaker.reason) == (1.0, "it answered 500")


def test_half_open_lets_one_request_through_until_it_has_ended() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 5.0
    assert breaker.state == "half-open"
    first = entered(breaker)
    assert "until the one that tries it has ended" in str(breaker.enter())
    breaker.abandoned(first)
    second = entered(breaker)  # who gave up made room for another
    breaker.succeeded(second)
    assert (breaker.state, breaker.rest_s, breaker.reason) == ("closed", 0.0, "")


def test_each_trial_that_fails_doubles_the_rest_up_to_a_bound() -> None:
    clock = Clock()
    breaker = opened(clock)
    rests = []
    for _ in range(8):
        clock.now += breaker.rest_s
        breaker.failed(entered(breaker), "it answered 503")
        rests.append(breaker.rest_s)
    assert rests == [10, 20, 40, 80, 160, LONGEST_REST_S, LONGEST_REST_S, LONGEST_REST_S]
    assert breaker.reason == "it answered 503"


def test_stragglers_of_before_it_opened_change_nothing_while_it_is_open() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, first_rest_s=5, clock=clock)
    slow, slower, failing = (entered(breaker) for _ in range(3))
    breaker.failed(failing, "it answered 500")
    clock.now = 3.0
    breaker.failed(slow, "sent before")
    assert (breaker.rest_s, breaker.reason) == (2.0, "it answered 500")
    breaker.succeeded(slower)
    assert breaker.state == "open", "what it could do before it failed is not news"


def test_stragglers_do_not_decide_the_trial_and_let_no_second_one_through() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, first_rest_s=5, clock=clock)
    good, bad, gone, failing = (entered(breaker) for _ in range(4))
    breaker.failed(failing, "it answered 500")
    clock.now = 5.0
    trial = entered(breaker)
    breaker.failed(bad, "sent before")
    breaker.abandoned(gone)
    breaker.succeeded(good)
    assert breaker.state == "half-open"
    assert "until the one that tries it has ended" in str(breaker.enter())
    breaker.failed(trial, "it answered 502")
    assert (breaker.rest_s, breaker.reason) == (10.0, "it answered 502")


def test_after_it_closed_again_failures_of_before_count_no_more() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=1, first_rest_s=5, clock=clock)
    slow, failing = entered(breaker), entered(breaker)
    breaker.failed(failing, "it answered 500")
    clock.now = 5.0
    breaker.succeeded(entered(breaker))
    breaker.failed(slow, "sent before")
    assert breaker.state == "closed"
