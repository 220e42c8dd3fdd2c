"""What is older than its place leaves it: copied to the next tier, verified there, then deleted (SPEC section 5).

Only settled days are touched: all of their assets are of their last logs, and the privacy check found nothing. Every
step can be repeated: a run that was killed is finished by the next one. Full points also lie in the tables that the
tiers are made from; they go when the warm tier gives the day up, and the ledger says so, so that nobody makes an old
day's aggregates anew from nothing. After the cold tier's age everything goes, settled or not; the raw segments go with
it once no run of their days is due (``flywheel.pool.expired_segments``). Dead letters go after
``collection.dead_letter_days``, what verdicts say in the audit trail after ``verdict_days``; the chain itself stays.
"""

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct
from psycopg import Connection

from flywheel.arbiter.audit_trail.erasing import erase_verdicts_of_day, verdicts_by_day
from flywheel.arbiter.audit_trail.rotation import settled_key
from flywheel.collection.dead_letters import FOLDER, expired_letters, remove_expired_letters
from flywheel.errors import AuditTrailError, PoolError
from flywheel.pool.expired_segments import find_expired_segments, remove_segments
from flywheel.pool.intake import points_removed
from flywheel.pool.lake import Compaction
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, COLD, LAKE_TABLES, POINT_COLUMNS, VALIDATED, WARM
from flywheel.pool.tiers import Stored, age_days, aggregate_cold, place_hot, place_warm, stored_points
from flywheel.records import utc_day

Store = Literal[
    "hot", "warm", "points", "cold", "statistics", "quarantine", "waiting", "segments", "dead-letters", "verdicts"
]


class Expired(Struct, frozen=True, kw_only=True):
    """Something of a day that is older than its place. ``points`` are the tables that the tiers are made from.

    Of ``segments`` and ``dead-letters`` the rows are raw lines, and the day is the one on which they were written; of
    ``verdicts`` it is the one on which they came into the audit trail.
    """

    store: Store
    day: date
    rows: int


SETTLED_DAYS = """
SELECT days.day FROM days JOIN tier_days USING (day)
WHERE days.privacy_violations = 0
GROUP BY days.day
HAVING count(*) = 3 AND days.revision <= least(
    days.validated_revision, days.anonymized_revision, days.statistics_revision, min(tier_days.revision)
)
"""
AGED_ROWS: dict[Store, str] = {
    "statistics": "SELECT day, count(*) FROM agent_statistics WHERE day < %s GROUP BY day",
    "quarantine": "SELECT day, count(*) FROM quarantine WHERE day < %s GROUP BY day",
    "waiting": "SELECT day, count(*) FROM waiting_tasks WHERE day < %s GROUP BY day",
}


class RetentionReport(Struct, frozen=True, kw_only=True):
    """What was removed, how many files the lake's tables have after compaction, how many of old versions are gone."""

    removed: tuple[Expired, ...]
    compacted: tuple[Compaction, ...]
    files: int


