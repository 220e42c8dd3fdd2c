"""The hot tier's rows in PostgreSQL, written by COPY."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from psycopg import Connection, sql

from flywheel.pool.digests import Digest
from flywheel.pool.pool import lock_key
from flywheel.pool.schemas import POINT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = sql.SQL(", ").join(map(sql.Identifier, POINT_COLUMNS))
WRITERS = lock_key("hot writers")


def replace_day(connection: Connection[Any], day: date, batches: "Iterable[pa.RecordBatch]") -> None:
    """Make the rows the whole content of a day, in the caller's transaction.

    A point that another day still holds, because its task moved, moves with it: ids are unique in the tier. So that no
    two days bring the same point at once, their writers take turns.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
    connection.execute("DELETE FROM hot_points WHERE day = %s", (day,))
    for batch in batches:
        connection.execute("DELETE FROM hot_points WHERE id = ANY(%s)", (batch.column("id").to_pylist(),))
        with connection.cursor().copy(sql.SQL("COPY hot_points ({}) FROM STDIN (FORMAT csv)").format(COLUMNS)) as copy:
            copy.write(as_csv(batch))


def as_csv(batch: "pa.RecordBatch") -> memoryview:
    """The rows as PostgreSQL reads them: null is an empty field, an empty text a quoted one, a list an array."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    columns = [
        array_literals(batch.column(name)) if kind.startswith("list") else batch.column(name)
        for name, (kind, _) in POINT_COLUMNS.items()
    ]
    sink = pa.BufferOutputStream()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
    pa_csv.write_csv(pa.record_batch(columns, names=list(POINT_COLUMNS)), sink, options)
    return memoryview(sink.getvalue())


def array_literals(column: "pa.ListArray") -> "pa.StringArray":
    """Lists of names as array literals of PostgreSQL."""
    import pyarrow as pa

    return pa.array(["{" + ",".join(names) + "}" for names in column.to_pylist()], pa.string())


def digest_of_day(connection: Connection[Any], day: date) -> Digest:
    """Count and digest of the points of a day as the tier holds them, streamed."""
    digest = Digest()
    for payload in read_payloads(connection, day):
        digest.add(payload)
    return digest


def read_payloads(connection: Connection[Any], day: date) -> Iterator[bytes]:
    """The wire JSON of each point of a day, UTF-8."""
    query = sql.SQL("COPY (SELECT payload FROM hot_points WHERE day = {}) TO STDOUT (FORMAT binary)")
    with connection.cursor().copy(query.format(sql.Literal(day))) as copy:
        for (payload,) in copy.rows():
            yield payload
