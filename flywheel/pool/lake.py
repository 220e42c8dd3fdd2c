"""The lake: immutable columnar files in Delta Lake tables, in a folder or an object store, one partition a day.

Object stores take their credentials from the environment, as ``deltalake`` documents (``AWS_ACCESS_KEY_ID`` …).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.object_store import reason_of, storage_options

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

PARTITION = "day"
ROWS_A_GROUP = 8_192  # what is compressed, and read back, at once: some 50 MB of points
ROWS_A_BATCH = 1_000
LOG_RETENTION = "delta.logRetentionDuration"
NO_COMMIT = "No files in log segment"  # what delta-rs says of a store that answers and has no such table


class Compaction(Struct, frozen=True, kw_only=True):
    """How many data files the newest version of a table had before, and how many it has now."""

    table: str
    files_before: int
    files_after: int


class Lake:
    """Delta tables below one folder or URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.storage_options = storage_options(self.url)

    def table_url(self, table: str) -> str:
        """Folder or URL of a table."""
        return f"{self.url}/{table}"

    def exists(self, table: str) -> bool:
        """Whether the table was ever written.

        Raises:
            PoolError: the lake cannot be reached, which is not the same as empty.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            if self.storage_options is None:
                return DeltaTable.is_deltatable(self.table_url(table))
            # While it asks a store, is_deltatable lets no other thread run; opening the table does.
            DeltaTable(self.table_url(table), storage_options=self.storage_options)
        except (DeltaError, OSError) as error:
            if isinstance(error, TableNotFoundError) and NO_COMMIT in str(error):
                return False
            raise self._unreadable(table, error) from error
        return True

    def replace(self, table: str, partition: str, rows: "pa.RecordBatchReader", *, key: str = PARTITION) -> None:
        """Make the rows the whole content of one partition, in one commit. Readers see the old content or the new.

        Writers of one table take turns: see ``BenchmarkPool.replace``.

        Raises:
            PoolError: nothing was written.
        """
        from deltalake import WriterProperties, write_deltalake
        from deltalake.exceptions import DeltaError

        predicate = f"{key} = '{partition}'" if self.exists(table) else None
        try:
            write_deltalake(
                self.table_url(table),
                rows,
                mode="overwrite",
                schema_mode="merge",
                predicate=predicate,
                partition_by=[key],
                writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=ROWS_A_GROUP),
                storage_options=self.storage_options,
            )
        except (DeltaError, OSError) as error:
            raise PoolError(
                f"partition {partition} of lake table {table} at {self.url} was not written: {first_line(error)}. "
                f"Nothing changed; check space and credentials, then run it again."
            ) from error

    def read(
        self,
        table: str,
        *,
        columns: Sequence[str],
        partitions: Sequence[str] | None = None,
        version: int | None = None,
    ) -> "Iterator[pa.RecordBatch]":
        """Rows of some partitions, or of all, in small batches. A table never written has none.

        A column that the table was never written with is left out. With ``version`` the rows as they were then, where
        the files of then are still kept.

        Raises:
            PoolError: the table is there and cannot be read.
        """
        if (partitions is not None and not partitions) or not self.exists(table):
            return
        delta = self._open(table, version)
        key = delta.metadata().partition_columns[0]
        chosen = None if partitions is None else [(key, "in", list(partitions))]
        try:
            dataset = delta.to_pyarrow_dataset(file_pruning_predicate=chosen)
            known = frozenset(dataset.schema.names)
            asked = [name for name in columns if name in known]
            yield from dataset.to_batches(
                columns=asked, batch_size=ROWS_A_BATCH, batch_readahead=2, fragment_readahead=1
            )
        except OSError as error:
            raise self._unreadable(table, error) from error

    def partitions(self, table: str) -> tuple[str, ...]:
        """The partitions that hold rows, sorted."""
        if not self.exists(table):
            return ()
        delta = self._open(table)
        return tuple(sorted({next(iter(values.values())) for values in delta.partitions()}))

    def vacuum(self, table: str, *, keep_days: int) -> int:
        """Delete files that only versions replaced longer ago refer to. Returns how many; see ``BenchmarkPool.vacuum``.

        Raises:
            PoolError: the table cannot be read or its files not be deleted.
        """
        from deltalake.exceptions import DeltaError

        if not self.exists(table):
            return 0
        try:
            return len(
                self._open(table).vacuum(
                    retention_hours=24 * keep_days, dry_run=False, enforce_retention_duration=False, full=True
                )
            )
        except (DeltaError, OSError) as error:
            raise PoolError(f"lake table {table} at {self.url} was not vacuumed: {first_line(error)}") from error

    def compact(self, table: str, *, history_days: int) -> Compaction:
        """Merge the small files of each partition, sum the log up, and drop its entries of longer ago.

        Rows stay as they are, and so do the versions of the last ``history_days``; see ``BenchmarkPool.compact``.

        Raises:
            PoolError: the table cannot be read or written.
        """
        from deltalake import WriterProperties
        from deltalake.exceptions import DeltaError

        if not self.exists(table):
            return Compaction(table=table, files_before=0, files_after=0)
        delta = self._open(table)
        before = len(delta.file_uris())
        properties = WriterProperties(compression="ZSTD", max_row_group_size=ROWS_A_GROUP)
        try:
            delta.optimize.compact(max_concurrent_tasks=1, writer_properties=properties)
            self._sum_up_log(delta, keep_days=history_days)
        except (DeltaError, OSError) as error:
            raise PoolError(f"lake table {table} at {self.url} was not compacted: {first_line(error)}") from error
        return Compaction(table=table, files_before=before, files_after=len(delta.file_uris()))

    def forget(self, table: str, *, history_days: int) -> None:
        """Remove all that is left of earlier versions: their files, and the log that told of their content.

        Versions from now on are kept for ``history_days`` again.

        Raises:
            PoolError: the table cannot be read or its files not be deleted.
        """
        from deltalake.exceptions import DeltaError

        if not self.exists(table):
            return
        self.vacuum(table, keep_days=0)
        try:
            delta = self._open(table)
            self._sum_up_log(delta, keep_days=0)
            delta.alter.set_table_properties({LOG_RETENTION: f"interval {history_days} days"})
        except (DeltaError, OSError) as error:
            raise PoolError(f"the log of lake table {table} at {self.url} was not cut: {first_line(error)}") from error

    @staticmethod
    def _sum_up_log(delta: "DeltaTable", *, keep_days: int) -> None:
        """Write a checkpoint and drop the entries before it that are older."""
        wanted = {LOG_RETENTION: f"interval {keep_days} days"}
        if delta.metadata().configuration.get(LOG_RETENTION) != wanted[LOG_RETENTION]:
            delta.alter.set_table_properties(wanted)
        delta.create_checkpoint()
        delta.cleanup_metadata()

    def version(self, table: str) -> int:
        """The table's version, which grows by one with every commit; -1 before the first."""
        return self._open(table).version() if self.exists(table) else -1

    def _open(self, table: str, version: int | None = None) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            return DeltaTable(self.table_url(table), version=version, storage_options=self.storage_options)
        except (DeltaError, OSError) as error:
            raise self._unreadable(table, error) from error

    def _unreadable(self, table: str, error: Exception) -> PoolError:
        advice = (
            "" if self.storage_options is None else "; see that FLYWHEEL_LAKE_URL and the store's credentials are right"
        )
        return PoolError(f"lake table {table} at {self.url} cannot be read: {first_line(error)}{advice}")


def first_line(error: Exception) -> str:
    """What an error of delta-rs says, without the trace of its frames and of the store's retries."""
    return reason_of(error)


@contextmanager
def spooled(rows: Iterable[dict[str, Any]], *, schema: "pa.Schema", folder: Path) -> "Iterator[pa.RecordBatchReader]":
    """Rows as Arrow record batches, made now, kept in a file without a name in ``folder`` and read from there.

    A table's writer pulls on a thread of its own, where rows may not come from the lake and an error loses its type;
    and while it pulls, other writers of the table wait. So the rows are complete before it starts.
    """
    import pyarrow as pa

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as file:
        compressed = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), schema, options=compressed) as writer:
            for batch in batched(rows):
                columns = [pa.array([row[field.name] for row in batch], field.type) for field in schema]
                writer.write_batch(pa.record_batch(columns, schema=schema))  # from_pylist takes ten times as long
        file.seek(0)
        with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as reader:
            yield reader


def batched(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """At most 1,000 rows at a time."""
    remaining = iter(rows)
    while batch := list(islice(remaining, ROWS_A_BATCH)):
        yield batch
