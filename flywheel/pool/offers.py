"""What the warm tier offers for batches: its points without their payload, read by column."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Offer
from flywheel.records import utc_day

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "id",
    "day",
    "timestamp",
    "tenant_id",
    "task_id",
    "source",
    "task_type",
    "complexity",
    "agent_id",
    "success",
    "overall_score",
    "rl_ready",
)


def read_offers(
    pool: BenchmarkPool,
    *,
    since: datetime,
    until: datetime | None = None,
    version: int | None = None,
    verifiable: bool = False,
) -> Iterator[Offer]:
    """Points of the days from ``since`` to ``until``, both whole.

    Args:
        pool: whose warm tier is read.
        since: an instant of the first day.
        until: an instant of the last day; None: all that follow.
        version: of the lake table; by default what it holds now.
        verifiable: only points that name a benchmark task, whose answers can be verified.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
    """
    first, last = str(utc_day(since)), "9999" if until is None else str(utc_day(until))
    days = [day for day in pool.lake.partitions(WARM) if first <= day <= last]
    for rows in pool.lake.read(WARM, columns=COLUMNS, partitions=days, version=version):
        yield from offers_of(rows.filter(rows.column("source").is_valid()) if verifiable else rows)


def offers_of(rows: "pa.RecordBatch") -> Iterator[Offer]:
    """Rows of ``COLUMNS`` as offers."""
    columns: dict[str, list[Any]] = {name: rows.column(name).to_pylist() for name in COLUMNS if name != "timestamp"}
    instants = rows.column("timestamp").to_numpy(zero_copy_only=False).astype("datetime64[us]").tolist()
    tasks = zip(columns.pop("source"), columns["tenant_id"], columns.pop("task_id"), strict=True)
    names = tuple(columns)
    for instant, task, values in zip(instants, tasks, zip(*columns.values(), strict=True), strict=True):
        source, tenant, task_id = task
        yield Offer(
            timestamp=instant.replace(tzinfo=UTC),
            source_task=f"{tenant}/{task_id}" if source is None else source,
            **dict(zip(names, values, strict=True)),
        )
