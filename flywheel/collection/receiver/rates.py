"""How much one key may send: a bucket of items that fills at a steady rate and may be overdrawn once."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

REMEMBERED = 10_000


class RateLimiter:
    """A bucket for each key of this receiver. Safe for threads.

    A request passes while its key's bucket holds anything, and takes its items out even below zero: a request that is
    larger than the bucket is not refused for ever, and the rate holds over time.
    """

    def __init__(self, *, items_per_s: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = items_per_s
        self._burst = float(burst)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key_id: str) -> float:
        """Seconds until the key may send again; 0: now."""
        with self._lock:
            held = self._held(key_id)
        return 0.0 if held > 0 else (1.0 - held) / self._rate

    def take(self, key_id: str, items: int) -> None:
        """Account for items that came."""
        with self._lock:
            self._buckets[key_id] = (self._held(key_id) - items, self._monotonic())
            self._buckets.move_to_end(key_id)
            while len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)

    def _held(self, key_id: str) -> float:
        held, at = self._buckets.get(key_id, (self._burst, self._monotonic()))
        return min(self._burst, held + (self._monotonic() - at) * self._rate)
