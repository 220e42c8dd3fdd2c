"""Tiers by age (SPEC section 5): a day is placed where its age belongs, and is in no tier whose age it has passed.

Hot is a copy in PostgreSQL of what warm holds in the lake, so a day younger than a week is in both. Cold holds
aggregates of every day of the last two years. A day that arrives late goes straight to the tiers of its age.
Each placement replaces the day's content in one commit from the anonymized points and verifies count and digest, so a
crash at any moment loses nothing and counts nothing twice; the next run makes the same. No tier takes points of a day
but exactly those in which the privacy check found nothing, whoever asks for it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.digests import Digest
from flywheel.pool.files import LakeFile, rows_in
from flywheel.pool.hot_store import digest_of_day, replace_day
from flywheel.pool.intake import points_removed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema, columns_in, points_in, read_batches, read_rows
from flywheel.pool.schemas import AGGREGATE_COLUMNS, ANONYMIZED, COLD, POINT_COLUMNS, WARM
from flywheel.pool.statistics import Tally
from flywheel.pool.workers import ahead

if TYPE_CHECKING:
    import pyarrow as pa

Tier = Literal["hot", "warm", "cold"]
TALLIED_COLUMNS = (
    "tenant_id",
    "agent_id",
    "task_type",
    "success",
    "overall_score",
    "latency_ms",
    "tokens_used",
)


class TierReport(Struct, frozen=True, kw_only=True):
    """What a placement did. ``rows`` is what the tier now holds of the day: none where it is not ``in_range``."""

    day: date
    tier: Tier
    in_range: bool
    age_days: int
    rows: int
    points: int
    digest: str


class Stored(Struct, frozen=True):
    """What a tier holds of a day once it was written: its rows, and the points and digest read back from them.

    There is no digest where the tier holds what it was given in another form.
    """

    rows: int
    points: int
    digest: str | None = None


class PointFile(Struct, frozen=True):
    """A file of anonymized points, and the columns of its rows that a tier needs, ``payload`` among them."""

    content: bytes
    points: "pa.RecordBatch"


Reader = Callable[[bytes], "pa.RecordBatch"]
Writer = Callable[[Connection[Any], Iterator[PointFile]], Stored]


def place_hot(pool: BenchmarkPool, day: date, *, now: datetime) -> TierReport:
    """Copy the day's points into PostgreSQL, or remove them when the day is older than the hot tier.

    Raises:
        PoolError: the lake cannot be used, or the tier does not hold what was written.
        DatabaseError: PostgreSQL cannot be used.
    """

    def write(connection: Connection[Any], files: Iterator[PointFile]) -> Stored:
        replace_day(connection, day, (file.points for file in files))
        return stored(digest_of_day(connection, day))

    read = partial(points_in, day=day)
    return place(pool, "hot", day, max_days=pool.settings.hot_days, now=now, read=read, write=write)


def place_warm(pool: BenchmarkPool, day: date, *, now: datetime) -> TierReport:
    """Copy the day's files into the lake's main table, or remove them when the day is older than the warm tier.

    Raises:
        PoolError: the lake cannot be used, or the tier does not hold what was written.
        DatabaseError: PostgreSQL cannot be used.
    """

    def write(connection: Connection[Any], files: Iterator[PointFile]) -> Stored:
        del connection
        copied = Digest()
        pool.replace_files(WARM, day, copies_of(files, copied), schema=arrow_schema(POINT_COLUMNS))
        return stored_copies(pool, day, copied)

    read = partial(columns_in, columns=("payload",))
    return place(pool, "warm", day, max_days=pool.settings.warm_days, now=now, read=read, write=write)


def aggregate_cold(pool: BenchmarkPool, day: date, *, now: datetime) -> TierReport:
    """Write the day's aggregates per agent, task type and tenant, or remove them after two years.

    Raises:
        PoolError: the lake cannot be used, or the tier does not hold what was written.
        DatabaseError: PostgreSQL cannot be used.
    """

    def write(connection: Connection[Any], files: Iterator[PointFile]) -> Stored:
        del connection
        rows = aggregated((file.points for file in files), day=day)
        pool.replace(COLD, day, rows, schema=arrow_schema(AGGREGATE_COLUMNS))
        tasks = [row["tasks"] for row in read_rows(pool, COLD, day, columns=("tasks",))]
        return Stored(rows=len(tasks), points=sum(tasks))

    read = partial(columns_in, columns=(*TALLIED_COLUMNS, "payload"))
    return place(pool, "cold", day, max_days=pool.settings.cold_days, now=now, read=read, write=write)


def place(
    pool: BenchmarkPool, tier: Tier, day: date, *, max_days: int, now: datetime, read: Reader, write: Writer
) -> TierReport:
    """Replace what a tier holds of a day, verify it, and enter it into the ledger.

    Raises:
        PoolError: the day's points are not those in which the privacy check found nothing, or the tier does not hold
            what was written. The tier stays as it was in the first case.
    """
    age = age_days(day, now=now)
    in_range = age <= max_days
    given = Digest()
    with pool.exclusive(f"{tier}:{day}") as connection:
        pool.share(connection, f"anonymization:{day}")
        if in_range and points_removed(connection, day):
            return kept(connection, tier, day, age=age)
        revision = anonymized_revision(connection, day)
        files = counted(points_of(pool, day, read) if in_range else iter(()), given)
        held = write(connection, clean(files, connection, day, given=given, tier=tier))
        verify(tier, day, given=given, held=held)
        report = TierReport(
            day=day,
            tier=tier,
            in_range=in_range,
            age_days=age,
            rows=held.rows,
            points=given.rows,
            digest=given.hexdigest(),
        )
        record(connection, report, revision=revision, now=now)
    return report


def kept(connection: Connection[Any], tier: Tier, day: date, *, age: int) -> TierReport:
    """What the tier has of a day whose points retention removed: there is nothing left to make it from anew."""
    row = connection.execute(
        "SELECT rows, digest, points FROM tier_days JOIN days USING (day) WHERE tier = %s AND day = %s", (tier, day)
    ).fetchone()
    rows, digest, points = row or (0, Digest().hexdigest(), 0)
    return TierReport(day=day, tier=tier, in_range=True, age_days=age, rows=rows, points=points, digest=digest)


def counted(files: Iterator[PointFile], digest: Digest) -> Iterator[PointFile]:
    """The same files, accounted for on the way."""
    for file in files:
        digest.add_batch(file.points)
        yield file


def clean(
    files: Iterator[PointFile], connection: Connection[Any], day: date, *, given: Digest, tier: Tier
) -> Iterator[PointFile]:
    """The same files; behind the last one it is told whether they are what the privacy check found clean.

    A writer commits nothing before it has taken the last one.

    Raises:
        PoolError: they are not.
    """
    yield from files
    row = connection.execute("SELECT privacy_violations, verified_digest FROM days WHERE day = %s", (day,)).fetchone()
    violations, verified = row or (None, None)
    if not given.rows or (violations == 0 and verified == given.hexdigest()):
        return
    again = f"Run the day {day} of pool_day again, or its check no_pii_left and then this"
    if violations:
        raise PoolError(
            f"the {tier} tier takes nothing of {day}: {violations:,} privacy violations were found in its points. "
            "Mend the detectors or take the points out, then run the day again"
        )
    if verified is None:
        raise PoolError(
            f"the {tier} tier takes nothing of {day}: the privacy check did not look at its points. {again}"
        )
    raise PoolError(
        f"the {tier} tier takes nothing of {day}: the privacy check looked at points with digest {verified}, there are "
        f"now those with {given.hexdigest()}. {again}"
    )


def copies_of(files: Iterable[PointFile], copied: Digest) -> Iterator[LakeFile]:
    """Files as they are, accounted for on the way."""
    for file in files:
        copied.add(file.content)
        yield LakeFile(content=file.content, rows=len(file.points))


def stored_copies(pool: BenchmarkPool, day: date, copied: Digest) -> Stored:
    """What the warm tier holds of a day; files that are those that were copied, byte for byte, hold what was given."""
    held, rows = Digest(), 0
    for content in pool.lake.contents(WARM, str(day)):
        held.add(content)
        rows += rows_in(content)
    if held.hexdigest() == copied.hexdigest():
        return Stored(rows=rows, points=rows)
    return stored_points(pool, WARM, day)


def stored_points(pool: BenchmarkPool, table: str, day: date) -> Stored:
    """Count and digest of the full points of a day in a table of the lake."""
    digest = Digest()
    digest.add_batches(read_batches(pool, table, day, columns=("payload",)))
    return stored(digest)


def stored(digest: Digest) -> Stored:
    """What a digest of full points says."""
    return Stored(rows=digest.rows, points=digest.rows, digest=digest.hexdigest())


def age_days(day: date, *, now: datetime) -> int:
    """Whole UTC days between the day and today; 0 today."""
    return (now.astimezone(UTC).date() - day).days


def points_of(pool: BenchmarkPool, day: date, read: Reader) -> Iterator[PointFile]:
    """The day's anonymized points; while a tier writes one file of them, the next is read."""
    return ahead(PointFile(content, read(content)) for content in pool.lake.contents(ANONYMIZED, str(day)))