def find_expired(pool: BenchmarkPool, *, now: datetime) -> tuple[Expired, ...]:
    """What ``enforce_retention`` would remove, oldest day first, in the order in which it would.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    settings = pool.settings
    limits = {"hot": settings.hot_days, "warm": settings.warm_days, "cold": settings.cold_days}
    last_kept = utc_day(now) - timedelta(days=settings.cold_days)
    in_lake = {day for table in (VALIDATED, ANONYMIZED) for day in pool.lake.partitions(table)}
    with pool.transaction() as connection:
        settled = settled_days(connection)
        found = [
            Expired(store=tier, day=day, rows=rows)
            for tier, day, rows in connection.execute("SELECT tier, day, rows FROM tier_days WHERE rows > 0")
            if age_days(day, now=now) > limits[tier] and (day in settled or day < last_kept)
        ]
        found += [
            Expired(store="points", day=day, rows=points)
            for day, points in connection.execute("SELECT day, points FROM days")
            if age_days(day, now=now) > settings.warm_days
            and str(day) in in_lake
            and (day in settled or day < last_kept)
        ]
        found += [
            Expired(store=store, day=day, rows=rows)
            for store, query in AGED_ROWS.items()
            for day, rows in connection.execute(query, (last_kept,))
        ]
        lines: Counter[date] = Counter()
        for segment in find_expired_segments(connection, last_kept=last_kept):
            lines[segment.written_day] += segment.lines
        found += [Expired(store="segments", day=day, rows=rows) for day, rows in lines.items()]
    found += [Expired(store="dead-letters", day=day, rows=rows) for day, rows in expired_lines(pool, now=now).items()]
    told = verdicts_by_day(pool.engine, before=utc_day(now) - timedelta(days=settings.verdict_days))
    found += [Expired(store="verdicts", day=day, rows=rows) for day, rows in told.items()]
    order = get_args(Store)
    return tuple(sorted(found, key=lambda item: (item.day, order.index(item.store))))


def expired_lines(pool: BenchmarkPool, *, now: datetime) -> Counter[date]:
    """The lines of dead letters that nobody brought back in time, by the day on which they were kept."""
    before = utc_day(now) - timedelta(days=pool.settings.collection.dead_letter_days)
    lines: Counter[date] = Counter()
    for folder in letter_folders(pool):
        for letter in expired_letters(folder, before=before):
            lines[letter.written_at.date()] += letter.logs
    return lines


def letter_folders(pool: BenchmarkPool) -> tuple[Path, Path]:
    """Where dead letters lie: logs that were not delivered, traces that were set aside."""
    return pool.settings.dead_letters_dir, pool.settings.spans_dir / FOLDER


def settled_days(connection: Connection[Any]) -> frozenset[date]:
    """Days that are up to date from logs to statistics and tiers, and whose points hold nothing personal."""
    return frozenset(day for (day,) in connection.execute(SETTLED_DAYS))


def enforce_retention(pool: BenchmarkPool, *, now: datetime) -> RetentionReport:
    """Remove what is older than its place, each day's from hot to cold, then compact the lake's tables and vacuum them.

    A day of which something cannot be removed is left as it then is; the others go on.

    Raises:
        PoolError: at the end, where the next tier of a day does not hold what a tier would give up, or this process
            has not the key that the audit trail is signed with.
        DatabaseError: PostgreSQL cannot be used.
    """
    steps: dict[Store, Callable[[BenchmarkPool, date, datetime], object]] = {
        "hot": leave_hot,
        "warm": leave_warm,
        "points": remove_points,
        "cold": leave_cold,
        "statistics": remove_statistics,
        "quarantine": remove_quarantine,
        "waiting": remove_waiting,
        "segments": remove_segments,
        "dead-letters": remove_letters,
        "verdicts": remove_verdicts,
    }
    removed: list[Expired] = []
    refusals: dict[date, str] = {}
    for item in find_expired(pool, now=now):
        if item.day in refusals:
            continue
        try:
            steps[item.store](pool, item.day, now)
        except (PoolError, AuditTrailError) as error:
            refusals[item.day] = str(error)
        else:
            removed.append(item)
    compacted = tuple(pool.compact(table) for table in LAKE_TABLES)
    files = sum(pool.vacuum(table, keep_days=pool.settings.history_days) for table in LAKE_TABLES)
    if refusals:
        raise PoolError(f"{len(refusals)} days were not cleared: {'; '.join(refusals.values())}")
    return RetentionReport(removed=tuple(removed), compacted=compacted, files=files)


def leave_hot(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the hot tier's day once the tier of its age has it."""
    keep_below(pool, day, now)
    place_hot(pool, day, now=now)


