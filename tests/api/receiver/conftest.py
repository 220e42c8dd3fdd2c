"""A receiver over an empty pool, in this process and as one of its own; and what it has stored."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.receiver.keys import create_key
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings

Headers = dict[str, str]
Limited = Callable[..., Settings]


def headers_of(settings: Settings, tenant: str = "acme") -> Headers:
    """The headers that carry a new key of a tenant."""
    with BenchmarkPool.open(settings) as pool:
        made = create_key(pool, tenant, name="test", by="tester", now=datetime.now(UTC))
    return {"Authorization": f"Bearer {made.key}"}


def stored(settings: Settings) -> list[dict[str, Any]]:
    """All records that lie in segments, open ones of dead writers included."""
    recover_segments(settings.segments_dir)
    found = (frame for path in closed_segments(settings.segments_dir) for frame in read_segment(path))
    return [msgspec.json.decode(frame.payload) for frame in found if isinstance(frame, Frame)]


@contextmanager
def running(settings: Settings) -> Iterator[TestClient]:
    """A client of the receiver in this process. When it is left, all is in closed segments."""
    with TestClient(create_app(settings), headers=headers_of(settings)) as client:
        yield client


@pytest.fixture
def limited(settings: Settings) -> Limited:
    """The settings with other bounds of the receiver."""

    def with_limits(**bounds: Any) -> Settings:
        return settings.model_copy(update={"receiver": ReceiverSettings(**bounds)})

    return with_limits


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with running(settings) as opened:
        yield opened


class Server:
    """``flywheel serve`` as a process of its own."""

    def __init__(self, settings: Settings, **bounds: Any) -> None:
        self.port, self.grpc_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {
            **os.environ,
            "FLYWHEEL_DATABASE_URL": settings.database_url,
            **{f"FLYWHEEL_RECEIVER__{name.upper()}": str(value) for name, value in bounds.items()},
        }
        command = (
            *(sys.executable, "-m", "flywheel.cli", "--home", str(settings.home), "--profile", "smoke", "serve"),
            *("--port", str(self.port), "--grpc-port", str(self.grpc_port)),
        )
        self.log = settings.home.parent / f"serve-{self.port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/readyz", trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(f"the receiver did not start: {self.log.read_text()}")

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(30)


@pytest.fixture
def serve(settings: Settings) -> Iterator[Callable[..., Server]]:
    """Starts receivers over this test's pool; they are gone when it ends."""
    servers: list[Server] = []

    def start(**bounds: Any) -> Server:
        servers.append(Server(settings, **bounds))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
