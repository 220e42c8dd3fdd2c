"""An empty pool on a database of its own, its lake in a folder or in an object store."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """URL of a local S3 server. It is a process: some calls of delta-rs let no other thread run while they wait."""
    pytest.importorskip("moto.server", reason="moto is not installed; pip install 'moto[s3,server]'")
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_it_listens(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_until_it_listens(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        assert process.poll() is None, "the local S3 server ended"
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise TimeoutError("the local S3 server does not listen after a minute")


@pytest.fixture
def s3(object_store: str) -> Any:
    """A client of it."""
    import boto3  # type: ignore[import-untyped]

    return boto3.client(
        "s3",
        endpoint_url=object_store,
        region_name="us-east-1",
        aws_access_key_id="someone",
        aws_secret_access_key="their secret",
    )


@pytest.fixture
def bucket(object_store: str, s3: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh bucket that the environment gives access to."""
    for name, value in {
        "AWS_ENDPOINT_URL": object_store,
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "their secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"flywheel-{uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def lake_url(request: pytest.FixtureRequest) -> str:
    """Where the lake is: below home, or for tests that ask for ``s3`` in a bucket."""
    if getattr(request, "param", "folder") == "folder":
        return ""
    return f"s3://{request.getfixturevalue('bucket')}/some/lake"


@pytest.fixture
def settings(settings: Settings, lake_url: str) -> Settings:
    return settings.model_copy(update={"lake_url": lake_url})


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened
