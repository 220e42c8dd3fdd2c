"""The routers' cache: what it answers, how old it says it is, and what it says when it cannot be refreshed."""

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from flywheel.errors import PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.routing_statistics import RoutingStatistics
from tests.pool.queries.points import FIRST_DAY, fill, noon

NOW = noon(FIRST_DAY + timedelta(days=40))


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def counted(pool: BenchmarkPool) -> BenchmarkPool:
    """A day long ago with 12 tasks, a recent one with 24."""
    fill(pool, [FIRST_DAY], tasks=12)
    fill(pool, [FIRST_DAY + timedelta(days=20)], tasks=24)
    return pool


@pytest.fixture
def cache(counted: BenchmarkPool, clock: Clock) -> Iterator[RoutingStatistics]:
    with RoutingStatistics(counted, refresh_s=3600, window_days=30, clock=clock) as started:
        yield started


def test_the_cache_says_what_the_database_says_of_late_and_since_ever(
    counted: BenchmarkPool, cache: RoutingStatistics
) -> None:
    everything = counted.get_agent_statistics("agent-a")
    found = cache.of("agent-a")
    assert (found.all_time.tasks, found.recent.tasks) == (everything.tasks, 8) == (12, 8)
    assert found.all_time.mean_quality == pytest.approx(everything.mean_quality)
    research = cache.of("agent-a", "research")
    assert research.all_time.tasks == everything.by_task_type["research"].tasks
    nobody = cache.of("nobody", "research")
    assert (nobody.all_time.tasks, nobody.recent.success_rate, nobody.age_s) == (0, None, 0.0)


@pytest.mark.parametrize(("window_days", "recent"), [(20, 0), (21, 8), (40, 8), (41, 12)])
def test_the_window_is_of_whole_days_and_includes_today(
    counted: BenchmarkPool, clock: Clock, window_days: int, recent: int
) -> None:
    with RoutingStatistics(counted, refresh_s=3600, window_days=window_days, clock=clock) as cache:
        assert cache.of("agent-a").recent.tasks == recent


def test_an_answer_grows_old_until_it_is_refreshed(
    counted: BenchmarkPool, cache: RoutingStatistics, clock: Clock
) -> None:
    fill(counted, [FIRST_DAY + timedelta(days=30)], tasks=12)
    clock.advance(12.5)
    assert (cache.of("agent-a").age_s, cache.of("agent-a").all_time.tasks) == (12.5, 12)
    assert cache.refresh()
    assert (cache.of("agent-a").age_s, cache.of("agent-a").all_time.tasks) == (0.0, 16)


def test_a_failed_refresh_keeps_the_figures_and_says_so_until_one_succeeds(
    counted: BenchmarkPool, cache: RoutingStatistics, clock: Clock
) -> None:
    with counted.transaction() as connection:
        connection.execute("ALTER TABLE daily_statistics RENAME TO elsewhere")
    clock.advance(30)
    assert not cache.refresh()
    clock.advance(30)
    assert not cache.refresh()
    found = cache.of("agent-a")
    assert (found.all_time.tasks, found.age_s, found.failed_refreshes) == (12, 60.0, 2)
    assert found.error is not None
    assert "daily_statistics" in found.error
    with counted.transaction() as connection:
        connection.execute("ALTER TABLE elsewhere RENAME TO daily_statistics")
    assert cache.refresh()
    found = cache.of("agent-a")
    assert (found.age_s, found.failed_refreshes, found.error) == (0.0, 0, None)


def test_before_the_first_refresh_there_is_no_answer_but_the_reason(counted: BenchmarkPool, clock: Clock) -> None:
    cache = RoutingStatistics(counted, refresh_s=3600, clock=clock)
    with pytest.raises(PoolError, match="the first refresh is under way"):
        cache.of("agent-a")
    with counted.transaction() as connection:
        connection.execute("DROP TABLE daily_statistics")
    with cache, pytest.raises(PoolError, match="daily_statistics"):
        cache.of("agent-a")


def test_it_refreshes_by_itself_until_it_is_stopped(counted: BenchmarkPool) -> None:
    with RoutingStatistics(counted, refresh_s=0.05) as cache:
        deadline = time.monotonic() + 20
        fill(counted, [FIRST_DAY + timedelta(days=30)], tasks=12)
        while cache.of("agent-a").all_time.tasks < 16:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert "routing-statistics" not in [thread.name for thread in threading.enumerate()]
    cache.stop()


def test_half_a_refresh_is_never_seen(counted: BenchmarkPool, clock: Clock) -> None:
    """All agents change at once, and whoever asks meanwhile sees all of the old figures or all of the new ones."""
    cache = RoutingStatistics(counted, refresh_s=0.001, clock=clock)
    seen: set[tuple[int, int]] = set()
    with cache:
        for double in range(6):
            with counted.transaction() as connection:
                connection.execute("UPDATE daily_statistics SET tasks = tasks * 2")
            for _ in range(300):
                snapshot = cache._state.snapshot
                assert snapshot is not None
                a, b = (snapshot.known[agent, None].all_time.tasks for agent in ("agent-a", "agent-b"))
                seen.add((a, b))
            assert double >= 0
    assert all(a == b for a, b in seen)
    assert len(seen) > 1
