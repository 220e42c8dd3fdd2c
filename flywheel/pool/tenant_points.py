"""A tenant's points: which they are, and how they leave the lake, the hot tier and the statistics, a day at a time.

Where only some of its tasks go, the validated points tell which points are theirs, and everywhere else the points' ids
do: an anonymized point's task may be called otherwise. Sums per tenant are left as they are, for the day's next run.

The rows of other tenants are written as they were read; nothing is computed anew from them but sums. Whoever makes or
places a day's points takes one of the locks that are held here, so that no run in progress writes any of them back.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from psycopg import Connection, sql

from flywheel.pool.hot_store import digest_of_day
from flywheel.pool.intake import points_removed
from flywheel.pool.lake import PARTITION
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, arrow_schema, completed
from flywheel.pool.schemas import (
    AGGREGATE_COLUMNS,
    ANONYMIZED,
    BATCHES,
    COLD,
    POINT_COLUMNS,
    VALIDATED,
    WARM,
)
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tenants import Tenant
from flywheel.pool.tiers import stored, stored_points

if TYPE_CHECKING:
    import pyarrow as pa

LOCKS = ("validation", "hot", "warm", "cold", "statistics", "anonymization")
"""In the order in which those who take two of them do: the other way round they would wait for each other."""

Owned = Callable[[Row], bool]


class NamedTask(Struct):
    """A task in a point's JSON."""

    id: str


class PointOfTask(Struct):
    """The one part of a point's JSON that is asked for here."""

    task: NamedTask


decode_task = msgspec.json.Decoder(PointOfTask).decode


class PointCounts(Struct, frozen=True, kw_only=True):
    """How much of a tenant there is: rows by table, the days and batches they are in, and the points' ids.

    ``other_salt`` counts its points whose tenant was hashed with a salt that is forgotten or is not known here.
    """

    rows: dict[str, int]
    days: frozenset[date]
    batches: frozenset[str]
    ids: frozenset[str]
    other_salt: int


def count_points(pool: BenchmarkPool, tenant: Tenant) -> PointCounts:
    """Count a tenant's points everywhere; changes nothing.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    days: set[date] = set()
    rows: dict[str, int] = {}
    ids: set[str] = set()
    hashed: dict[str, str] = {}
    for table in (VALIDATED, ANONYMIZED, WARM):  # the first one tells the ids
        found = [row for batch in theirs(pool, table, tenant, ids) for row in batch.to_pylist()]
        rows[table] = len(found)
        days |= {row["day"] for row in found}
        ids |= {row["id"] for row in found}
        if table == ANONYMIZED:
            hashed = {row["id"]: row["tenant_id"] for row in found}
    with pool.transaction() as connection:
        hot = connection.execute(
            "SELECT day, count(*) FROM hot_points WHERE tenant_id = ANY(%s) OR id = ANY(%s) GROUP BY day",
            (list(tenant.whole), list(ids)),
        ).fetchall()
    cold = [row for batch in theirs(pool, COLD, tenant, ids) for row in batch.to_pylist()]
    copies = copies_of(pool, tenant, frozenset(ids))
    return PointCounts(
        rows=rows | {COLD: len(cold), "hot_points": sum(count for _, count in hot), BATCHES: copies.total()},
        days=frozenset(days | {day for day, _ in hot} | {row["day"] for row in cold}),
        batches=frozenset(copies) | marked_in(pool, ids),
        ids=frozenset(ids),
        other_salt=other_salt(pool, ids - hashed.keys()),
    )


def theirs(pool: BenchmarkPool, table: str, tenant: Tenant, ids: Collection[str]) -> "Iterator[pa.RecordBatch]":
    """Day and tenant of the tenant's rows in a table of the lake, and their ids where rows have any.

    ``ids`` are those of its points, which tell them where the table does not say which task they are of.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if table == COLD and tenant.tasks is not None:
        return  # sums of all its tasks
    wanted = {"tenant_id": tenant.names_in(table)}
    if tenant.tasks is not None:
        wanted |= {"task_id": tenant.task_names} if table == VALIDATED else {"id": tuple(ids)}
    columns = dict.fromkeys(("day", *(() if table == COLD else ("id",)), *wanted))
    for batch in pool.lake.read(table, columns=tuple(columns)):
        rows = batch
        for column, values in wanted.items():
            rows = rows.filter(pc.is_in(rows.column(column), value_set=pa.array(values, pa.string())))
        yield rows


