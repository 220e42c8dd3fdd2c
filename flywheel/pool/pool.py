"""The benchmark data pool as one object: PostgreSQL for what changes, the lake for what is large, the settings."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from psycopg import Connection, OperationalError
from sqlalchemy import Engine

from flywheel.database import connect, raise_outage
from flywheel.errors import PoolError
from flywheel.pool.files import LakeFile, files_of
from flywheel.pool.filters import PointFilter
from flywheel.pool.lake import PARTITION, Compaction, Lake
from flywheel.pool.workers import cores
from flywheel.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake.transaction import AddAction

    from flywheel.pool.batches import Batch
    from flywheel.pool.queries.points import PointQuery, Points
    from flywheel.pool.queries.quality import QualityReport
    from flywheel.pool.queries.statistics import AgentAnswer, PoolStatistics, SystemAnswer
    from flywheel.pool.queries.sums import By

SEGMENTS = "segments"  # the lock of those who read closed segments, and of those who replace them


class BenchmarkPool(Struct, frozen=True):
    """What every function of the pool works on. Use it as a context manager, or close it."""

    engine: Engine
    lake: Lake
    settings: Settings

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The pool that the settings describe.

        Raises:
            PoolError: no database is configured.
        """
        if not settings.database_url:
            raise PoolError("no database is configured; start `flywheel up`, or set FLYWHEEL_DATABASE_URL")
        return cls(connect(settings.database_url), Lake(settings.lake), settings)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        """A psycopg connection in a transaction, for COPY and statements over temporary tables.

        Raises:
            DatabaseError: PostgreSQL cannot be reached, stops answering or has no room; all is undone.
        """
        held = self.engine.connect()
        try:
            connection: Connection[Any] = held.connection.driver_connection  # type: ignore[assignment]
            with connection.transaction():
                yield connection
        except OperationalError as error:  # statements of the connection itself: the engine does not see them
            raise_outage(error)
            raise
        finally:
            held.close()

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Connection[Any]]:
        """A transaction that no other one of the same name runs beside, on any machine (advisory lock)."""
        with self.transaction() as connection:
            self.take(connection, name)
            yield connection

    @staticmethod
    def take(connection: Connection[Any], name: str) -> None:
        """Make a transaction ``exclusive`` under one more name, until it ends."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(name),))

    @staticmethod
    def take_if_free(connection: Connection[Any], name: str) -> bool:
        """The same where nobody else is ``exclusive`` under this name; whether that is so."""
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (lock_key(name),)).fetchone()
        return row is not None and bool(row[0])

    @staticmethod
    def share(connection: Connection[Any], name: str) -> None:
        """Keep those who are ``exclusive`` under this name out until the transaction ends; others may share."""
        connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (lock_key(name),))

    def keep_segments(self, connection: Connection[Any]) -> None:
        """Keep those out who remove or rewrite closed segments, until the transaction ends."""
        self.share(connection, SEGMENTS)

    def change_segments(self, connection: Connection[Any]) -> None:
        """Wait for those who read closed segments, and keep others out until the transaction ends."""
        self.take(connection, SEGMENTS)

    @contextmanager
    def as_service(self, connection: Connection[Any]) -> Iterator[None]:
        """Statements within have the service's rights, also in a principal's transaction.

        They are for what decides where something is read, and is not given out itself.
        """
        del connection
        yield

    @contextmanager
    def as_caller(self, connection: Connection[Any]) -> Iterator[None]:
        """Statements within, of a transaction of the service, see what whoever asks may see."""
        del connection
        yield

    def now(self) -> datetime:
        """What the clock says, UTC; in a simulation the moment that is simulated."""
        return self.settings.simulated_now or datetime.now(UTC)

    @property
    def processes(self) -> int:
        """How many processes may work side by side on one day."""
        return self.settings.pool_processes or cores()

    def replace(
        self,
        table: str,
        partition: date | str,
        rows: Iterable[dict[str, Any]],
        *,
        schema: "pa.Schema",
        key: str = PARTITION,
    ) -> None:
        """The same as ``replace_files`` for rows as dictionaries: where they are few."""
        self.replace_files(table, partition, files_of(rows, schema=schema, key=key), schema=schema, key=key)

    def replace_files(
        self,
        table: str,
        partition: date | str,
        files: Iterable[LakeFile],
        *,
        schema: "pa.Schema",
        key: str = PARTITION,
    ) -> None:
        """Make the files the whole content of one partition of a lake table; writers of one table take turns.

        An error that making the files raises is raised as it is; what was uploaded before it is deleted. Once the
        commit began nothing is: it may have reached the lake. Files that it did not list are found by ``vacuum``.

        Raises:
            PoolError: the lake cannot be written.
        """
        with self.transaction() as connection:
            self.share(connection, f"files:{table}")  # keeps those out who delete files that no version lists
            with self.exclusive(f"lake:{table}"):
                self.lake.create(table, schema=schema, key=key)
            uploaded: list[AddAction] = []
            try:
                for number, file in enumerate(files):
                    uploaded.append(self.lake.upload(table, str(partition), file, number=number, key=key))
            except BaseException:
                self.lake.discard(table, uploaded)
                raise
            with self.exclusive(f"lake:{table}"):
                self.lake.commit(table, str(partition), uploaded, key=key)

    def vacuum(self, table: str, *, keep_days: int) -> int:
        """Delete the files of versions of a lake table that were replaced longer ago. Returns how many.

        Raises:
            PoolError: the table cannot be read or its files not be deleted.
        """
        with self.exclusive(f"files:{table}"), self.exclusive(f"lake:{table}"):
            return self.lake.vacuum(table, keep_days=keep_days)

    def compact(self, table: str) -> Compaction:
        """Merge the small files of a lake table; writers wait meanwhile, readers do not notice.

        Raises:
            PoolError: the table cannot be read or written.
        """
        with self.exclusive(f"lake:{table}"):
            return self.lake.compact(table, history_days=self.settings.history_days)

    def forget(self, table: str) -> None:
        """Remove all that is left of earlier versions of a lake table. Who reads one of them now gets an error.

        Raises:
            PoolError: the table cannot be read or its files not be deleted.
        """
        with self.exclusive(f"files:{table}"), self.exclusive(f"lake:{table}"):
            self.lake.forget(table, history_days=self.settings.history_days)

    def get_points(self, query: "PointQuery | None" = None) -> "Points":
        """Points across tiers, to iterate or as Arrow or pandas: see ``flywheel.pool.queries.points``."""
        from flywheel.pool.queries.points import PointQuery, Points

        return Points(self, query or PointQuery())

    def get_agent_statistics(self, agent_id: str, where: "PointFilter | None" = None) -> "AgentAnswer":
        """How an agent did: see ``flywheel.pool.queries.statistics``."""
        from flywheel.pool.queries import statistics

        return statistics.get_agent_statistics(self, agent_id, where or PointFilter())

    def get_system_statistics(self, by: "By" = "task_type", where: "PointFilter | None" = None) -> "SystemAnswer":
        """How all agents did, by one property: see ``flywheel.pool.queries.statistics``."""
        from flywheel.pool.queries import statistics

        return statistics.get_system_statistics(self, by, where or PointFilter())

    def get_statistics(self, where: "PointFilter | None" = None) -> "PoolStatistics":
        """The pool as a whole: see ``flywheel.pool.queries.statistics``."""
        from flywheel.pool.queries import statistics

        return statistics.get_statistics(self, where or PointFilter())

    def get_batch(self, batch_id: str) -> "Batch":
        """A training batch: see ``flywheel.pool.batches``."""
        from flywheel.pool import batches

        return batches.get_batch(self, batch_id)

    def export_batch(self, batch_id: str, folder: Path) -> Path:
        """Write a batch's points for the trainers: see ``flywheel.pool.batches``."""
        from flywheel.pool import batches

        return batches.export_batch(self, batch_id, folder)

    def validate_quality(self, first: date | None = None, last: date | None = None) -> "QualityReport":
        """The quality of some days against the targets: see ``flywheel.pool.queries.quality``."""
        from flywheel.pool.queries import quality

        return quality.validate_quality(self, first, last)


def lock_key(name: str) -> int:
    """The key of an advisory lock: 64 bits of the name's digest."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
