"""What is older than its place leaves it: copied to the next tier, verified there, then deleted (SPEC section 5).

Every step can be repeated: a run that was killed is finished by the next one. Full points also lie in the tables that
the tiers are made from; they go when the warm tier gives the day up, and the ledger says so, so that nobody makes an
old day's aggregates anew from nothing.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Literal, get_args

from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.intake import points_removed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, COLD, POINT_COLUMNS, VALIDATED, WARM
from flywheel.pool.tiers import age_days, aggregate_cold, place_hot, place_warm, stored_points

Store = Literal["hot", "warm", "points", "cold", "statistics", "quarantine"]


class Expired(Struct, frozen=True, kw_only=True):
    """Something of a day that is older than its place. ``points`` are the tables that the tiers are made from."""

    store: Store
    day: date
    rows: int


class RetentionReport(Struct, frozen=True, kw_only=True):
    """What was removed, and how many files of replaced versions the lake no longer keeps."""

    removed: tuple[Expired, ...]
    files: int


def find_expired(pool: BenchmarkPool, *, now: datetime) -> tuple[Expired, ...]:
    """What ``enforce_retention`` would remove, oldest day first, in the order in which it would.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    settings = pool.settings
    limits = {"hot": settings.hot_days, "warm": settings.warm_days, "cold": settings.cold_days}
    last_kept = now.date() - timedelta(days=settings.cold_days)
    held = {day for table in (VALIDATED, ANONYMIZED) for day in pool.lake.partitions(table)}
    with pool.transaction() as connection:
        found = [
            Expired(store=tier, day=day, rows=rows)
            for tier, day, rows in connection.execute("SELECT tier, day, rows FROM tier_days WHERE rows > 0")
            if age_days(day, now=now) > limits[tier]
        ]
        found += [
            Expired(store="points", day=day, rows=points)
            for day, points in connection.execute("SELECT day, points FROM days")
            if age_days(day, now=now) > settings.warm_days and str(day) in held
        ]
        found += aged_rows(connection, "statistics", "agent_statistics", last_kept)
        found += aged_rows(connection, "quarantine", "quarantine", last_kept)
    order = get_args(Store)
    return tuple(sorted(found, key=lambda item: (item.day, order.index(item.store))))


def aged_rows(connection: Connection[Any], store: Store, table: str, last_kept: date) -> list[Expired]:
    """Days before the last kept one that still have rows in a table of PostgreSQL."""
    query = {
        "agent_statistics": "SELECT day, count(*) FROM agent_statistics WHERE day < %s GROUP BY day",
        "quarantine": "SELECT day, count(*) FROM quarantine WHERE day < %s GROUP BY day",
    }[table]
    return [Expired(store=store, day=day, rows=rows) for day, rows in connection.execute(query, (last_kept,))]


def enforce_retention(pool: BenchmarkPool, *, now: datetime) -> RetentionReport:
    """Remove what is older than its place, each day's from hot to cold, then the lake's replaced versions.

    Raises:
        PoolError: the next tier does not hold what a tier would give up; that day was left as it is.
        DatabaseError: PostgreSQL cannot be used.
    """
    steps: dict[Store, Callable[[BenchmarkPool, date, datetime], object]] = {
        "hot": leave_hot,
        "warm": leave_warm,
        "points": remove_points,
        "cold": lambda pool, day, now: aggregate_cold(pool, day, now=now),
        "statistics": remove_statistics,
        "quarantine": remove_quarantine,
    }
    removed = find_expired(pool, now=now)
    for item in removed:
        steps[item.store](pool, item.day, now)
    tables = (VALIDATED, ANONYMIZED, WARM, COLD)
    files = sum(pool.vacuum(table, keep_days=pool.settings.history_days) for table in tables)
    return RetentionReport(removed=removed, files=files)


def leave_hot(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the hot tier's day once the tier of its age has it."""
    keep_below(pool, day, now)
    place_hot(pool, day, now=now)


def leave_warm(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the warm tier's day once its aggregates are there."""
    keep_below(pool, day, now)
    place_warm(pool, day, now=now)


def remove_points(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the day in the tables that the tiers are made from, and say so in the ledger first."""
    with pool.exclusive(f"anonymization:{day}"):
        keep_below(pool, day, now)
        with pool.transaction() as connection:
            connection.execute("UPDATE days SET points_removed_at = %s WHERE day = %s", (now, day))
        for table in (ANONYMIZED, VALIDATED):
            pool.replace(table, day, (), schema=arrow_schema(POINT_COLUMNS))


def remove_statistics(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Delete the day's statistics and profiles."""
    del now
    with pool.transaction() as connection:
        connection.execute("DELETE FROM agent_statistics WHERE day = %s", (day,))
        connection.execute("DELETE FROM task_type_profiles WHERE day = %s", (day,))


def remove_quarantine(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Delete the day's quarantined lines, whatever was decided about them."""
    del now
    with pool.transaction() as connection:
        connection.execute("DELETE FROM quarantine WHERE day = %s", (day,))


def keep_below(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Make sure that the tier of the day's age holds it whole, made anew where it does not.

    Raises:
        PoolError: it still does not.
    """
    age = age_days(day, now=now)
    with pool.transaction() as connection:
        if age > pool.settings.cold_days or points_removed(connection, day):
            return
    if age <= pool.settings.warm_days:
        if not warm_is_whole(pool, day):
            place_warm(pool, day, now=now)
        whole = warm_is_whole(pool, day)
    else:
        if not cold_is_whole(pool, day):
            aggregate_cold(pool, day, now=now)
        whole = cold_is_whole(pool, day)
    if not whole:
        raise PoolError(f"the tier below does not hold {day} as it is; nothing of it was deleted. Run the day again")


def warm_is_whole(pool: BenchmarkPool, day: date) -> bool:
    """Whether the warm tier has the day's anonymized points, by count and digest."""
    warm, source = (stored_points(read_rows(pool, table, day, columns=("payload",))) for table in (WARM, ANONYMIZED))
    return warm == source


def cold_is_whole(pool: BenchmarkPool, day: date) -> bool:
    """Whether the day's aggregates count all of its anonymized points."""
    tasks = sum(int(row["tasks"]) for row in read_rows(pool, COLD, day, columns=("tasks",)))
    return tasks == sum(1 for _ in read_rows(pool, ANONYMIZED, day, columns=("id",)))
