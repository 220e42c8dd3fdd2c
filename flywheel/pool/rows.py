"""Points as rows of the pool's tables: the columns that are filtered by, and the whole point as wire JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from typing import TYPE_CHECKING, Any

from flywheel.pool.files import read_file
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.records import DataPoint, encode

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flywheel.pool.pool import BenchmarkPool

Row = dict[str, Any]
REPLACED = "\ufffd"
"""What stands in columns for the one character that PostgreSQL cannot hold."""
ADDED_LISTS = frozenset({"warnings", "waived"})
"""Lists that partitions written by earlier versions lack. They read as empty there; nothing is rewritten."""
ADDED_NUMBERS = frozenset({"tool_calls"})
"""Whole numbers that such partitions lack. They read as null there."""


def row_of(point: DataPoint, *, day: date) -> Row:
    """The point as a row of ``POINT_COLUMNS``, its payload in UTF-8. ``day`` is its partition."""
    return {
        "id": point.id,
        "day": day,
        "timestamp": point.timestamp.astimezone(UTC),
        "tenant_id": column_text(point.tenant_id),
        "task_id": column_text(point.task.id),
        "source": None if point.task.source is None else column_text(point.task.source),
        "task_type": column_text(point.task.type),
        "complexity": point.task.complexity.value,
        "agent_id": column_text(point.routing.selected_agent_id),
        "success": point.execution.success,
        "overall_score": point.evaluation.overall_score,
        "total_reward": point.rl_labels.total_reward,
        "latency_ms": point.execution.latency_ms,
        "tokens_used": point.execution.tokens_used,
        "tool_calls": point.execution.tool_call_count,
        "rl_ready": point.rl_ready,
        "warnings": list(point.provenance.warnings),
        "waived": list(point.provenance.waived),
        "payload": encode(point),
    }


def column_text(text: str) -> str:
    """The text as PostgreSQL can hold it: NUL, which JSON allows and PostgreSQL does not, becomes U+FFFD."""
    return text.replace("\x00", REPLACED)


def arrow_schema(columns: Mapping[str, tuple[str, str]]) -> "pa.Schema":
    """The Arrow schema of a table described as in ``flywheel.pool.schemas``."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "bool": pa.bool_(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "list<string>": pa.list_(pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, (kind, _) in columns.items()])


def read_rows(pool: "BenchmarkPool", table: str, day: date, *, columns: Iterable[str] = POINT_COLUMNS) -> Iterator[Row]:
    """The rows of a day in a table of the lake.

    Raises:
        PoolError: the table cannot be read.
    """
    for batch in read_batches(pool, table, day, columns=tuple(columns)):
        yield from batch.to_pylist()


def read_batches(pool: "BenchmarkPool", table: str, day: date, *, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """The same as Arrow record batches.

    Raises:
        PoolError: the table cannot be read.
    """
    for batch in pool.lake.read(table, columns=columns, partitions=[str(day)]):
        yield completed(batch, columns)


def points_in(content: bytes, *, day: date) -> "pa.RecordBatch":
    """The rows of a file of points, columns of ``POINT_COLUMNS``."""
    import pyarrow as pa

    batch = read_file(content)
    days = pa.array([day] * len(batch), pa.date32())
    whole = pa.record_batch([days, *batch.columns], names=["day", *batch.schema.names])
    return completed(whole, tuple(POINT_COLUMNS)).cast(arrow_schema(POINT_COLUMNS))


def columns_in(content: bytes, *, columns: Sequence[str]) -> "pa.RecordBatch":
    """Some columns of a file of points, of those that files of all versions have."""
    schema = arrow_schema({name: POINT_COLUMNS[name] for name in columns})
    return read_file(content, columns=columns).select(list(columns)).cast(schema)


def completed(batch: "pa.RecordBatch", columns: Sequence[str]) -> "pa.RecordBatch":
    """The batch with what its partition may lack, in this order of columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar([], pa.list_(pa.string()))
    lacking: dict[str, pa.Array] = {}
    for name in (ADDED_LISTS | ADDED_NUMBERS).intersection(columns):
        if name not in batch.schema.names:
            missing = nothing if name in ADDED_LISTS else pa.scalar(None, pa.int64())
            lacking[name] = pa.repeat(missing, len(batch))
        elif name in ADDED_LISTS and batch.column(name).null_count:
            lacking[name] = pc.coalesce(batch.column(name), nothing)
    if not lacking:
        return batch.select(list(columns))
    return pa.record_batch(
        [lacking[name] if name in lacking else batch.column(name) for name in columns], names=list(columns)
    )


def read_frame(pool: "BenchmarkPool", table: str, day: date) -> "pd.DataFrame":
    """The rows of a day without their payload, for checks of the whole partition."""
    import pyarrow as pa

    schema = arrow_schema({name: POINT_COLUMNS[name] for name in POINT_COLUMNS if name != "payload"})
    batches = read_batches(pool, table, day, columns=schema.names)
    frame: pd.DataFrame = pa.Table.from_batches((batch.cast(schema) for batch in batches), schema=schema).to_pandas()
    return frame.astype(dict.fromkeys((*ADDED_NUMBERS, "tokens_used"), "Int64"))
