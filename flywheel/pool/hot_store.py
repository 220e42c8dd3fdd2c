"""The hot tier's rows in PostgreSQL, written by COPY."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

from psycopg import Connection, sql

from flywheel.pool.rows import Row
from flywheel.pool.schemas import POINT_COLUMNS

COLUMNS = sql.SQL(", ").join(map(sql.Identifier, POINT_COLUMNS))
UPDATES = sql.SQL(", ").join(
    sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in POINT_COLUMNS if name != "id"
)


def replace_day(connection: Connection[Any], day: date, rows: Iterable[Row]) -> None:
    """Make the rows the whole content of a day, in the caller's transaction.

    A point that another day still holds, because its task moved, moves with it: ids are unique in the tier.
    """
    connection.execute("CREATE TEMPORARY TABLE incoming (LIKE hot_points INCLUDING COMPRESSION) ON COMMIT DROP")
    with connection.cursor().copy(sql.SQL("COPY incoming ({}) FROM STDIN").format(COLUMNS)) as copy:
        for row in rows:
            copy.write_row([row[name] for name in POINT_COLUMNS])
    connection.execute("DELETE FROM hot_points WHERE day = %s AND id NOT IN (SELECT id FROM incoming)", (day,))
    connection.execute(
        sql.SQL("INSERT INTO hot_points ({0}) SELECT {0} FROM incoming ON CONFLICT (id) DO UPDATE SET {1}").format(
            COLUMNS, UPDATES
        )
    )


def read_payloads(connection: Connection[Any], day: date) -> Iterator[Row]:
    """The points of a day as the tier holds them, streamed; only their ``payload``."""
    with connection.cursor(name="hot_payloads") as cursor:
        cursor.execute("SELECT payload FROM hot_points WHERE day = %s", (day,))
        for (payload,) in cursor:
            yield {"payload": payload}
