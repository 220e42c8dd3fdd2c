"""Files of the lake: some thousand rows as Parquet, made and read in memory, so that any process can do it.

They lie in the lake's tables as they are; a table's log says which ones are a partition's.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_A_FILE = 4_096
UNIQUE = frozenset({"id", "task_id", "payload"})  # no value comes twice: a dictionary of them would be all of them
UNORDERED = frozenset({"payload", "warnings", "waived"})  # nobody asks for a range of them


class LakeFile(Struct, frozen=True, kw_only=True):
    """A Parquet file without its partition column."""

    content: bytes
    rows: int


def files_of(rows: Iterable[dict[str, Any]], *, schema: "pa.Schema", key: str) -> Iterator[LakeFile]:
    """Rows as files, in their order."""
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_A_FILE)):
        yield lake_file([batch_of(some, schema=schema)], key=key)


def batch_of(rows: Sequence[dict[str, Any]], *, schema: "pa.Schema") -> "pa.RecordBatch":
    """Rows as one record batch, made column by column: ``from_pylist`` takes ten times as long."""
    import pyarrow as pa

    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


def lake_file(batches: "Iterable[pa.RecordBatch]", *, key: str) -> LakeFile:
    """Record batches as one file, compressed by zstd. ``key`` is the partition column, which the table's log keeps."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_batches(batches).drop_columns([key])
    names = table.schema.names
    sink = BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        row_group_size=ROWS_A_FILE,
        use_dictionary=[name for name in names if name not in UNIQUE],
        write_statistics=[name for name in names if name not in UNORDERED],
    )
    return LakeFile(content=sink.getvalue(), rows=len(table))


def read_file(content: bytes, *, columns: Sequence[str] | None = None) -> "pa.RecordBatch":
    """Columns of a file, or all but its partition column, as one record batch.

    Raises:
        pyarrow.ArrowException: it is no Parquet file, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(content), columns=columns, use_threads=False)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def statistics_of(content: bytes) -> str:
    """What the table's log says of a file: rows, and least and greatest value of columns, as Delta's JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for group in range(metadata.num_row_groups):
        for column in ordered_columns(metadata.row_group(group)):
            name, found = column.path_in_schema, column.statistics
            least[name] = min(least.get(name, found.min), found.min)
            greatest[name] = max(greatest.get(name, found.max), found.max)
    ranges = {"minValues": shown(least), "maxValues": shown(greatest)}
    return msgspec.json.encode({"numRecords": metadata.num_rows, **ranges}).decode()


def ordered_columns(group: "pq.RowGroupMetaData") -> "Iterator[pq.ColumnChunkMetaData]":
    """The flat columns of a row group that have a least and a greatest value."""
    for number in range(group.num_columns):
        column = group.column(number)
        flat = "." not in column.path_in_schema
        if flat and column.is_stats_set and column.statistics.has_min_max:
            yield column


def shown(values: dict[str, Any]) -> dict[str, Any]:
    """Values as Delta's log writes them."""
    return {
        name: f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, datetime) else value
        for name, value in values.items()
    }