def aggregated(points: "Iterable[pa.RecordBatch]", *, day: date) -> list[Row]:
    """Rows of ``AGGREGATE_COLUMNS``, sorted by their keys."""
    tallies: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
    for batch in points:
        columns = (batch.column(name).to_pylist() for name in TALLIED_COLUMNS)
        for tenant_id, agent_id, task_type, *measured in zip(*columns, strict=True):
            tallies[tenant_id, agent_id, task_type].add(*measured)
    return [
        {
            "day": day,
            "tenant_id": tenant_id,
            "agent_id": agent_id,
            "task_type": task_type,
            "tasks": tally.tasks,
            "successes": tally.successes,
            "mean_quality": tally.quality_sum / tally.tasks,
            "mean_latency_ms": tally.mean_latency_ms,
            "tokens": tally.tokens_sum,
        }
        for (tenant_id, agent_id, task_type), tally in sorted(tallies.items())
    ]


def anonymized_revision(connection: Connection[Any], day: date) -> int:
    """Which revision of the day the anonymized points are of. Read before them: they are at least as new."""
    row = connection.execute("SELECT anonymized_revision FROM days WHERE day = %s", (day,)).fetchone()
    return int(row[0]) if row else 0


def unchecked_days(connection: Connection[Any]) -> frozenset[date]:
    """Days whose check has run, and whose points in the warm tier are others than those that it last looked at."""
    rows = connection.execute(
        "SELECT day FROM tier_days JOIN days USING (day)"
        " WHERE tier = 'warm' AND tier_days.rows > 0 AND privacy_violations IS NOT NULL"
        " AND digest IS DISTINCT FROM verified_digest"
    )
    return frozenset(day for (day,) in rows)


def verify(tier: Tier, day: date, *, given: Digest, held: Stored) -> None:
    """Hold what the tier has against what it was given.

    Raises:
        PoolError: they differ.
    """
    if (held.points, held.digest or given.hexdigest()) != (given.rows, given.hexdigest()):
        raise PoolError(
            f"the {tier} tier holds {held.points:,} points of {day} with digest {held.digest}, {given.rows:,} with "
            f"{given.hexdigest()} were written; run the day again. If it stays so, another program writes its tables."
        )


def record(connection: Connection[Any], report: TierReport, *, revision: int, now: datetime) -> None:
    """Enter the placement into the ledger."""
    connection.execute(
        "INSERT INTO tier_days (tier, day, revision, rows, digest, placed_at) VALUES (%s, %s, %s, %s, %s, %s)"
        " ON CONFLICT (tier, day) DO UPDATE SET revision = excluded.revision, rows = excluded.rows,"
        " digest = excluded.digest, placed_at = excluded.placed_at",
        (report.tier, report.day, revision, report.rows, report.digest, now),
    )
