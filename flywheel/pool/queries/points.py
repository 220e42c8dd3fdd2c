"""Points across tiers: as an iterator, as Arrow, as a pandas frame. What they are read from is chosen per day."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from psycopg import Connection, sql

from flywheel.errors import QueryError
from flywheel.pool.filters import PointFilter
from flywheel.pool.lake import ROWS_A_BATCH
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.conditions import arrow_of, checked, conditions, sql_of
from flywheel.pool.queries.frames import COVERAGE_KEY, frame_of
from flywheel.pool.queries.moved import Moved
from flywheel.pool.queries.ordered import ordered_day
from flywheel.pool.queries.plan import Coverage, Plan, planned, snapshot
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.pool.tenant_salts import of_same_tenants
from flywheel.records import DataPoint, decode_point

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Order = Literal["any", "recent", "oldest"]
LIGHT_COLUMNS = tuple(name for name in POINT_COLUMNS if name != "payload")


class Position(Struct, frozen=True, array_like=True):
    """A place in an order: that of the last point that was seen."""

    day: date
    timestamp: datetime
    id: str


class PointQuery(Struct, frozen=True, kw_only=True):
    """Which points, which of their columns, in which order, and at most how many (None: all).

    ``recent`` is the newest day first and the newest point of a day first, by timestamp and id; ``oldest`` is its
    reverse; ``any`` is the fastest. ``after`` goes on behind a position of the same order.
    """

    where: PointFilter = PointFilter()
    columns: tuple[str, ...] = LIGHT_COLUMNS
    order: Order = "any"
    limit: int | None = None
    after: Position | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """What a query found: where it reads, and the rows as they come, some thousand at a time."""

    coverage: Coverage
    schema: "pa.Schema"
    batches: "Iterator[pa.RecordBatch]"


class Points:
    """A query of points that is answered anew whenever it is asked; nothing is held in between.

    Iterating yields decoded points, with bounded memory. ``coverage`` says which days are read from where, and which
    days of the range have aggregates only; ``table``, ``reader`` and ``frame`` carry it with them.
    """

    def __init__(self, pool: BenchmarkPool, query: PointQuery) -> None:
        self._pool = pool
        self._query = checked_query(query)

    @contextmanager
    def reading(self, columns: Sequence[str] | None = None) -> Iterator[Reading]:
        """Open the query: one consistent view of the ledger and the hot tier, and one version of the warm tier.

        Raises:
            PoolError: the lake cannot be read.
            DatabaseError: PostgreSQL cannot be used.
        """
        query = self._query if columns is None else msgspec.structs.replace(self._query, columns=tuple(columns))
        with ExitStack() as held:
            connection = held.enter_context(snapshot(self._pool))
            where = of_same_tenants(self._pool, connection, query.where)
            query = msgspec.structs.replace(query, where=where)
            plan = planned(self._pool, connection, where)
            schema = arrow_schema({name: POINT_COLUMNS[name] for name in query.columns})
            schema = schema.with_metadata({COVERAGE_KEY: msgspec.json.encode(plan.coverage)})
            source = Source(self._pool, connection, plan, query, schema)
            yield Reading(coverage=plan.coverage, schema=schema, batches=limited(source.batches(held), query.limit))

    def __iter__(self) -> Iterator[DataPoint]:
        with self.reading(("payload",)) as found:
            for batch in found.batches:
                for payload in batch.column("payload").to_pylist():
                    yield decode_point(payload)

    @property
    def coverage(self) -> Coverage:
        """Where the points would be read now."""
        with snapshot(self._pool) as connection:
            return planned(self._pool, connection, self._query.where).coverage

    def reader(self) -> "pa.RecordBatchReader":
        """The rows as an Arrow stream; its schema's metadata holds the coverage. Read it to its end, or drop it."""
        import pyarrow as pa

        held = ExitStack()
        found = held.enter_context(self.reading())

        def batches() -> "Iterator[pa.RecordBatch]":
            with held:
                yield from found.batches

        return pa.RecordBatchReader.from_batches(found.schema, batches())

    def table(self) -> "pa.Table":
        """The rows as one Arrow table in memory; its schema's metadata holds the coverage."""
        import pyarrow as pa

        with self.reading() as found:
            return pa.Table.from_batches(found.batches, schema=found.schema)

    def frame(self) -> "pd.DataFrame":
        """The rows as a pandas frame in memory; ``attrs["coverage"]`` says where they were read."""
        return frame_of(self.table())


