"""Rate limits: so many requests and tokens in any minute, and a pause where the other side asked for one."""

import threading
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

MINUTE_S = 60.0


class Booking(Struct):
    """A request that was sent, or is about to be: when, and how many tokens it is thought to take."""

    at: float
    tokens: int


class RateLimits:
    """What was sent in the last minute is remembered request by request, so that no minute has more than the limits.

    For several threads at once. Nothing waits here: ``book`` says how long the caller has to.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was sent yet; ``clock`` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: deque[Booking] = deque()
        self._tokens = 0
        self._not_before = 0.0

    def book(self, tokens: int, *, requests_per_minute: int | None, tokens_per_minute: int | None) -> Booking | float:
        """Take a place for one request, or tell how many seconds to wait before asking again.

        Args:
            tokens: that it is thought to take, in and out. A request of more than a whole minute's is sent when nothing
                else was.
            requests_per_minute: the limit; None: there is none.
            tokens_per_minute: the same.
        """
        with self._lock:
            now = self._clock()
            self._forget(now)
            if now < self._not_before:
                return self._not_before - now
            if requests_per_minute is not None and len(self._sent) >= requests_per_minute:
                return self._sent[-requests_per_minute].at + MINUTE_S - now
            if tokens_per_minute is not None and self._sent and self._tokens + tokens > tokens_per_minute:
                return self._until_fits(tokens, tokens_per_minute) - now
            booking = Booking(at=now, tokens=tokens)
            self._sent.append(booking)
            self._tokens += tokens
            return booking

    def settle(self, booking: Booking, *, tokens: int) -> None:
        """Correct a booking by what the request really took."""
        with self._lock:
            if any(sent is booking for sent in self._sent):
                self._tokens += tokens - booking.tokens
                booking.tokens = tokens

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the other side asked for it."""
        with self._lock:
            self._not_before = max(self._not_before, self._clock() + seconds)

    def _until_fits(self, tokens: int, limit: int) -> float:
        """The moment at which enough has left the minute for so many tokens, or all has."""
        left = self._tokens
        for booking in self._sent:
            left -= booking.tokens
            if left + tokens <= limit:
                return booking.at + MINUTE_S
        return self._sent[-1].at + MINUTE_S

    def _forget(self, now: float) -> None:
        while self._sent and self._sent[0].at + MINUTE_S <= now:
            self._tokens -= self._sent.popleft().tokens
