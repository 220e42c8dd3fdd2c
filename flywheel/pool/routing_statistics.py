"""Statistics for routing, in memory: who does which task type how well, of late and since ever.

One query makes a snapshot of all agents; a thread makes the next one every some seconds and puts it in the place of the
last in one assignment, so that asking takes no lock and no database. Every answer says how old it is and, where the
last refresh failed, why: an old answer is never taken for a new one.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import psycopg
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from flywheel.errors import FlywheelError, PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.statistics import Figures, figures_of
from flywheel.pool.queries.sums import tally_of
from flywheel.pool.statistics import Tally

logger = logging.getLogger(__name__)

FIGURES = """
SELECT agent_id, task_type,
    sum(tasks), sum(successes), sum(quality_sum), sum(latency_ms_sum), sum(tokens_sum),
    sum(coalesce(timed_tasks, tasks)),
    coalesce(sum(tasks) FILTER (WHERE recent), 0), coalesce(sum(successes) FILTER (WHERE recent), 0),
    coalesce(sum(quality_sum) FILTER (WHERE recent), 0), coalesce(sum(latency_ms_sum) FILTER (WHERE recent), 0),
    coalesce(sum(tokens_sum) FILTER (WHERE recent), 0),
    coalesce(sum(coalesce(timed_tasks, tasks)) FILTER (WHERE recent), 0)
FROM (SELECT *, date > %s AS recent FROM daily_statistics) AS statistics
GROUP BY agent_id, task_type
"""
NOTHING = figures_of(Tally())


class Known(Struct, frozen=True):
    """What is known of an agent in one task type, or in all."""

    recent: Figures = NOTHING
    all_time: Figures = NOTHING


UNKNOWN = Known()


class Snapshot(Struct, frozen=True):
    """All agents at one moment; the task type None is all of an agent's together."""

    taken_at: datetime
    known: dict[tuple[str, str | None], Known]


class State(Struct, frozen=True):
    """The last snapshot, how many refreshes failed since, and what the last of these said."""

    snapshot: Snapshot | None = None
    failures: int = 0
    error: str | None = None


class RoutingAnswer(Struct, frozen=True, kw_only=True):
    """What a router is told. ``recent`` is of the last ``window_days`` UTC days, today included.

    ``age_s`` is how old the figures are, in seconds; ``failed_refreshes`` counts those since then, and ``error`` is
    what the last of them said.
    """

    agent_id: str
    task_type: str | None
    window_days: int
    recent: Figures
    all_time: Figures
    age_s: float
    failed_refreshes: int
    error: str | None


class RoutingStatistics:
    """The cache. Use it as a context manager, or ``start`` and ``stop`` it. Safe for threads.

    Args:
        pool: whose statistics.
        refresh_s: seconds between refreshes; from the settings where absent.
        window_days: what counts as recent; from the settings where absent.
        clock: tells the time; the pool's where absent.
    """

    def __init__(
        self,
        pool: BenchmarkPool,
        *,
        refresh_s: float | None = None,
        window_days: int | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._pool = pool
        self.refresh_s = refresh_s or pool.settings.routing_statistics.refresh_s
        self.window_days = window_days or pool.settings.routing_statistics.window_days
        self._clock = clock or pool.now
        self._state = State()
        self._refreshing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def refresh(self) -> bool:
        """Take a new snapshot; whether that worked. Where it did not the old one stays, and its answers say so."""
        with self._refreshing:
            taken_at = self._clock()
            try:
                self._state = State(Snapshot(taken_at, self._read(taken_at)))
            except (FlywheelError, psycopg.Error, SQLAlchemyError) as error:
                self._state = State(self._state.snapshot, self._state.failures + 1, str(error))
                logger.warning("statistics for routing were not refreshed: %s", error)
            return self._state.error is None

    def _read(self, now: datetime) -> dict[tuple[str, str | None], Known]:
        before = now.astimezone(UTC).date() - timedelta(days=self.window_days)
        with self._pool.transaction() as connection:
            rows = connection.execute(FIGURES, (before,)).fetchall()
        known: dict[tuple[str, str | None], Known] = {}
        totals: dict[str, tuple[Tally, Tally]] = defaultdict(lambda: (Tally(), Tally()))
        for agent_id, task_type, *sums in rows:
            all_time, recent = tally_of(sums[:6]), tally_of(sums[6:])
            known[agent_id, task_type] = Known(figures_of(recent), figures_of(all_time))
            totals[agent_id][0].merge(recent)
            totals[agent_id][1].merge(all_time)
        for agent_id, (recent, all_time) in totals.items():
            known[agent_id, None] = Known(figures_of(recent), figures_of(all_time))
        return known

    def of(self, agent_id: str, task_type: str | None = None) -> RoutingAnswer:
        """What is known of an agent, in a task type or in all; no tasks where it is not known.

        Raises:
            PoolError: no refresh has succeeded yet.
        """
        state = self._state
        snapshot = loaded(state)
        found = snapshot.known.get((agent_id, task_type), UNKNOWN)
        return RoutingAnswer(
            agent_id=agent_id,
            task_type=task_type,
            window_days=self.window_days,
            recent=found.recent,
            all_time=found.all_time,
            age_s=self._age_s(snapshot),
            failed_refreshes=state.failures,
            error=state.error,
        )

    @property
    def age_s(self) -> float:
        """How old the figures are, in seconds.

        Raises:
            PoolError: no refresh has succeeded yet.
        """
        return self._age_s(loaded(self._state))

    @property
    def error(self) -> str | None:
        """What the last refresh said, if it failed."""
        return self._state.error

    def _age_s(self, snapshot: Snapshot) -> float:
        return max(0.0, (self._clock() - snapshot.taken_at).total_seconds())

    def start(self) -> Self:
        """Refresh once, then every ``refresh_s`` seconds in a thread of its own. A failure is no hindrance to start."""
        if self._thread is None:
            self.refresh()
            self._stopping.clear()
            self._thread = threading.Thread(target=self._keep_fresh, name="routing-statistics", daemon=True)
            self._thread.start()
        return self

    def _keep_fresh(self) -> None:
        while not self._stopping.wait(self.refresh_s):
            self.refresh()

    def stop(self) -> None:
        """End the thread and wait for it; a refresh under way is finished. What is known stays, and grows old."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def loaded(state: State) -> Snapshot:
    """The snapshot.

    Raises:
        PoolError: there is none yet.
    """
    if state.snapshot is None:
        reason = state.error or "the first refresh is under way"
        raise PoolError(f"statistics for routing are not there yet: {reason}")
    return state.snapshot