class Source(Struct, frozen=True):
    """An open query and where its rows come from."""

    pool: BenchmarkPool
    connection: "Connection[Any]"
    plan: Plan
    query: PointQuery
    schema: "pa.Schema"

    def batches(self, held: ExitStack) -> "Iterator[pa.RecordBatch]":
        """The rows in the query's order. PostgreSQL is let go of once no day needs it any more."""
        moved = Moved(self.pool, self.connection, self.plan) if self.plan.warm else None
        runs = self.runs()
        for number, (tier, days) in enumerate(runs):
            if tier == "hot":
                yield from self.hot(days)
                if all(later != "hot" for later, _ in runs[number + 1 :]):
                    held.close()
            elif self.plan.warm_table is not None and moved is not None:
                yield from self.warm(days, moved)

    def runs(self) -> list[tuple[str, list[date]]]:
        """The days in order, those that one statement or scan reads together in one run."""
        after = self.query.after
        newest_first = self.query.order != "oldest"
        tiers = {**dict.fromkeys(self.plan.warm, "warm"), **dict.fromkeys(self.plan.hot, "hot")}
        if self.query.order == "any":
            return [("hot", list(self.plan.hot)), ("warm", list(self.plan.warm))]
        days = sorted(tiers, reverse=newest_first)
        if after is not None:
            days = [day for day in days if (day <= after.day if newest_first else day >= after.day)]
        return [(tier, list(run)) for tier, run in groupby(days, key=tiers.__getitem__)]

    def hot(self, days: list[date]) -> "Iterator[pa.RecordBatch]":
        """Rows of the hot tier, streamed from the server."""
        import pyarrow as pa

        if not days:
            return
        condition, values = sql_of(conditions(self.query.where))
        direction = sql.SQL("ASC" if self.query.order == "oldest" else "DESC")
        clauses = [sql.SQL("WHERE day = ANY(%s) AND"), condition]
        values = [days, *values]
        if self.query.after is not None:
            beyond = sql.SQL(">" if self.query.order == "oldest" else "<")
            clauses.append(sql.SQL('AND (day, timestamp, id COLLATE "C") {} (%s, %s, %s)').format(beyond))
            values += msgspec.structs.astuple(self.query.after)
        if self.query.order != "any":
            clauses.append(sql.SQL('ORDER BY day {0}, timestamp {0}, id COLLATE "C" {0}').format(direction))
        if self.query.limit is not None:
            clauses.append(sql.SQL("LIMIT {}").format(sql.Literal(self.query.limit)))
        columns = sql.SQL(", ").join(map(sql.Identifier, self.schema.names))
        statement = sql.SQL(" ").join((sql.SQL("SELECT {} FROM hot_points").format(columns), *clauses))
        with self.connection.cursor(name="points") as cursor:
            cursor.execute(statement, values)
            while rows := cursor.fetchmany(ROWS_A_BATCH):
                columns_of_rows = zip(zip(*rows, strict=True), self.schema, strict=True)
                arrays = [pa.array(column, field.type) for column, field in columns_of_rows]
                yield pa.record_batch(arrays, schema=self.schema)

    def warm(self, days: list[date], moved: Moved) -> "Iterator[pa.RecordBatch]":
        """Rows of the lake."""
        table = self.plan.warm_table
        assert table is not None
        condition = arrow_of(conditions(self.query.where))
        if self.query.order == "any":
            schema = with_columns(self.schema, ("id",))
            for batch in table.read(days, schema=schema, condition=condition):
                yield moved.passing(batch).select(self.schema.names)
            return
        left = self.query.limit
        for day in days:
            if left == 0:
                return
            for batch in ordered_day(
                table,
                day,
                schema=self.schema,
                condition=condition,
                moved=moved,
                newest_first=self.query.order == "recent",
                after=self.query.after if self.query.after and self.query.after.day == day else None,
                limit=left,
                folder=self.pool.settings.home,
            ):
                left = None if left is None else left - len(batch)
                yield batch


def checked_query(query: PointQuery) -> PointQuery:
    """The query, if it can be asked.

    Raises:
        QueryError: it cannot.
    """
    unknown = [name for name in query.columns if name not in POINT_COLUMNS]
    if unknown or not query.columns or len(set(query.columns)) < len(query.columns):
        raise QueryError(
            f"columns {', '.join(query.columns)!r} cannot be chosen; name some of {', '.join(POINT_COLUMNS)}, each once"
        )
    if query.limit is not None and query.limit < 0:
        raise QueryError(f"the limit is {query.limit}; ask for 0 points or more")
    if query.after is not None and query.order == "any":
        raise QueryError("a position needs an order; ask for recent or oldest points")
    return msgspec.structs.replace(query, where=checked(query.where))


def with_columns(schema: "pa.Schema", names: Iterable[str]) -> "pa.Schema":
    """The schema with these columns too."""
    for name in names:
        if name not in schema.names:
            schema = schema.append(arrow_schema({name: POINT_COLUMNS[name]}).field(0))
    return schema


def limited(batches: "Iterator[pa.RecordBatch]", limit: int | None) -> "Iterator[pa.RecordBatch]":
    """The first rows of batches, without empty ones."""
    left = limit
    for batch in batches:
        if left is not None:
            batch = batch.slice(0, left)  # noqa: PLW2901 - what is left of it
            left -= len(batch)
        if len(batch):
            yield batch
        if left == 0:
            return
