"""The programs that ``flywheel up`` runs, as data: command, health check, environment."""

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from flywheel.api.settings import ACCOUNTING_S
from flywheel.database import url_with
from flywheel.services.preflight import DEFINITIONS, WORKSPACE, connectable
from flywheel.services.processes import SUPERVISOR_VARIABLE, supervisor_id
from flywheel.settings import Settings
from flywheel.training.launch import WAITING

PYTHON = sys.executable
CODE_SOCKET = "FLYWHEEL_CODE_SOCKET"
"""The variable by which ``workspace.yaml`` finds the code server."""

STOP_GRACE_S = 5.0
CHILD_PATIENCE_S = 7 * 24 * 3600


class Program(Struct, frozen=True, kw_only=True):
    """One service. ``health_url`` answers 200 when it is ready; empty where something else tells.

    ``worker`` is an argument of the child process without which the service runs and does nothing; empty where there
    is none. ``environment`` is what this service alone is told, beside what all are. ``stop_s`` is how long it may take
    to end. One that ``is_asked`` by the other services ends after them.
    """

    name: str
    command: tuple[str, ...]
    health_url: str = ""
    worker: str = ""
    environment: dict[str, str] = {}
    stop_s: float = STOP_GRACE_S
    is_asked: bool = False


def dagster_url(settings: Settings) -> str:
    """Where the Dagster web server answers."""
    return f"http://{connectable(settings.ports.host)}:{settings.ports.dagster}"


def mlflow_url(settings: Settings) -> str:
    """Where the MLflow server answers."""
    return f"http://{connectable(settings.ports.host)}:{settings.ports.mlflow}"


def api_url(settings: Settings) -> str:
    """Where the pool is served over HTTP."""
    return f"http://{connectable(settings.ports.host)}:{settings.ports.api}"


def api_server(settings: Settings) -> Program:
    """The pool and its receiver, over HTTP and gRPC: ``flywheel serve``."""
    return Program(
        name="api",
        command=(
            *(PYTHON, "-m", "flywheel.cli", "--home", str(settings.home), "--profile", settings.profile, "serve"),
            *("--host", settings.ports.host, "--port", str(settings.ports.api)),
            *("--grpc-port", str(settings.ports.otlp_grpc)),
        ),
        health_url=f"{api_url(settings)}/v1/pool/healthz",
        # Requests end, then tasks, then those that were cancelled are accounted for.
        stop_s=STOP_GRACE_S + settings.service.drain_s + ACCOUNTING_S,
    )


def mlflow_server(settings: Settings, database_url: str) -> Program:
    """MLflow's tracking server and model registry, its tables in PostgreSQL, artifacts through its own API."""
    return Program(
        name="mlflow",
        command=(
            *(PYTHON, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", settings.ports.host, "--port", str(settings.ports.mlflow)),
            *("--artifacts-destination", str(settings.home / "mlflow-artifacts")),
        ),
        health_url=f"{mlflow_url(settings)}/health",
        # Not an argument: everyone on the machine may read arguments, and the URL can hold a password.
        environment={"MLFLOW_BACKEND_STORE_URI": url_with(database_url, driver="psycopg2", database="mlflow")},
        is_asked=True,
    )


def code_server(root: Path, socket: Path) -> Program:
    """The one process that has the definitions loaded: it evaluates sensors and starts runs. It makes Dagster's tables.

    Without it the web server and the daemon load them into a process each, the daemon again every minute. It holds
    them in a child, so that *Reload* can start another; the child is told not to mind a machine that slept for hours.
    """
    return Program(
        name="dagster-code-server",
        command=(
            *(PYTHON, "-m", "dagster", "code-server", "start", "--socket", str(socket)),
            *("--python-file", str(root / DEFINITIONS), "--working-directory", str(root)),
            *("--location-name", "flywheel", "--use-python-environment-entry-point"),
            *("--heartbeat-ttl", str(CHILD_PATIENCE_S)),
        ),
        worker="grpc",
        is_asked=True,
    )


def dagster_webserver(settings: Settings, root: Path, socket: Path) -> Program:
    """Dagster's web server."""
    return Program(
        name="dagster-webserver",
        command=(
            *(PYTHON, "-m", "dagster_webserver", "--workspace", str(root / WORKSPACE)),
            *("--host", settings.ports.host, "--port", str(settings.ports.dagster)),
        ),
        health_url=f"{dagster_url(settings)}/server_info",
        environment={CODE_SOCKET: str(socket)},
    )


def dagster_daemon(root: Path, socket: Path) -> Program:
    """Dagster's daemon: sensors, the run queue, backfills, run monitoring."""
    return Program(
        name="dagster-daemon",
        command=(PYTHON, "-m", "dagster._daemon", "run", "--workspace", str(root / WORKSPACE)),
        environment={CODE_SOCKET: str(socket)},
    )


def environment(
    settings: Settings, *, database_url: str, root: Path, started_at: datetime, base: Mapping[str, str]
) -> dict[str, str]:
    """The environment of every child: where the databases and servers are, and who its supervisor is."""
    return {
        **WAITING,  # agents with a model of this machine share its cores with all the rest
        **base,
        SUPERVISOR_VARIABLE: supervisor_id(settings.home),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root), base.get("PYTHONPATH", "")))),
        "PYTHONUNBUFFERED": "1",
        # A run that began before this died with the services of then (sensors/run_interrupted.py).
        "FLYWHEEL_SERVICES_STARTED_AT": str(started_at.timestamp()),
        "FLYWHEEL_HOME": str(settings.home),
        "FLYWHEEL_PROFILE": settings.profile,
        "FLYWHEEL_DATABASE_URL": url_with(database_url, driver="", database="flywheel"),
        # dagster-postgres listens for notifications through psycopg2 and understands no other driver's URL.
        "FLYWHEEL_DAGSTER_DATABASE_URL": url_with(database_url, driver="psycopg2", database="dagster"),
        "FLYWHEEL_DAGSTER_STORAGE": str(settings.home / "dagster"),
        "DAGSTER_HOME": str(root / "dagster_home"),
        "MLFLOW_TRACKING_URI": mlflow_url(settings),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Without it the server starts a queue of background workers for scorers that nothing here uses.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DO_NOT_TRACK": "true",
    }
