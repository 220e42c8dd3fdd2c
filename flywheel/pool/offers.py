"""What the warm tier offers for batches: its points without their payload, read by column."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Offer
from flywheel.pool.tenant_salts import present_hashes
from flywheel.records import utc_day

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FEW_VALUES = frozenset({"task_type", "complexity", "agent_id", "tenant_id"})
COLUMNS = (*(name for name in Offer.__struct_fields__ if name != "source_task"), "task_id", "source")


def read_offers(
    pool: BenchmarkPool,
    *,
    since: datetime,
    until: datetime | None = None,
    version: int | None = None,
    verifiable: bool = False,
) -> Iterator[Offer]:
    """Points of the days from ``since`` to ``until``, both whole, their tenants by the present hash.

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
    days = [day for day in pool.lake.partitions(WARM, version=version) if first <= day <= last]
    with pool.transaction() as connection, pool.as_service(connection):
        present = present_hashes(connection)
    for rows in pool.lake.read(WARM, columns=COLUMNS, partitions=days, version=version):
        yield from offers_of(rows.filter(rows.column("source").is_valid()) if verifiable else rows, present=present)


def offers_of(rows: "pa.RecordBatch", *, present: Mapping[str, str]) -> Iterator[Offer]:
    """Rows of ``COLUMNS`` as offers. ``present`` are the hashes of tenants by those under a former salt."""
    columns: dict[str, list[Any]] = {
        name: shared_values(rows.column(name)) if name in FEW_VALUES else values(rows.column(name)).tolist()
        for name in COLUMNS
        if name != "timestamp"
    }
    instants = values(rows.column("timestamp")).astype("datetime64[us]").tolist()
    if present:
        columns["tenant_id"] = [present.get(tenant, tenant) for tenant in columns["tenant_id"]]
    tasks = zip(columns["source"], columns["tenant_id"], columns["task_id"], strict=True)
    columns["timestamp"] = [instant.replace(tzinfo=UTC) for instant in instants]
    columns["source_task"] = [source or f"{tenant}/{task}" for source, tenant, task in tasks]
    return map(Offer, *(columns[name] for name in Offer.__struct_fields__))


def values(column: "pa.Array") -> "NDArray[Any]":
    """A column as numpy has it, where its ``tolist`` takes a fortieth of Arrow's for dates."""
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def shared_values(column: "pa.Array") -> list[str]:
    """A column of texts, each different one once: points that share them are compared and counted in half the time."""
    encoded = column.dictionary_encode()
    shared: list[str] = values(encoded.dictionary)[values(encoded.indices)].tolist()
    return shared