def copies_of(pool: BenchmarkPool, tenant: Tenant, ids: frozenset[str]) -> Counter[str]:
    """How many copies of the tenant's points each batch holds; other batches are not among them."""
    copied = copied_from(tenant, ids)
    batches = pool.lake.read(BATCHES, columns=("batch_id", "id", "payload"))
    return Counter(row["batch_id"] for batch in batches for row in batch.to_pylist() if copied(row))


def copied_from(tenant: Tenant, ids: frozenset[str]) -> Owned:
    """Tells the tenant's copies in batches: their payload has one of its hashes, and names one of the tasks."""
    tasks = tenant.tasks

    def copied(row: Row) -> bool:
        if row["id"] in ids:
            return True
        is_theirs = any(hashed in row["payload"] for hashed in tenant.hashes)
        return is_theirs and (tasks is None or decode_task(row["payload"]).task.id in tasks)

    return copied


def marked_in(pool: BenchmarkPool, ids: set[str]) -> frozenset[str]:
    """The batches that the ledger says these points are in."""
    with pool.transaction() as connection:
        rows = connection.execute("SELECT DISTINCT batch_id FROM batch_points WHERE point_id = ANY(%s)", (list(ids),))
        return frozenset(batch_id for (batch_id,) in rows.fetchall())


def other_salt(pool: BenchmarkPool, ids: set[str]) -> int:
    """How many of these points are anonymized all the same: under a hash of another salt."""
    if not ids:
        return 0
    batches = pool.lake.read(ANONYMIZED, columns=("id",))
    return sum(point_id in ids for batch in batches for point_id in batch.column("id").to_pylist())


def validated_of(tenant: Tenant) -> Owned:
    """Tells the tenant's validated points."""
    names, tasks = set(tenant.names_in(VALIDATED)), set(tenant.task_names)
    return lambda row: row["tenant_id"] in names and (tenant.tasks is None or row["task_id"] in tasks)


def erase_points(pool: BenchmarkPool, tenant: Tenant, day: date, *, ids: Iterable[str] = ()) -> None:
    """Remove a tenant's points of a day from every table and tier, and count the day's statistics anew.

    ``ids`` are of points that a run that was killed had met: the tables that tell them may hold them no longer.

    Where retention has removed the day's points, the statistics that are of this tenant alone are deleted; those that
    it shares with others are counted anew from the raw logs by the day's next run.

    Raises:
        PoolError: the lake cannot be read or written.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"{LOCKS[0]}:{day}") as connection:
        for lock in LOCKS[1:]:
            pool.take(connection, f"{lock}:{day}")
        read = read_partition(pool, VALIDATED, str(day), columns=("id", "tenant_id", "task_id"))
        checked = is_checked(pool, connection, day)
        own = frozenset(ids).union(row["id"] for row in filter(validated_of(tenant), read))
        connection.execute(
            "DELETE FROM hot_points WHERE day = %s AND (tenant_id = ANY(%s) OR id = ANY(%s))",
            (day, list(tenant.whole), list(own)),
        )
        without_points = points_removed(connection, day)
        if without_points:
            erase_statistics(pool, tenant, day)
        erase_rows(pool, COLD, str(day), AGGREGATE_COLUMNS, lambda row: row["tenant_id"] in tenant.whole)
        for table in (WARM, ANONYMIZED, VALIDATED):  # the last one tells the ids: a run that was killed needs it
            names = () if tenant.tasks is not None else tenant.names_in(table)
            erase_rows(pool, table, str(day), POINT_COLUMNS, named_or_among(names, own))
        recount_tiers(pool, connection, day)
        if checked:  # then so is every part of it
            left = stored_points(pool, ANONYMIZED, day).digest
            connection.execute("UPDATE days SET verified_digest = %s WHERE day = %s", (left, day))
    if not without_points:
        refresh_statistics(pool, day)


def is_checked(pool: BenchmarkPool, connection: Connection[Any], day: date) -> bool:
    """Whether the day's anonymized points are those that the privacy check looked at."""
    verified = connection.execute("SELECT verified_digest FROM days WHERE day = %s", (day,)).fetchone()
    return verified == (stored_points(pool, ANONYMIZED, day).digest,)


