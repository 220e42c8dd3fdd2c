"""The lake: immutable columnar files in Delta Lake tables, in a folder or an object store, one partition a day.

Object stores take their credentials from the environment, as ``deltalake`` documents (``AWS_ACCESS_KEY_ID`` …).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.files import ROWS_A_FILE, LakeFile
from flywheel.pool.object_store import reason_of, storage_options

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyarrow.fs import PyFileSystem

PARTITION = "day"
ROWS_A_BATCH = 1_000
COMPACT_BYTES = 8 << 20  # larger files are left as they are: a file is what one process works on
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
        self._kept: tuple[str, int, DeltaTable] | None = None

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

    def create(self, table: str, *, schema: "pa.Schema", key: str = PARTITION) -> None:
        """Make the table without rows where there is none, and give it the columns that it lacks.

        Raises:
            PoolError: it cannot be made or changed.
        """
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        described = Schema.from_arrow(schema)
        try:
            if not self.exists(table):
                keep_private(self.url)
                DeltaTable.create(
                    self.table_url(table),
                    described,
                    mode="ignore",
                    partition_by=[key],
                    storage_options=self.storage_options,
                )
                return
            delta = self.opened(table)
            known = frozenset(field.name for field in delta.schema().fields)
            added = [field for field in described.fields if field.name not in known]
            if added:
                delta.alter.add_columns(added)
        except (DeltaError, OSError) as error:
            raise PoolError(f"lake table {table} at {self.url} cannot be made: {reason_of(error)}") from error

    def upload(self, table: str, partition: str, file: LakeFile, *, number: int, key: str = PARTITION) -> "AddAction":
        """Put a file where the table's files of a partition are. Nobody reads it before it is committed.

        Raises:
            PoolError: it was not written whole.
        """
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import AddAction

        path = f"{key}={partition}/{number:05}-{uuid4()}.zstd.parquet"
        try:
            # what is larger than the buffer is handed on as an object that delta-rs does not take
            with self._files(table).open_output_stream(path, buffer_size=1 + len(file.content)) as stream:
                stream.write(file.content)
        except (DeltaError, OSError) as error:
            raise self._unwritten(table, partition, error) from error
        return AddAction(
            path=path,
            size=len(file.content),
            partition_values={key: partition},
            modification_time=time_ns() // 1_000_000,
            data_change=True,
            stats=f'{{"numRecords": {file.rows}}}',  # ranges are in the file itself; partial ones here mislead readers
        )

    def commit(self, table: str, partition: str, uploaded: "Sequence[AddAction]", *, key: str = PARTITION) -> None:
        """Make uploaded files the whole content of one partition. Readers see the old content or the new.

        Writers of one table take turns: see ``BenchmarkPool.replace_files``.

        Raises:
            PoolError: the old content is still there, unless the answer to a commit that was made got lost.
        """
        from deltalake.exceptions import DeltaError

        try:
            delta = self.opened(table)
            delta.create_write_transaction(
                list(uploaded), "overwrite", delta.schema(), [key], partition_filters=[(key, "=", partition)]
            )
        except (DeltaError, OSError) as error:
            raise self._unwritten(table, partition, error) from error

    def discard(self, table: str, uploaded: "Iterable[AddAction]") -> None:
        """Delete files that will not be committed. One that cannot be deleted now is found by ``vacuum``."""
        from deltalake.exceptions import DeltaError

        for action in uploaded:
            with suppress(DeltaError, OSError):
                self._files(table).delete_file(action.path)

    def contents(self, table: str, partition: str) -> Iterator[bytes]:
        """The files of a partition as they are, in the order in which they were written.

        Raises:
            PoolError: the table is there and cannot be read.
        """
        import pyarrow as pa
        from deltalake.exceptions import DeltaError

        if not self.exists(table):
            return
        delta = self.opened(table)
        key = delta.metadata().partition_columns[0]
        added = pa.table(delta.get_add_actions(flatten=True)).select(["path", f"partition.{key}"])
        paths = sorted(path for path, value in zip(*added.to_pydict().values(), strict=True) if str(value) == partition)
        try:
            for path in paths:
                with self._files(table).open_input_file(unquote(path)) as stream:
                    yield stream.read()
        except (DeltaError, OSError) as error:
            raise self._unreadable(table, error) from error

    def read(
        self,
        table: str,
        *,
        columns: Sequence[str],
        partitions: Sequence[str] | None = None,
        where: "pc.Expression | None" = None,
        version: int | None = None,
    ) -> "Iterator[pa.RecordBatch]":
        """Rows of some partitions, or of all, in small batches. A table never written has none.

        A column that the table was never written with is left out. With ``where`` only rows for which it holds, with
        ``version`` the rows as they were then, where the files of then are still kept.

        Raises:
            PoolError: the table is there and cannot be read.
        """
        if (partitions is not None and not partitions) or not self.exists(table):
            return
        delta = self.opened(table, version)
        key = delta.metadata().partition_columns[0]
        chosen = None if partitions is None else [(key, "in", list(partitions))]
        try:
            dataset = delta.to_pyarrow_dataset(file_pruning_predicate=chosen)
            known = frozenset(dataset.schema.names)
            asked = [name for name in columns if name in known]
            yield from dataset.to_batches(
                columns=asked, filter=where, batch_size=ROWS_A_BATCH, batch_readahead=2, fragment_readahead=1
            )
        except OSError as error:
            raise self._unreadable(table, error) from error

    def partitions(self, table: str, *, version: int | None = None) -> tuple[str, ...]:
        """The partitions that hold rows, or held them in a version, sorted."""
        if not self.exists(table):
            return ()
        delta = self.opened(table, version)
        return tuple(sorted({next(iter(values.values())) for values in delta.partitions()}))

    def size_bytes(self, table: str) -> int:
        """Bytes of the present version's files; those of versions that were replaced are not counted.

        Raises:
            PoolError: the table cannot be read.
        """
        import pyarrow as pa

        if not self.exists(table):
            return 0
        return sum(pa.table(self.opened(table).get_add_actions()).column("size_bytes").to_pylist())

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
                self.opened(table).vacuum(
                    retention_hours=24 * keep_days, dry_run=False, enforce_retention_duration=False, full=True
                )
            )
        except (DeltaError, OSError) as error:
            raise PoolError(f"lake table {table} at {self.url} was not vacuumed: {reason_of(error)}") from error

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
        delta = self.opened(table)
        before = len(delta.file_uris())
        properties = WriterProperties(compression="ZSTD", max_row_group_size=ROWS_A_FILE)
        try:
            delta.optimize.compact(target_size=COMPACT_BYTES, max_concurrent_tasks=1, writer_properties=properties)
            self._sum_up_log(delta, keep_days=history_days)
        except (DeltaError, OSError) as error:
            raise PoolError(f"lake table {table} at {self.url} was not compacted: {reason_of(error)}") from error
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
            delta = self.opened(table)
            self._sum_up_log(delta, keep_days=0)
            delta.alter.set_table_properties({LOG_RETENTION: f"interval {history_days} days"})
        except (DeltaError, OSError) as error:
            raise PoolError(f"the log of lake table {table} at {self.url} was not cut: {reason_of(error)}") from error

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
        if not self.exists(table):
            return -1
        delta = self.opened(table)
        self._kept = (table, delta.version(), delta)
        return delta.version()

    def opened(self, table: str, version: int | None = None) -> "DeltaTable":
        """A table that is there, as it is or was in a version. The version that was last named is kept open.

        Raises:
            PoolError: it cannot be read.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        kept = self._kept  # another thread may keep another one meanwhile
        if kept is not None and version is not None and kept[:2] == (table, version):
            return kept[2]
        try:
            delta = DeltaTable(self.table_url(table), version=version, storage_options=self.storage_options)
        except (DeltaError, OSError) as error:
            raise self._unreadable(table, error) from error
        if version is not None:
            self._kept = (table, version, delta)
        return delta

    def _files(self, table: str) -> "PyFileSystem":
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.table_url(table), self.storage_options))

    def _unwritten(self, table: str, partition: str, error: Exception) -> PoolError:
        return PoolError(
            f"partition {partition} of lake table {table} at {self.url} was not written: {reason_of(error)}. "
            f"Check space and credentials, then run it again: it writes the whole partition."
        )

    def _unreadable(self, table: str, error: Exception) -> PoolError:
        advice = (
            "" if self.storage_options is None else "; see that FLYWHEEL_LAKE_URL and the store's credentials are right"
        )
        return PoolError(f"lake table {table} at {self.url} cannot be read: {reason_of(error)}{advice}")


def keep_private(url: str) -> None:
    """Make the lake's folder for its owner alone, unless it is there: files know neither tenants nor grants."""
    if "://" not in url:
        Path(url).mkdir(mode=0o700, parents=True, exist_ok=True)
