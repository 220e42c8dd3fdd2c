"""An empty pool on a database of its own, its lake in a folder or in an object store."""

import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """URL of a local S3 server."""
    server = pytest.importorskip("moto.server", reason="moto is not installed; pip install 'moto[s3]'")
    logging.getLogger("werkzeug").disabled = True  # a line a request
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        running.stop()


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
