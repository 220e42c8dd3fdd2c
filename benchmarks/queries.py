"""Statistics of an agent, as a router or a report asks for them, beside a plain table of points in the same PostgreSQL.

``python benchmarks/queries.py [--points 1000000 5000000] [--calls 1000] [--json]``. 100 agents, 10 task types, three
complexities; 1 million points are spread over 30 days, 5 million over 150. Milliseconds a call, p50 and p99, each call
about another agent:

- cached: ``RoutingStatistics.of``;
- database: ``BenchmarkPool.get_agent_statistics`` over all time, with its transaction, its coverage and its structs;
- database, a week: the same for one task type since a moment in the middle of a day;
- SELECT 1: a transaction that asks nothing, for how busy the machine is;
- plain: one row per point, indexed by agent and time, grouped by task type in one statement on an open connection.

What is cached, what the database answers and what the plain table says is compared before it is measured.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from _installation import empty_installation
from psycopg import Connection

from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.routing_statistics import RoutingStatistics

AGENTS, TASK_TYPES, POINTS_A_DAY = 100, 10, 1_000_000 // 30
NOW = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
POINTS = """
CREATE TABLE plain_points AS
SELECT number AS id, 'agent-' || floor(random() * %(agents)s) AS agent_id,
    'type-' || floor(random() * %(types)s) AS task_type,
    (ARRAY['trivial', 'standard', 'complex'])[1 + floor(random() * 3)::int] AS complexity,
    %(now)s::timestamptz - number * interval '1 day' / %(a_day)s AS timestamp,
    random() < 0.7 AS success, random() AS overall_score, 200 + 5000 * random() AS latency_ms,
    (100 + 4000 * random())::bigint AS tokens_used
FROM generate_series(1, %(points)s) AS number
"""
SUMS = "count(*), count(*) FILTER (WHERE success), sum(overall_score), sum(latency_ms), sum(tokens_used)"
ROLL_UPS = (
    "INSERT INTO agent_statistics (hour, agent_id, task_type, day, tasks, successes, quality_sum, latency_ms_sum,"
    " tokens_sum) SELECT date_trunc('hour', timestamp), agent_id, task_type, (timestamp AT TIME ZONE 'UTC')::date,"
    " {sums} FROM plain_points GROUP BY 4, 1, 2, 3 ORDER BY 4, 1, 2, 3",
    "INSERT INTO daily_statistics (agent_id, date, task_type, complexity, day, tasks, successes, quality_sum,"
    " latency_ms_sum, tokens_sum) SELECT agent_id, (timestamp AT TIME ZONE 'UTC')::date, task_type, complexity,"
    " (timestamp AT TIME ZONE 'UTC')::date, {sums} FROM plain_points GROUP BY 2, 1, 3, 4 ORDER BY 2, 1, 3, 4",
    "INSERT INTO days (day, revision, changed_at, statistics_revision, points)"
    " SELECT date, 1, now(), 1, sum(tasks) FROM daily_statistics GROUP BY date",
    "INSERT INTO tier_days (tier, day, revision, rows, digest, placed_at)"
    " SELECT tier, day, 1, points, '', now() FROM days, unnest(ARRAY['warm', 'cold']) AS tier",
    "CREATE INDEX ON plain_points (agent_id, timestamp)",
)
PLAIN = f"SELECT task_type, {SUMS} FROM plain_points WHERE agent_id = %s GROUP BY task_type"  # noqa: S608 - constants


def fill(connection: "Connection[Any]", points: int) -> None:
    """A plain table of points, and the statistics that the pool's days would have counted from them."""
    connection.execute("DROP TABLE IF EXISTS plain_points")
    connection.execute("TRUNCATE agent_statistics, daily_statistics, days, tier_days")
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        POINTS, {"agents": AGENTS, "types": TASK_TYPES, "now": NOW, "a_day": POINTS_A_DAY, "points": points}
    )
    for statement in ROLL_UPS:
        connection.execute(statement.format(sums=SUMS))
    connection.execute("ANALYZE plain_points, agent_statistics, daily_statistics, days, tier_days")


def milliseconds(call: Callable[[str], object], *, calls: int) -> dict[str, float]:
    """The time of a call, each about an agent chosen at random; the first tenth is for warming up."""
    chance = random.Random(0)
    took: list[float] = []
    for _ in range(calls + calls // 10):
        agent = f"agent-{chance.randrange(AGENTS)}"
        started = time.perf_counter()
        call(agent)
        took.append(1_000 * (time.perf_counter() - started))
    took = sorted(took[calls // 10 :])
    return {"p50_ms": took[len(took) // 2], "p99_ms": took[int(len(took) * 0.99)]}


def measured(pool: BenchmarkPool, *, points: int, calls: int) -> dict[str, Any]:
    """All figures at one size."""
    with pool.transaction() as connection:
        fill(connection, points)
    week = PointFilter(task_types=("type-3",), since=NOW - timedelta(days=7, hours=5))
    with RoutingStatistics(pool, refresh_s=3600) as cache, pool.transaction() as connection:

        def nothing(_: str) -> None:
            with pool.transaction() as other:
                other.execute("SELECT 1").fetchone()

        def plain(agent: str) -> list[Any]:
            return connection.execute(PLAIN, (agent,)).fetchall()

        for agent in ("agent-0", "agent-7"):
            tasks = sum(row[1] for row in plain(agent))
            found = pool.get_agent_statistics(agent).tasks, cache.of(agent).all_time.tasks
            if found != (tasks, tasks):
                raise SystemExit(f"{agent} has {tasks:,} tasks in the plain table, {found} in the pool and its cache")
        refresh_started = time.perf_counter()
        cache.refresh()
        refresh_s = time.perf_counter() - refresh_started
        return {
            "points": points,
            "hours": count(connection, "agent_statistics"),
            "roll_ups": count(connection, "daily_statistics"),
            "refresh_s": refresh_s,
            "cached": milliseconds(lambda agent: cache.of(agent, "type-3"), calls=max(calls, 100_000)),
            "database": milliseconds(pool.get_agent_statistics, calls=calls),
            "database, a week": milliseconds(lambda agent: pool.get_agent_statistics(agent, week), calls=calls),
            "plain": milliseconds(plain, calls=calls),
            "SELECT 1": milliseconds(nothing, calls=calls),
            "system, by complexity": milliseconds(lambda _: pool.get_system_statistics("complexity"), calls=10),
        }


def count(connection: "Connection[Any]", table: str) -> int:
    """Rows of a table."""
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    with empty_installation() as settings, BenchmarkPool.open(settings) as pool:
        figures = [measured(pool, points=points, calls=arguments.calls) for points in arguments.points]
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for size in figures:
        sys.stdout.write(
            f"{size['points']:,} points, {size['hours']:,} hours, {size['roll_ups']:,} roll-ups;"
            f" a refresh of the cache takes {size['refresh_s']:.2f} s\n"
        )
        for name, value in size.items():
            if isinstance(value, dict):
                ratio = size["plain"]["p50_ms"] / value["p50_ms"]
                sys.stdout.write(
                    f"  {name:<24}p50 {value['p50_ms']:>9.4f} ms   p99 {value['p99_ms']:>9.4f} ms"
                    f"   {ratio:>9,.1f} times as fast as plain\n"
                )


if __name__ == "__main__":
    main()
