"""A circuit breaker: an endpoint that keeps failing is left alone for a while, then tried by one request."""

import threading
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

State = Literal["closed", "open", "half-open"]
FAILURES = 5
"""Failures in a row that open it."""
FIRST_REST_S = 5.0
LONGEST_REST_S = 300.0


class Pass(Struct, frozen=True):
    """Lets one request through. It ends in one of ``succeeded``, ``failed`` and ``abandoned``.

    ``era`` counts how often the breaker changed until then: what a request of an earlier era comes to says nothing
    about the endpoint as it is now.
    """

    era: int


class CircuitBreaker:
    """Closed: requests go through. Open: none does. Half-open: one does, and by how it ends it closes or opens again.

    Each time that trial fails the rest is twice as long. Requests that were sent before it opened decide nothing after
    that, however late they end. For several threads at once.
    """

    def __init__(
        self,
        *,
        failures: int = FAILURES,
        first_rest_s: float = FIRST_REST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Closed.

        Args:
            failures: in a row, that open it.
            first_rest_s: how long it is open the first time.
            clock: seconds that never go back.
        """
        self._threshold = failures
        self._first_rest_s = first_rest_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._rest_s = first_rest_s
        self._opened_until: float | None = None
        self._trial = False
        self._reason = ""
        self._era = 0

    @property
    def state(self) -> State:
        """What would become of a request now."""
        with self._lock:
            if self._opened_until is None:
                return "closed"
            return "open" if self._clock() < self._opened_until else "half-open"

    @property
    def rest_s(self) -> float:
        """Seconds until a request may be tried; 0 where none is kept back."""
        with self._lock:
            return 0.0 if self._opened_until is None else max(0.0, self._opened_until - self._clock())

    @property
    def reason(self) -> str:
        """The failure that opened it; empty where it is closed."""
        with self._lock:
            return self._reason if self._opened_until is not None else ""

    def enter(self) -> Pass | str:
        """Let a request through; or why none may be sent now."""
        with self._lock:
            if self._opened_until is None:
                return Pass(self._era)
            rest_s = self._opened_until - self._clock()
            if rest_s <= 0 and not self._trial:
                self._trial = True
                return Pass(self._era)
            when = f"for {rest_s:.1f} s more" if rest_s > 0 else "until the one that tries it has ended"
            return f"the endpoint failed {self._failures} times in a row and is left alone {when}: {self._reason}"

    def succeeded(self, request: Pass) -> None:
        """The endpoint answered."""
        with self._lock:
            if request.era != self._era:
                return
            self._failures, self._rest_s = 0, self._first_rest_s
            if self._opened_until is not None:
                self._opened_until, self._trial = None, False
                self._era += 1

    def failed(self, request: Pass, reason: str) -> None:
        """The endpoint did not answer, or said that it cannot."""
        with self._lock:
            if request.era != self._era:
                return
            self._failures += 1
            again = self._trial
            if again:
                self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
            if again or self._failures >= self._threshold:
                self._opened_until, self._trial = self._clock() + self._rest_s, False
                self._reason = reason
                self._era += 1

    def abandoned(self, request: Pass) -> None:
        """The request was given up by its caller, which says nothing about the endpoint."""
        with self._lock:
            if request.era == self._era:
                self._trial = False
