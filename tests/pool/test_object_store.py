"""The lake in an object store: commits that exclude each other, and errors in a sentence, soon, never "empty".

That whole days and batches work there as on disk is tested where they are: see the tests with ``lake_url``.
"""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from flywheel.errors import PoolError
from flywheel.pool import object_store as options
from flywheel.pool.files import lake_file
from flywheel.pool.lake import Lake
from flywheel.pool.object_store import reason_of, storage_options
from flywheel.pool.pool import BenchmarkPool

TABLE = "points"
SECONDS = 30
on_s3 = pytest.mark.parametrize("lake_url", ["s3"], indirect=True)


DAY = "2026-03-02"
SCHEMA = pa.schema([("day", pa.string()), ("number", pa.int64())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"day": [DAY] * len(numbers), "number": numbers}, schema=SCHEMA)


def replace(lake: Lake, *numbers: int) -> None:
    lake.create(TABLE, schema=SCHEMA)
    file = lake_file(rows(*numbers).to_batches(), key="day")
    lake.commit(TABLE, DAY, [lake.upload(TABLE, DAY, file, number=0)])


def numbers_in(lake: Lake, *, version: int | None = None) -> list[int]:
    batches = lake.read(TABLE, columns=("number",), version=version)
    return [number for batch in batches for number in batch.column("number").to_pylist()]


@on_s3
def test_a_table_in_a_bucket_is_replaced_read_listed_and_vacuumed(lake_url: str, tmp_path: Path) -> None:
    lake = Lake(lake_url)
    assert (lake.exists(TABLE), lake.version(TABLE), lake.partitions(TABLE), numbers_in(lake)) == (False, -1, (), [])
    replace(lake, 1, 2)
    replace(lake, 3)
    assert (lake.exists(TABLE), lake.version(TABLE), lake.partitions(TABLE)) == (True, 2, (DAY,))
    assert (numbers_in(lake), numbers_in(lake, version=1)) == ([3], [1, 2])
    assert lake.vacuum(TABLE, keep_days=0) == 1
    assert numbers_in(lake) == [3]
    assert list(tmp_path.iterdir()) == []


def committed_by_four(lake: Lake) -> list[int]:
    """Which of four that write the same version at once were not refused."""
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError

    replace(lake, 0)
    seen = [DeltaTable(lake.table_url(TABLE), storage_options=lake.storage_options) for _ in range(4)]
    start, refused = threading.Barrier(len(seen)), []

    def write(number: int) -> None:
        start.wait()
        try:
            write_deltalake(
                seen[number],
                rows(number),
                mode="overwrite",
                predicate=f"day = '{DAY}'",
                storage_options=lake.storage_options,
            )
        except CommitFailedError:
            refused.append(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(len(seen))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return sorted(set(range(len(seen))) - set(refused))


@on_s3
def test_of_writers_of_one_version_one_commits_it(lake_url: str) -> None:
    lake = Lake(lake_url)
    (winner,) = committed_by_four(lake)
    assert (numbers_in(lake), lake.version(TABLE)) == ([winner], 2)


@on_s3
def test_an_unsafe_environment_does_not_make_commits_unsafe(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    lake = Lake(lake_url)
    (winner,) = committed_by_four(lake)
    assert (numbers_in(lake), lake.version(TABLE)) == ([winner], 2)


def refused_by(lake: Lake) -> list[str]:
    """What each method says of a store that cannot be used, and that it says it soon."""
    said = []
    for method in (
        lambda: lake.exists(TABLE),
        lambda: lake.version(TABLE),
        lambda: lake.partitions(TABLE),
        lambda: list(lake.read(TABLE, columns=("number",))),
        lambda: lake.vacuum(TABLE, keep_days=0),
        lambda: replace(lake, 1),
    ):
        began = time.monotonic()
        with pytest.raises(PoolError) as refusal:
            method()
        assert time.monotonic() - began < SECONDS
        said.append(str(refusal.value))
        assert "\n" not in said[-1]
        assert "\x1b" not in said[-1]
    return said


def test_a_bucket_that_is_not_there_is_no_empty_lake(bucket: str) -> None:
    for said in refused_by(Lake(f"s3://{bucket}-not/lake")):
        assert "NoSuchBucket, The specified bucket does not exist" in said
        assert "see that FLYWHEEL_LAKE_URL" in said


@pytest.fixture
def strict_store(object_store: str, lake_url: str) -> Iterator[str]:
    """A lake in a store; the store asks for credentials it knows from now on."""

    def allow(requests: bytes) -> None:
        plain = {"Content-Type": "application/octet-stream"}
        urlopen(Request(f"{object_store}/moto-api/reset-auth", data=requests, headers=plain)).close()

    allow(b"0")
    yield lake_url
    allow(b"inf")


@on_s3
def test_wrong_credentials_are_no_empty_lake(strict_store: str) -> None:
    for said in refused_by(Lake(strict_store)):
        assert "InvalidAccessKeyId" in said


@on_s3
def test_an_endpoint_where_nobody_listens_is_no_empty_lake(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        for said in refused_by(Lake(lake_url)):
            assert "Connection refused" in said


@on_s3
def test_an_endpoint_that_never_answers_is_an_error_in_time(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "PATIENCE", {**options.PATIENCE, "timeout": "1s", "retry_timeout": "1s"})
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{mute.getsockname()[1]}")
        for said in refused_by(Lake(lake_url)):
            assert "operation timed out" in said


def test_an_unknown_kind_of_store_is_no_empty_lake() -> None:
    with pytest.raises(PoolError, match="Unknown scheme: ftp4"):
        Lake("ftp4://somewhere/lake").exists(TABLE)


def test_an_account_that_is_not_named_is_no_empty_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PoolError, match="Account must be specified"):
        Lake("az://container/lake").exists(TABLE)


def test_a_damaged_table_in_a_bucket_is_no_empty_one(bucket: str, s3: Any) -> None:
    lake = Lake(f"s3://{bucket}/lake")
    replace(lake, 1)
    s3.put_object(Bucket=bucket, Key=f"lake/{TABLE}/_delta_log/00000000000000000000.json", Body=b"damaged")
    with pytest.raises(PoolError, match="cannot be read"):
        lake.exists(TABLE)


def test_every_store_is_given_the_same_patience_and_only_s3_its_commits() -> None:
    assert storage_options("/data/lake") is None
    assert storage_options("file:///data/lake") is None
    assert storage_options("gs://bucket/lake") == storage_options("az://container/lake") == options.PATIENCE
    assert storage_options("s3://bucket/lake") == options.PATIENCE | options.ONE_COMMIT_WINS


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Not enough space\n at frame 1\n at frame 2", "Not enough space"),
        ("", "OSError"),
        ("Generic S3 error\n   \x1b[31m↳\x1b[0m Error performing GET\n  ↳ dns error", "Generic S3 error: dns error"),
        ("Kernel error -> Generic S3 error\n ↳ 403\n ↳ <Error><Code>Denied</Code></Error>", "Generic S3 error: Denied"),
    ],
)
def test_the_reason_is_one_line(said: str, reason: str) -> None:
    assert reason_of(OSError(said)) == reason


@on_s3
def test_nothing_is_made_on_this_machine_for_a_lake_elsewhere(pool: BenchmarkPool) -> None:
    pool.replace(TABLE, DAY, [{"day": DAY, "number": 1}], schema=SCHEMA)
    assert numbers_in(pool.lake) == [1]
    assert not pool.settings.home.exists()
