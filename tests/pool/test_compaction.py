"""Small files become larger ones, the log is summed up, and readers find the same rows, of old versions too."""

import os
import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from flywheel.errors import PoolError
from flywheel.pool.digests import Digest
from flywheel.pool.lake import Compaction
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.retention import enforce_retention
from flywheel.pool.rows import Row
from flywheel.pool.schemas import LAKE_TABLES
from tests.pool.logs import NOON

TABLE = "data_points"
DAYS = (date(2026, 3, 1), date(2026, 3, 2))
SCHEMA = pa.schema([("day", pa.date32()), ("payload", pa.string())])
A_DAY_S = 86_400


def append(pool: BenchmarkPool, day: date, payload: str) -> None:
    from deltalake import write_deltalake

    table = pa.table({"day": [day], "payload": [payload]}, schema=SCHEMA)
    options = pool.lake.storage_options
    write_deltalake(pool.lake.table_url(TABLE), table, mode="append", partition_by=["day"], storage_options=options)


@pytest.fixture
def fragmented(pool: BenchmarkPool) -> BenchmarkPool:
    """Two days of ten files with a row each."""
    for number in range(20):
        append(pool, DAYS[number % 2], f"row {number}")
    return pool


def rows_of(pool: BenchmarkPool, *, version: int | None = None) -> list[Row]:
    batches = pool.lake.read(TABLE, columns=("day", "payload"), version=version)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: str(row["payload"]))


def digest_of(rows: list[Row]) -> str:
    digest = Digest()
    for row in rows:
        digest.add(row["payload"].encode())
    return digest.hexdigest()


def log_of(pool: BenchmarkPool) -> set[str]:
    return {path.name for path in (Path(pool.lake.table_url(TABLE)) / "_delta_log").iterdir()}


@pytest.mark.parametrize("lake_url", ["folder", "s3"], indirect=True)
def test_small_files_become_one_a_partition_and_the_rows_stay(fragmented: BenchmarkPool) -> None:
    before = rows_of(fragmented)
    assert len(before) == 20
    assert fragmented.compact(TABLE) == Compaction(table=TABLE, files_before=20, files_after=2)
    assert rows_of(fragmented) == before
    assert digest_of(rows_of(fragmented)) == digest_of(before)
    assert fragmented.lake.partitions(TABLE) == tuple(map(str, DAYS))
    assert [row["payload"] for row in rows_of(fragmented, version=2)] == ["row 0", "row 1", "row 2"]


def test_compacting_again_changes_nothing(fragmented: BenchmarkPool) -> None:
    fragmented.compact(TABLE)
    version = fragmented.lake.version(TABLE)
    assert fragmented.compact(TABLE) == Compaction(table=TABLE, files_before=2, files_after=2)
    assert fragmented.lake.version(TABLE) == version


def test_a_reader_that_began_before_reads_to_its_end(fragmented: BenchmarkPool) -> None:
    reading = fragmented.lake.read(TABLE, columns=("payload",))
    first = next(reading)
    fragmented.compact(TABLE)
    fragmented.vacuum(TABLE, keep_days=fragmented.settings.history_days)
    assert sum(len(batch) for batch in (first, *reading)) == 20


def test_a_writer_waits_for_a_compaction(fragmented: BenchmarkPool) -> None:
    import threading

    done: list[str] = []

    def write() -> None:
        row = {"day": DAYS[0], "payload": "new"}
        fragmented.replace(TABLE, DAYS[0], [row], schema=SCHEMA)
        done.append("written")

    with fragmented.exclusive(f"lake:{TABLE}"):
        writer = threading.Thread(target=write)
        writer.start()
        writer.join(0.5)
        assert fragmented.lake.compact(TABLE, history_days=7).files_after == 2
        assert not done
    writer.join()
    assert len(rows_of(fragmented)) == 11


def test_entries_of_the_log_go_after_the_days_that_versions_are_kept(fragmented: BenchmarkPool) -> None:
    fragmented.compact(TABLE)
    aged = time.time() - (fragmented.settings.history_days + 1) * A_DAY_S
    for path in (Path(fragmented.lake.table_url(TABLE)) / "_delta_log").iterdir():
        os.utime(path, (aged, aged))
    young = fragmented.lake.version(TABLE)
    append(fragmented, DAYS[0], "young")
    before = rows_of(fragmented)
    fragmented.compact(TABLE)
    assert not {f"{version:020}.json" for version in range(20)} & log_of(fragmented)
    assert rows_of(fragmented) == before
    assert (len(rows_of(fragmented, version=young)), len(rows_of(fragmented, version=young + 1))) == (20, 21)
    with pytest.raises(PoolError, match="cannot be read"):
        rows_of(fragmented, version=3)


def test_nothing_is_left_of_a_version_that_was_forgotten(fragmented: BenchmarkPool) -> None:
    fragmented.replace(TABLE, DAYS[0], [], schema=SCHEMA)
    before = rows_of(fragmented)
    fragmented.forget(TABLE)
    assert rows_of(fragmented) == before
    held = [path for path in (fragmented.settings.home / "lake").rglob("*") if path.is_file()]
    assert not [path for path in held if b"row 4" in path.read_bytes()]
    assert [path for path in held if b"row 5" in path.read_bytes()]
    fragmented.compact(TABLE)
    assert rows_of(fragmented) == before


def test_retention_compacts_every_table_and_reports_it(fragmented: BenchmarkPool) -> None:
    report = enforce_retention(fragmented, now=NOON)
    assert [compaction.table for compaction in report.compacted] == list(LAKE_TABLES)
    assert Compaction(table=TABLE, files_before=20, files_after=2) in report.compacted
    assert len(rows_of(fragmented)) == 20


def test_a_table_that_was_never_written_is_compacted_to_nothing(pool: BenchmarkPool) -> None:
    assert pool.compact(TABLE) == Compaction(table=TABLE, files_before=0, files_after=0)
    pool.forget(TABLE)


def test_a_damaged_table_is_not_compacted(fragmented: BenchmarkPool) -> None:
    files = sorted(Path(fragmented.lake.table_url(TABLE)).rglob("*.parquet"))
    files[0].write_bytes(b"damaged")
    with pytest.raises(PoolError, match=rf"lake table {TABLE} at .* was not compacted"):
        fragmented.compact(TABLE)
