"""``flywheel up``: PostgreSQL, MLflow, Dagster and the pool over HTTP started in order, watched and stopped.

What is started is data (``flywheel.services.children``); this module is its life.
"""

import logging
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import psutil

from flywheel.database import connect, upgrade, url_with
from flywheel.errors import NotRunningError, ServiceError
from flywheel.services import children
from flywheel.services.children import STOP_GRACE_S, Program
from flywheel.services.dagster_api import DagsterApi
from flywheel.services.endpoints import Endpoints, HomeLock, endpoints_file, running, services_lock, write_endpoints
from flywheel.services.postgres import EmbeddedPostgres, ensure_databases
from flywheel.services.preflight import REQUIRED_FREE_BYTES, check_disk, check_ports, project_root
from flywheel.services.processes import end, find, has_child, last_lines, spawn, supervisor_id
from flywheel.services.sockets import listens, private_socket, remove_sockets
from flywheel.settings import Settings

START_TIMEOUT_S = 180.0
RELOAD_GRACE_S = 10.0
POLL_S = 0.25

logger = logging.getLogger(__name__)

OnProgress = Callable[[str], None]


def silent(_message: str) -> None:
    """Progress that nobody asked for."""


class Services:
    """The services of one home: a context manager that leaves no process behind.

    Args:
        settings: whose services.
        on_progress: called with a short sentence before each step.
        root: the project's folder; found by ``project_root`` where absent.
        required_free_bytes: disk that must be free in home.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_progress: OnProgress = silent,
        root: Path | None = None,
        required_free_bytes: int = REQUIRED_FREE_BYTES,
    ) -> None:
        self.settings = settings
        self.root = root
        self.supervisor = supervisor_id(settings.home)
        self._on_progress = on_progress
        self._required_free_bytes = required_free_bytes
        self._lock: HomeLock | None = None
        self._postgres: EmbeddedPostgres | None = None
        self._running: list[tuple[Program, subprocess.Popen[bytes]]] = []
        self._environment: dict[str, str] = {}
        self._endpoints: Endpoints | None = None

    @property
    def endpoints(self) -> Endpoints:
        """Where the services are, once they are started."""
        if self._endpoints is None:
            raise NotRunningError("the services have not been started")
        return self._endpoints

    def start(self) -> Endpoints:
        """Start everything and wait until it answers.

        Raises:
            AlreadyRunningError: another process runs the services of this home.
            PortInUseError: a port is taken; nothing was started.
            ServiceError: a service does not start, the disk is full, or the project's files are missing.
        """
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> Endpoints:
        check_disk(self.settings.home, required_bytes=self._required_free_bytes)
        root = self.root or project_root()
        self._lock = services_lock(self.settings.home).acquire()
        self._end_leftovers()
        check_ports(self.settings.ports)
        code_socket = private_socket(self.supervisor, "code.sock")
        started_at = datetime.now(UTC)
        database_url = self._start_postgres()
        (self.settings.home / "dagster").mkdir(exist_ok=True)
        self._environment = children.environment(
            self.settings, database_url=database_url, root=root, started_at=started_at, base=os.environ
        )
        self._start_programs(database_url, root, code_socket, started_at)
        self._endpoints = Endpoints(
            pid=os.getpid(),
            profile=self.settings.profile,
            started_at=started_at,
            database_url=self._environment["FLYWHEEL_DATABASE_URL"],
            dagster_url=children.dagster_url(self.settings),
            mlflow_url=children.mlflow_url(self.settings),
            api_url=children.api_url(self.settings),
        )
        write_endpoints(self.settings.home, self._endpoints)
        return self._endpoints

    def _end_leftovers(self) -> None:
        """End what a killed supervisor left. PostgreSQL stays: the embedded server is found again and used."""
        leftovers = find(self.supervisor)
        if leftovers:
            self._on_progress(f"ending {len(leftovers)} processes that a killed run left")
            end(leftovers, grace_s=STOP_GRACE_S)
        endpoints_file(self.settings.home).unlink(missing_ok=True)

    def _start_postgres(self) -> str:
        """The URL of our database, migrated, on the embedded server or on one's own."""
        self._on_progress("PostgreSQL")
        if self.settings.database_url:
            server_url = self.settings.database_url
        else:
            self._postgres = EmbeddedPostgres(self.settings.home / "postgres")
            server_url = self._postgres.start()
        ensure_databases(server_url)
        database_url = url_with(server_url, driver="", database="flywheel")
        upgrade(database_url)
        seed_agents(database_url, self.settings)
        return database_url

    def _start_programs(self, database_url: str, root: Path, code_socket: Path, started_at: datetime) -> None:
        """All at once, but for those who ask for the definitions: they come when these can be asked for."""
        self._on_progress("MLflow, Dagster and the pool's HTTP service")
        definitions = children.code_server(root, code_socket)
        mlflow = children.mlflow_server(self.settings, database_url)
        webserver = children.dagster_webserver(self.settings, root, code_socket)
        api = children.api_server(self.settings)
        self._spawn(mlflow)
        self._spawn(definitions)
        self._wait_for(definitions.name, lambda: listens(code_socket))
        self._spawn(webserver)
        self._spawn(children.dagster_daemon(root, code_socket))
        self._spawn(api)
        self._wait_for(webserver.name, lambda: answers(webserver.health_url))
        with DagsterApi(children.dagster_url(self.settings)) as dagster:
            dagster.check_location()
            self._wait_for(mlflow.name, lambda: answers(mlflow.health_url))
            self._wait_for(api.name, lambda: answers(api.health_url))
            self._wait_for("dagster-daemon", lambda: dagster.daemon_is_alive(since=started_at))

    def _spawn(self, program: Program) -> None:
        environment = {**self._environment, **program.environment}
        process = spawn(program.command, environment=environment, log=self.log_of(program.name))
        self._running.append((program, process))

    def _wait_for(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{name} did not answer within {START_TIMEOUT_S:.0f} s. The end of {self.log_of(name)}:\n"
                    f"{last_lines(self.log_of(name))}"
                )
            time.sleep(POLL_S)

    def log_of(self, name: str) -> Path:
        """The log file of a service."""
        return self.settings.home / "logs" / f"{name}.log"

    def check(self) -> None:
        """Make sure that every service still runs.

        Raises:
            ServiceError: one has ended; the message holds the end of its log.
        """
        if self._postgres is not None:
            self._postgres.check()
        for program, process in self._running:
            code = process.poll()
            if code is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                raise ServiceError(
                    f"{program.name} {how}. The end of {self.log_of(program.name)}:\n"
                    f"{last_lines(self.log_of(program.name))}"
                )
            if program.worker and self._endpoints is not None and not has_child(process.pid, program.worker):
                self._load_definitions_again(program)

    def _load_definitions_again(self, code_server: Program) -> None:
        """Give the code server another process for the definitions: it does not notice when its own was killed.

        Definitions that cannot be loaded keep their process, which says why.
        """
        logger.warning("%s lost the process that holds the definitions; it gets another", code_server.name)
        with DagsterApi(children.dagster_url(self.settings)) as dagster:
            dagster.reload_location()
            deadline = time.monotonic() + RELOAD_GRACE_S
            while dagster.location_error() and time.monotonic() < deadline:  # the web server sees it a second later
                time.sleep(POLL_S)

    def wait(self) -> None:
        """Stay until a service ends (``ServiceError``) or the process is interrupted."""
        while True:
            self.check()
            time.sleep(1.0)

    def stop(self) -> None:
        """Stop everything, those who ask before those who are asked, and wait for it. Safe to call twice."""
        for is_asked in (False, True):
            stop_together([(program, process) for program, process in self._running if program.is_asked is is_asked])
        if self._running:
            end(find(self.supervisor), grace_s=STOP_GRACE_S)
        for _program, process in self._running:
            process.wait()
        self._running.clear()
        if self._postgres is not None:
            self._postgres.stop()
            self._postgres = None
        if self._lock is not None:
            remove_sockets(self.supervisor)
            endpoints_file(self.settings.home).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def stop_together(running: Sequence[tuple[Program, subprocess.Popen[bytes]]]) -> None:
    """Ask all of these services to end, and kill those that have not in the time they have."""
    asked_at = time.monotonic()
    for _program, process in running:
        process.terminate()
    for program, process in running:
        try:
            process.wait(timeout=max(0.0, asked_at + program.stop_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def seed_agents(database_url: str, settings: Settings) -> None:
    """Register the agents of the settings that the arbiter does not know yet."""
    from flywheel.arbiter.registry import AgentRegistry

    engine = connect(database_url)
    try:
        AgentRegistry(engine).seed_from_settings(settings)
    finally:
        engine.dispose()


def shut_down(settings: Settings) -> int:
    """Stop the services of a home from outside, also what a killed supervisor left. Returns the processes ended."""
    stopped = 0
    endpoints = running(settings)
    if endpoints is not None:
        end([psutil.Process(endpoints.pid)], grace_s=START_TIMEOUT_S)
        stopped += 1
    leftovers = find(supervisor_id(settings.home))
    end(leftovers, grace_s=STOP_GRACE_S)
    remove_sockets(supervisor_id(settings.home))
    data = settings.home / "postgres"
    if (data / "postmaster.pid").exists():
        server = EmbeddedPostgres(data)
        server.start()
        server.stop()
        stopped += 1
    return stopped + len(leftovers)


def answers(url: str) -> bool:
    """Whether a GET of this URL is answered with success now."""
    try:
        return httpx.get(url, timeout=5.0, trust_env=False).is_success
    except httpx.TransportError:
        return False
