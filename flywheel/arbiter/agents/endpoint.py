"""An endpoint as all agents of a process share it: its connections, its circuit breaker, its rate limits."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from msgspec import Struct

from flywheel.arbiter.agents.circuit_breaker import CircuitBreaker
from flywheel.arbiter.agents.rate_limits import RateLimits

Clock = Callable[[], float]


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where one model of one endpoint is asked with one key.

    Attributes:
        client: of the background loop; keeps connections open.
        breaker: of the whole endpoint, whatever the model.
        limits: of this model with this key.
        clock: seconds that never go back; of breaker, limits and deadlines.
    """

    client: httpx.AsyncClient
    breaker: CircuitBreaker
    limits: RateLimits
    clock: Clock


class Endpoints:
    """The endpoints of a process. One is made when it is first asked for, and kept."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[httpx.AsyncClient, CircuitBreaker]] = {}
        self._limits: dict[tuple[str, str, str], RateLimits] = {}

    def get(self, base_url: str, *, model: str, api_key_env: str) -> Endpoint:
        """The endpoint behind a base URL; agents with the same model and key share their limits."""
        url = base_url.rstrip("/")
        with self._lock:
            if url not in self._clients:
                # The agents' limits bound how many there are at once; each request has its own deadline.
                client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))  # noqa: S113
                self._clients[url] = (client, CircuitBreaker(clock=self._clock))
            client, breaker = self._clients[url]
            limits = self._limits.setdefault((url, model, api_key_env), RateLimits(clock=self._clock))
        return Endpoint(client=client, breaker=breaker, limits=limits, clock=self._clock)


def retry_after_s(response: httpx.Response) -> float | None:
    """How long a response asks to wait (RFC 9110 section 10.2.3: seconds or a date); None where it does not."""
    told = response.headers.get("retry-after", "").strip()
    if told.isdecimal():
        return float(told)
    try:
        moment = parsedate_to_datetime(told)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (zoned - datetime.now(UTC)).total_seconds())