def leave_warm(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the warm tier's day once its aggregates are there."""
    keep_below(pool, day, now)
    place_warm(pool, day, now=now)


def leave_cold(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the cold tier's day: nothing is kept longer."""
    aggregate_cold(pool, day, now=now)


def remove_points(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Empty the day in the tables that the tiers are made from, and say so in the ledger first.

    Nobody writes or reads the day's points meanwhile; whether it still is settled is asked again.

    Raises:
        PoolError: it is not, or its aggregates are not of its points.
    """
    keep_below(pool, day, now)
    with pool.exclusive(f"validation:{day}"), pool.exclusive(f"anonymization:{day}"):
        with pool.transaction() as connection:
            if age_days(day, now=now) <= pool.settings.cold_days:
                kept = points_removed(connection, day) or cold_is_whole(pool, connection, day)
                if not kept or day not in settled_days(connection):
                    raise PoolError(f"{day} changed meanwhile; it stays until it is settled")
            connection.execute("UPDATE days SET points_removed_at = %s WHERE day = %s", (now, day))
        for table in (ANONYMIZED, VALIDATED):
            pool.replace(table, day, (), schema=arrow_schema(POINT_COLUMNS))


def remove_statistics(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Delete the day's statistics and profiles."""
    del now
    with pool.transaction() as connection:
        connection.execute("DELETE FROM agent_statistics WHERE day = %s", (day,))
        connection.execute("DELETE FROM daily_statistics WHERE day = %s", (day,))
        connection.execute("DELETE FROM task_type_profiles WHERE day = %s", (day,))


def remove_quarantine(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Delete the day's quarantined lines, whatever was decided about them."""
    del now
    with pool.transaction() as connection:
        connection.execute("DELETE FROM quarantine WHERE day = %s", (day,))


def remove_waiting(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Forget the day's waiting tasks: their lines go with the raw segments."""
    del now
    with pool.transaction() as connection:
        connection.execute("DELETE FROM waiting_tasks WHERE day = %s", (day,))


def remove_letters(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Delete the dead letters of a day, which hold logs as they were before anything was anonymized."""
    del now
    for folder in letter_folders(pool):
        remove_expired_letters(folder, day)


def remove_verdicts(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Remove what the day's verdicts say, by an entry of the audit trail that says so.

    Raises:
        SigningKeyError: the trail is signed with another key than this process has.
    """
    del now
    key_of_trail = partial(settled_key, pool.settings, pool.engine)
    erase_verdicts_of_day(pool.engine, day, key_of_trail=key_of_trail, by="retention")


def keep_below(pool: BenchmarkPool, day: date, now: datetime) -> None:
    """Make sure that the tier of the day's age holds it whole, made anew where it does not.

    Raises:
        PoolError: it still does not.
    """
    age = age_days(day, now=now)
    with pool.transaction() as connection:
        if age > pool.settings.cold_days or points_removed(connection, day):
            return
        if is_whole_below(pool, connection, day, age=age):
            return
        if day not in settled_days(connection):
            raise PoolError(f"{day} changed meanwhile; it stays until it is settled")
    if age <= pool.settings.warm_days:
        place_warm(pool, day, now=now)
    else:
        aggregate_cold(pool, day, now=now)
    with pool.transaction() as connection:
        if not is_whole_below(pool, connection, day, age=age):
            raise PoolError(
                f"the tier below does not hold {day} as it is; nothing of it was deleted. Run the day again"
            )


def is_whole_below(pool: BenchmarkPool, connection: Connection[Any], day: date, *, age: int) -> bool:
    """Whether the tier of this age has the day as its anonymized points are."""
    return warm_is_whole(pool, day) if age <= pool.settings.warm_days else cold_is_whole(pool, connection, day)


def warm_is_whole(pool: BenchmarkPool, day: date) -> bool:
    """Whether the warm tier has the day's anonymized points, by count and digest."""
    return stored_points(pool, WARM, day) == points_of_day(pool, day)


def cold_is_whole(pool: BenchmarkPool, connection: Connection[Any], day: date) -> bool:
    """Whether the day's aggregates were made from its anonymized points (count and digest) and count them all."""
    points = points_of_day(pool, day)
    made_from = connection.execute("SELECT digest FROM tier_days WHERE tier = 'cold' AND day = %s", (day,)).fetchone()
    tasks = sum(int(row["tasks"]) for row in read_rows(pool, COLD, day, columns=("tasks",)))
    return made_from == (points.digest,) and tasks == points.points


def points_of_day(pool: BenchmarkPool, day: date) -> Stored:
    """Count and digest of the day's anonymized points."""
    return stored_points(pool, ANONYMIZED, day)