def named_or_among(names: tuple[str, ...], ids: frozenset[str]) -> Owned:
    """Tells rows of this tenant, and those of its points whose tenant was hashed with another salt."""
    return lambda row: row["tenant_id"] in names or row["id"] in ids


def erase_rows(
    pool: BenchmarkPool,
    table: str,
    partition: str,
    columns: Mapping[str, tuple[str, str]],
    owned: Owned,
    *,
    key: str = PARTITION,
) -> None:
    """Write a partition of the lake again without the rows that are ``owned``; leave it where there are none."""
    telling = [name for name in ("id", "tenant_id", "payload" if key != PARTITION else "") if name in columns]
    if any(owned(row) for row in read_partition(pool, table, partition, columns=telling)):
        kept = (row for row in read_partition(pool, table, partition, columns=tuple(columns)) if not owned(row))
        pool.replace(table, partition, kept, schema=arrow_schema(columns), key=key)


def read_partition(pool: BenchmarkPool, table: str, partition: str, *, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a partition of the lake."""
    for batch in pool.lake.read(table, columns=columns, partitions=[partition]):
        yield from completed(batch, columns).to_pylist()


def erase_statistics(pool: BenchmarkPool, tenant: Tenant, day: date) -> None:
    """Delete the statistics and profiles of a day that count no other tenant, as its aggregates tell."""
    tenants: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in read_partition(pool, COLD, str(day), columns=("tenant_id", "agent_id", "task_type")):
        tenants[row["agent_id"], row["task_type"]].add(row["tenant_id"])
    alone = [counted for counted, found in tenants.items() if found <= set(tenant.whole)]
    shared_types = {task_type for (_, task_type), found in tenants.items() if not found <= set(tenant.whole)}
    own_types = list({task_type for _, task_type in alone} - shared_types)
    with pool.transaction() as connection:  # before the aggregates go, which a run that was killed would need
        for agent_id, task_type in alone:
            for table in ("agent_statistics", "daily_statistics"):
                connection.execute(
                    sql.SQL("DELETE FROM {} WHERE day = %s AND agent_id = %s AND task_type = %s").format(
                        sql.Identifier(table)
                    ),
                    (day, agent_id, task_type),
                )
        connection.execute("DELETE FROM task_type_profiles WHERE day = %s AND task_type = ANY(%s)", (day, own_types))


def recount_tiers(pool: BenchmarkPool, connection: Connection[Any], day: date) -> None:
    """Let the ledger say what the tiers now hold of a day."""
    hot = stored(digest_of_day(connection, day))
    warm = stored_points(pool, WARM, day)
    cold = sum(1 for _ in read_partition(pool, COLD, str(day), columns=("tasks",)))
    for tier, held in (("hot", hot), ("warm", warm)):
        connection.execute(
            "UPDATE tier_days SET rows = %s, digest = %s WHERE tier = %s AND day = %s",
            (held.rows, held.digest, tier, day),
        )
    connection.execute("UPDATE tier_days SET rows = %s WHERE tier = 'cold' AND day = %s", (cold, day))
