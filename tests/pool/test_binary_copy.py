"""What PostgreSQL reads from the binary format is what was in the batch."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.pool.binary_copy import HEADER, TRAILER, binary_rows
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema

COLUMNS = {
    "name": ("string", "text"),
    "born": ("date", "date"),
    "seen": ("timestamp", "timestamptz"),
    "alive": ("bool", "boolean"),
    "score": ("double", "double precision"),
    "tokens": ("int64", "bigint"),
    "tags": ("list<string>", "text[]"),
    "payload": ("string", "text"),
}
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.tuples(
    st.none() | TEXTS,
    st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.none() | st.booleans(),
    st.none() | st.floats(allow_nan=False),
    st.none() | NUMBERS,
    st.lists(TEXTS, max_size=3),
    TEXTS,
)


def copied(pool: BenchmarkPool, *batches: pa.RecordBatch) -> list[tuple[Any, ...]]:
    with pool.transaction() as connection:
        columns = ", ".join(f"{name} {kind}" for name, (_, kind) in COLUMNS.items())
        connection.execute(f"CREATE TEMPORARY TABLE copied ({columns}, place serial) ON COMMIT DROP")
        with connection.cursor().copy(f"COPY copied ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER)
            for batch in batches:
                copy.write(binary_rows(batch))
            copy.write(TRAILER)
        return connection.execute(f"SELECT {', '.join(COLUMNS)} FROM copied ORDER BY place").fetchall()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, max_size=8), cut=st.integers(0, 8))
def test_rows_come_back_as_they_were(pool: BenchmarkPool, rows: list[tuple[Any, ...]], cut: int) -> None:
    schema = arrow_schema(COLUMNS)
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    batch = pa.record_batch(arrays, schema=schema)
    assert copied(pool, batch.slice(0, cut), batch.slice(cut)) == rows
