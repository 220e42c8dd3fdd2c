import signal
import socket
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from flywheel.errors import AlreadyRunningError, PortInUseError, ServiceError
from flywheel.services.dagster_api import DagsterApi
from flywheel.services.endpoints import attach, endpoints_file, running
from flywheel.services.supervisor import Services
from flywheel.settings import Settings
from tests.services.conftest import left_over, start_supervisor, wait_until


def test_services_started_are_services_stopped(service_home: Settings, dagster_project: Path) -> None:
    with Services(service_home, root=dagster_project, required_free_bytes=0) as services:
        found = attach(service_home)
        assert httpx.get(f"{found.mlflow_url}/health").text == "OK"
        assert httpx.get(f"{found.dagster_url}/server_info").json()["dagster_version"]
        with psycopg.connect(found.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        services.check()
        assert len(left_over(service_home)) > 3
        assert endpoints_file(service_home.home).stat().st_mode & 0o077 == 0
    assert left_over(service_home) == []
    assert running(service_home) is None


def test_sigterm_stops_everything_and_a_running_job_with_it(service_home: Settings, dagster_project: Path) -> None:
    supervisor = start_supervisor(service_home, dagster_project)
    with DagsterApi(attach(service_home).dagster_url) as dagster:
        run = dagster.launch("endless_job")
        wait_until(lambda: dagster.runs(job="endless_job")[0].status == "STARTED")
    supervisor.terminate()
    assert supervisor.wait(timeout=60) == 128 + signal.SIGTERM
    assert left_over(service_home) == []

    with (
        Services(service_home, root=dagster_project, required_free_bytes=0) as services,
        DagsterApi(services.endpoints.dagster_url) as dagster,
    ):
        interrupted = dagster.runs(job="endless_job")[0]
    assert (interrupted.id, interrupted.status) == (run, "FAILURE")


def test_the_next_start_ends_what_a_killed_supervisor_left(service_home: Settings, dagster_project: Path) -> None:
    supervisor = start_supervisor(service_home, dagster_project)
    orphans = left_over(service_home)
    supervisor.kill()
    supervisor.wait()
    assert all(orphan.is_running() for orphan in orphans)
    assert running(service_home) is None

    with Services(service_home, root=dagster_project, required_free_bytes=0):
        servers = {process.pid for process in orphans if "postgres" in process.name()}
        assert not any(orphan.is_running() for orphan in orphans if orphan.pid not in servers)
    assert left_over(service_home) == []


def test_a_killed_service_is_reported_with_the_end_of_its_log(service_home: Settings, dagster_project: Path) -> None:
    with Services(service_home, root=dagster_project, required_free_bytes=0) as services:
        [daemon] = [p for p in left_over(service_home) if "dagster._daemon" in p.cmdline()]
        daemon.kill()
        wait_until(lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE)
        with pytest.raises(ServiceError, match=r"dagster-daemon was killed by signal 9(.|\n)*dagster-daemon\.log"):
            services.wait()
    assert left_over(service_home) == []


def test_definitions_that_do_not_load_are_the_message(service_home: Settings, tmp_path: Path) -> None:
    (tmp_path / "dagster_home").mkdir()
    (tmp_path / "dagster_home" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    (tmp_path / "workspace.yaml").write_text("load_from:\n  - python_file: definitions.py\n")
    (tmp_path / "definitions.py").write_text("raise RuntimeError('nothing defined')\n")
    with pytest.raises(ServiceError, match="nothing defined"):
        Services(service_home, root=tmp_path, required_free_bytes=0).start()
    assert left_over(service_home) == []


def test_a_second_supervisor_of_the_same_home_says_who_runs(services: Settings, dagster_project: Path) -> None:
    with pytest.raises(AlreadyRunningError, match=rf"process {attach(services).pid}, since "):
        Services(services, root=dagster_project, required_free_bytes=0).start()
    assert running(services) is not None


def test_a_port_in_use_is_said_before_anything_starts(service_home: Settings, dagster_project: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", service_home.ports.dagster))
        taken.listen()
        with pytest.raises(PortInUseError, match=rf"FLYWHEEL_PORTS__DAGSTER={service_home.ports.dagster + 1}"):
            Services(service_home, root=dagster_project, required_free_bytes=0).start()
    assert not (service_home.home / "postgres").exists()
    assert left_over(service_home) == []


def test_a_full_disk_is_said_in_numbers(service_home: Settings) -> None:
    with pytest.raises(ServiceError, match=r"GiB free and 1048576\.0 GiB are needed"):
        Services(service_home, required_free_bytes=2**50).start()
