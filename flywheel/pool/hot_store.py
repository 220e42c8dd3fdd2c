"""The hot tier's rows in PostgreSQL, written by COPY."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from psycopg import Connection, sql

from flywheel.pool.binary_copy import HEADER, TRAILER, binary_rows
from flywheel.pool.digests import Digest
from flywheel.pool.pool import lock_key
from flywheel.pool.schemas import POINT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

COPY_POINTS = sql.SQL("COPY hot_points ({}) FROM STDIN (FORMAT binary)").format(
    sql.SQL(", ").join(map(sql.Identifier, POINT_COLUMNS))
)
WRITERS = lock_key("hot writers")


def replace_day(connection: Connection[Any], day: date, batches: "Iterable[pa.RecordBatch]") -> None:
    """Make the rows the whole content of a day, in the caller's transaction.

    A point that another day still holds, because its task moved, moves with it: ids are unique in the tier. So that no
    two days bring the same point at once, their writers take turns.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
    connection.execute("DELETE FROM hot_points WHERE day = %s", (day,))
    for batch in batches:
        ids = ",".join(batch.column("id").to_pylist())  # digests: there is no comma in them
        connection.execute("DELETE FROM hot_points WHERE id = ANY(string_to_array(%s, ','))", (ids,))
        with connection.cursor().copy(COPY_POINTS) as copy:
            copy.write(HEADER)
            copy.write(binary_rows(batch.select(list(POINT_COLUMNS))))
            copy.write(TRAILER)


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
