"""The warm tier's table at one version: files, row groups and columns that a query does not need are not read.

Days are partitions. Files whose least and greatest values exclude a condition are left out by what Delta's log says of
them, row groups by what Parquet says.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.lake import ROWS_A_BATCH, Lake
from flywheel.pool.object_store import reason_of
from flywheel.pool.rows import completed
from flywheel.pool.schemas import WARM

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

ROWS_WITHOUT_PAYLOAD = 65_536


class WarmTable(Struct, frozen=True):
    """One version of the warm tier. ``days`` are those that hold rows."""

    url: str
    delta: "DeltaTable"
    days: frozenset[date]

    @classmethod
    def open(cls, lake: Lake) -> Self | None:
        """The newest version; none where the table was never written.

        Raises:
            PoolError: the table cannot be read.
        """
        if not lake.exists(WARM):
            return None
        delta = lake.opened(WARM)
        days = frozenset(date.fromisoformat(partition["day"]) for partition in delta.partitions())
        return cls(lake.table_url(WARM), delta, days)

    def read(
        self, days: Sequence[date], *, schema: "pa.Schema", condition: "pc.Expression"
    ) -> "Iterator[pa.RecordBatch]":
        """The rows of these days for which the condition holds, in no promised order.

        Raises:
            PoolError: the table cannot be read.
        """
        if not days:
            return
        heavy = "payload" in schema.names
        try:
            dataset = self.delta.to_pyarrow_dataset(file_pruning_predicate=[("day", "in", [str(day) for day in days])])
            known = frozenset(dataset.schema.names)
            batches = dataset.to_batches(
                columns=[name for name in schema.names if name in known],
                filter=condition,
                batch_size=ROWS_A_BATCH if heavy else ROWS_WITHOUT_PAYLOAD,
                batch_readahead=2 if heavy else 4,
                fragment_readahead=1 if heavy else 4,
            )
            for batch in batches:
                if len(batch):
                    yield completed(batch, schema.names).cast(schema)
        except OSError as error:
            raise unreadable(self.url, error) from error


def unreadable(url: str, error: Exception) -> PoolError:
    """What is said of a table that is there and cannot be read."""
    return PoolError(f"lake table {url} cannot be read: {reason_of(error)}. Look at the store and its credentials")
