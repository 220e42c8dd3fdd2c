"""What only the lake can say and takes it long: how large the tiers are, and when the next batch has its points.

The last reading of each day is kept in PostgreSQL, so that metrics need not ask the lake and plots show how it grows.
"""

from datetime import date, datetime, timedelta
from typing import Any, get_args

import msgspec
from msgspec import Struct
from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tiers import Tier
from flywheel.pool.trends import Outlook, TierSize, batch_outlook, days_until, tier_size, tier_trend
from flywheel.records import utc_day

LAKE_READING_AGE = timedelta(minutes=15)  # the lake is asked again where nobody did for so long


class LakeReading(Struct, frozen=True, kw_only=True):
    """What the lake said, and when. The bytes of a tier are on disk."""

    read_at: datetime
    tier_bytes: dict[str, int]
    outlook: Outlook


class TierHistory(Struct, frozen=True, kw_only=True):
    """A tier's size now, its rows by day, and its megabytes by the day on which they were read."""

    size: TierSize
    rows: dict[date, int]
    megabytes: dict[date, float]


def read_lake(pool: BenchmarkPool, *, now: datetime) -> LakeReading:
    """Ask the lake, and keep what it says as the day's last reading.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    reading = LakeReading(
        read_at=now,
        tier_bytes={tier: tier_size(pool, tier).tier_bytes for tier in get_args(Tier)},
        outlook=batch_outlook(pool, now=now),
    )
    with pool.transaction() as connection:
        connection.execute(
            "INSERT INTO lake_readings (day, read_at, reading) VALUES (%s, %s, %s)"
            " ON CONFLICT (day) DO UPDATE SET read_at = excluded.read_at, reading = excluded.reading"
            " WHERE lake_readings.read_at <= excluded.read_at",
            (utc_day(now), now, Jsonb(msgspec.to_builtins(reading))),
        )
    return reading


def last_reading(connection: Connection[Any]) -> LakeReading | None:
    """The newest reading; None before the first."""
    row = connection.execute("SELECT reading FROM lake_readings ORDER BY day DESC LIMIT 1").fetchone()
    return msgspec.convert(row[0], LakeReading) if row else None


def is_old(reading: LakeReading | None, *, now: datetime) -> bool:
    """Whether the lake should be asked again."""
    return reading is None or now - reading.read_at >= LAKE_READING_AGE


def renewed(pool: BenchmarkPool, reading: LakeReading | None, *, now: datetime) -> LakeReading | None:
    """A new reading, by one at a time: the old one where another is being made, which is waited for if there is none.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        if reading is None:
            pool.take(connection, "lake reading")
        elif not pool.take_if_free(connection, "lake reading"):
            return reading
        newest = last_reading(connection)  # another may have been asked since
        return read_lake(pool, now=now) if is_old(newest, now=now) else newest


def size_trend(pool: BenchmarkPool, tier: Tier, day: date) -> dict[date, float]:
    """Megabytes (10^6 bytes) of a tier by the day on which it was read; days without a reading are not in it.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(
            "SELECT day, (reading->'tier_bytes'->>%s)::double precision / 1e6 FROM lake_readings"
            " WHERE day BETWEEN %s AND %s ORDER BY day",
            (tier, days_until(day)[0], day),
        ).fetchall()
    return dict(rows)


def tier_history(pool: BenchmarkPool, tier: Tier, day: date) -> TierHistory:
    """What a tier holds and how it grew over the days of a trend.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    return TierHistory(
        size=tier_size(pool, tier), rows=tier_trend(pool, tier, day), megabytes=size_trend(pool, tier, day)
    )
