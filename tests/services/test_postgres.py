"""The embedded server, when it is not there any more."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

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


def test_who_copies_is_spared_the_log_unless_a_person_decided_otherwise() -> None:
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        url = server.start()
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                assert configured(connection) == {"wal_init_zero": "off", "wal_writer_delay": "10ms"}
                connection.execute("ALTER SYSTEM SET wal_init_zero = on")
                connection.execute("SELECT pg_reload_conf()")
            server.start()
            with psycopg.connect(url) as connection:
                assert configured(connection) == {"wal_init_zero": "on", "wal_writer_delay": "10ms"}
        finally:
            server.stop()


def configured(connection: "psycopg.Connection[Any]") -> dict[str, str]:
    """What the server's files say, which it may not have read again yet."""
    query = "SELECT name, setting FROM pg_file_settings WHERE name IN ('wal_init_zero', 'wal_writer_delay')"
    return dict(connection.execute(query))
