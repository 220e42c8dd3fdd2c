"""Files of the lake: some thousand rows as Parquet, made and read in memory, so that any process can do it.

They lie in the lake's tables as they are; a table's log says which ones are a partition's.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flywheel.errors import PoolError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_A_FILE = 4_096
ROWS_AT_ONCE = 256
"""Of rows as dictionaries so many are columns at a time: the next ones take the memory of those that are compressed."""
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
        yield file_of(some, schema=schema, key=key)


def file_of(rows: Sequence[dict[str, Any]], *, schema: "pa.Schema", key: str) -> LakeFile:
    """Rows, at least one, as one file."""
    return lake_file(batches_of(rows, schema=schema), key=key)


def batches_of(rows: Sequence[dict[str, Any]], *, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    """Rows as record batches of ``ROWS_AT_ONCE``, in their order."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield batch_of(rows[start : start + ROWS_AT_ONCE], schema=schema)


def batch_of(rows: Sequence[dict[str, Any]], *, schema: "pa.Schema") -> "pa.RecordBatch":
    """Rows as one record batch, made column by column: ``from_pylist`` takes ten times as long.

    Texts may be given as ``str`` or in UTF-8.
    """
    import pyarrow as pa

    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


def lake_file(batches: "Iterable[pa.RecordBatch]", *, key: str) -> LakeFile:
    """Record batches, at least one, as one file, compressed by zstd. ``key`` is the partition column, which the table's
    log keeps.
    """
    import pyarrow.parquet as pq

    remaining = iter(batches)
    first = next(remaining).drop_columns([key])
    names, rows, sink = first.schema.names, 0, BytesIO()
    with pq.ParquetWriter(
        sink,
        first.schema,
        compression="zstd",
        use_dictionary=[name for name in names if name not in UNIQUE],
        write_statistics=[name for name in names if name not in UNORDERED],
    ) as writer:
        for batch in chain([first], remaining):
            writer.write_batch(batch.select(names), row_group_size=ROWS_A_FILE)
            rows += len(batch)
    return LakeFile(content=sink.getvalue(), rows=rows)


def read_file(content: bytes, *, columns: Sequence[str] | None = None) -> "pa.RecordBatch":
    """Columns of a file, or all but its partition column, as one record batch.

    Raises:
        pyarrow.ArrowException: it is no Parquet file, or lacks a column.
        PoolError: its texts are larger than the 2 GiB that a batch holds.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    chosen = None if columns is None else list(columns)
    table = pq.read_table(pa.BufferReader(content), columns=chosen, use_threads=False)
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise PoolError(f"a file of the lake holds {len(table):,} rows of {len(content):,} bytes, too large to be read")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def rows_in(content: bytes) -> int:
    """How many rows a file holds, by its footer.

    Raises:
        pyarrow.ArrowException: it is no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    return int(pq.read_metadata(pa.BufferReader(content)).num_rows)
