"""A tiny Dagster project, and settings of services on free ports."""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from flywheel.services.endpoints import running
from flywheel.services.processes import find, supervisor_id
from flywheel.services.sockets import socket_folder
from flywheel.services.supervisor import shut_down
from flywheel.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
DEFINITIONS = """
import time
import uuid

import dagster as dg

days = dg.DailyPartitionsDefinition("2026-01-01")


@dg.asset(partitions_def=days)
def raw_logs() -> dg.MaterializeResult:
    numbers = dg.MetadataValue.json({"waiting": [1, 2]})
    return dg.MaterializeResult(metadata={"lines": 12, "share": 0.5, "clean": True, "note": "fine", "numbers": numbers})


@dg.asset
def endless() -> None:
    time.sleep(600)


@dg.sensor(job_name="pool_day", minimum_interval_seconds=1)
def new_segments() -> dg.SkipReason:
    return dg.SkipReason("412 of 1,000 lines")


defs = dg.Definitions(
    assets=[raw_logs, endless],
    sensors=[new_segments],
    jobs=[
        dg.define_asset_job("pool_day", selection=["raw_logs"], executor_def=dg.in_process_executor),
        dg.define_asset_job("endless_job", selection=["endless"], executor_def=dg.in_process_executor),
    ],
)
"""
UP = """
import sys
from pathlib import Path
from flywheel.services.interrupts import Interrupted, interruptible
from flywheel.services.supervisor import Services
from flywheel.settings import Settings
try:
    with interruptible(), Services(Settings.load(), root=Path(sys.argv[1]), required_free_bytes=0) as services:
        print("up", flush=True)
        services.wait()
except Interrupted as interruption:
    sys.exit(interruption.exit_code)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def dagster_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "dagster_home").mkdir()
    shutil.copy(REPOSITORY / "dagster_home" / "dagster.yaml", root / "dagster_home")
    shutil.copy(REPOSITORY / "workspace.yaml", root)
    (root / "definitions.py").write_text(DEFINITIONS)
    return root


def service_settings(home: Path) -> Settings:
    ports = {"dagster": free_port(), "mlflow": free_port(), "api": free_port(), "otlp_grpc": free_port()}
    return Settings.load(profile="smoke", home=home, ports=ports)


@pytest.fixture
def service_home(open_folder: Path) -> Iterator[Settings]:
    """Settings of services that no test leaves running."""
    settings = service_settings(open_folder / uuid.uuid4().hex[:8])
    yield settings
    shut_down(settings)
    assert not socket_folder(supervisor_id(settings.home)).exists()


def start_supervisor(settings: Settings, root: Path) -> subprocess.Popen[bytes]:
    """``Services`` in a process of its own, up and waiting."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "FLYWHEEL_PROFILE": settings.profile,
        "FLYWHEEL_HOME": str(settings.home),
        "FLYWHEEL_PORTS__DAGSTER": str(settings.ports.dagster),
        "FLYWHEEL_PORTS__MLFLOW": str(settings.ports.mlflow),
        "FLYWHEEL_PORTS__API": str(settings.ports.api),
        "FLYWHEEL_PORTS__OTLP_GRPC": str(settings.ports.otlp_grpc),
    }
    process = subprocess.Popen([sys.executable, "-c", UP, str(root)], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def left_over(settings: Settings) -> list[psutil.Process]:
    """Processes of ours that still live: those with the variable, and PostgreSQL's."""
    data = str(settings.home / "postgres")
    servers = [process for process in psutil.process_iter(["cmdline"]) if data in (process.info["cmdline"] or [])]
    return [*find(supervisor_id(settings.home)), *servers]


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


@pytest.fixture(scope="package")
def services(dagster_project: Path, open_folder: Path) -> Iterator[Settings]:
    """Services that run while the tests of this package that only ask them do."""
    settings = service_settings(open_folder / "services")
    process = start_supervisor(settings, dagster_project)
    yield settings
    process.terminate()
    process.wait()
    assert running(settings) is None
