"""The embedded server, when it is not there any more."""

import os
import signal
import tempfile
from pathlib import Path

import psutil
import psycopg
import pytest

from flywheel.errors import ServiceError
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.services.processes import postmaster_pid


def test_a_server_that_was_killed_is_noticed() -> None:
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        server.start()
        server.check()
        pid = postmaster_pid(server.data)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)], timeout=10)
        with pytest.raises(ServiceError, match="PostgreSQL has ended"):
            server.check()


def test_a_server_has_room_for_a_day_unless_a_person_decided_otherwise() -> None:
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        file = server.data / "postgresql.conf"
        try:
            assert shown(server.start(), "wal_buffers", "shared_buffers") == ["64MB", "256MB"]
            server.stop()
            with file.open("a") as configuration:
                configuration.write("shared_buffers = 32MB\n")
            written = file.read_text()
            assert shown(server.start(), "wal_buffers", "shared_buffers") == ["64MB", "32MB"]
            assert file.read_text() == written
        finally:
            server.stop()


def shown(url: str, *names: str) -> list[str]:
    """What a server says of its settings."""
    with psycopg.connect(url) as connection:
        return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]  # type: ignore[index,call-overload]
