import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from flywheel.database import url_with
from flywheel.errors import AlreadyRunningError, PortInUseError, ServiceError
from flywheel.services.children import Program
from flywheel.services.dagster_api import DagsterApi
from flywheel.services.endpoints import attach, endpoints_file, running
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.services.processes import find, supervisor_id
from flywheel.services.sockets import socket_folder
from flywheel.services.supervisor import Services, stop_together
from flywheel.settings import Settings
from tests.services.conftest import REPOSITORY, left_over, start_supervisor, wait_until

# Ends when another process has been asked to end as well.
LAST_TOGETHER = """
import pathlib, signal, sys, time

def end(*_):
    pathlib.Path(sys.argv[1]).touch()
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.01)
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_services_started_are_services_stopped_also_when_one_of_them_was_killed(
    service_home: Settings, dagster_project: Path
) -> None:
    with Services(service_home, root=dagster_project, required_free_bytes=0) as services:
        found = attach(service_home)
        assert httpx.get(f"{found.mlflow_url}/health").text == "OK"
        assert httpx.get(f"{found.dagster_url}/server_info").json()["dagster_version"]
        assert httpx.get(f"{found.api_url}/v1/pool/healthz").json()["status"] == "ok"
        assert httpx.get(f"{found.api_url}/v1/pool/statistics").status_code == 401
        with psycopg.connect(found.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        assert endpoints_file(service_home.home).stat().st_mode & 0o077 == 0
        services.check()

        [daemon] = [process for process in left_over(service_home) if "dagster._daemon" in process.cmdline()]
        daemon.kill()
        with pytest.raises(ServiceError, match=r"dagster-daemon was killed by signal 9(.|\n)*dagster-daemon\.log"):
            services.wait()
    assert left_over(service_home) == []
    assert running(service_home) is None


def test_services_are_asked_to_end_before_any_is_waited_for(tmp_path: Path) -> None:
    running = []
    for own, other in (("a", "b"), ("b", "a")):
        program = Program(name=own, command=(sys.executable, "-c", LAST_TOGETHER, own, other), stop_s=30)
        process = subprocess.Popen(program.command, cwd=tmp_path, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        running.append((program, process))
    stop_together(running)
    assert [process.wait() for _program, process in running] == [0, 0]


def test_a_service_that_does_not_end_in_its_time_is_killed() -> None:
    dawdling = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    program = Program(name="dawdling", command=(sys.executable, "-c", dawdling), stop_s=0.1)
    with subprocess.Popen(program.command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stop_together([(program, process)])
        assert process.wait() == -signal.SIGKILL


def test_sigterm_stops_everything_and_a_running_job_with_it(service_home: Settings, dagster_project: Path) -> None:
    supervisor = start_supervisor(service_home, dagster_project)
    with DagsterApi(attach(service_home).dagster_url) as dagster:
        run = dagster.launch("endless_job")
        wait_until(lambda: dagster.runs(job="endless_job")[0].status == "STARTED")
    supervisor.terminate()
    assert supervisor.wait(timeout=60) == 128 + signal.SIGTERM
    assert left_over(service_home) == []

    url = EmbeddedPostgres(service_home.home / "postgres").start()
    with psycopg.connect(url_with(url, driver="", database="dagster")) as connection:
        assert connection.execute("SELECT run_id, status FROM runs").fetchall() == [(run, "FAILURE")]


def test_the_next_start_ends_what_a_killed_supervisor_left(service_home: Settings, dagster_project: Path) -> None:
    supervisor = start_supervisor(service_home, dagster_project)
    orphans = find(supervisor_id(service_home.home))
    supervisor.kill()
    supervisor.wait()
    assert len(orphans) >= 4
    assert all(orphan.is_running() for orphan in orphans)
    assert running(service_home) is None

    with Services(service_home, root=dagster_project, required_free_bytes=0):
        assert not any(orphan.is_running() for orphan in orphans)
    assert left_over(service_home) == []


def test_definitions_that_do_not_load_are_the_message(service_home: Settings, tmp_path: Path) -> None:
    (tmp_path / "dagster_home").mkdir()
    (tmp_path / "dagster_home" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    shutil.copy(REPOSITORY / "workspace.yaml", tmp_path)
    (tmp_path / "definitions.py").write_text("raise RuntimeError('nothing defined')\n")
    with pytest.raises(ServiceError, match="nothing defined"):
        Services(service_home, root=tmp_path, required_free_bytes=0).start()
    assert left_over(service_home) == []


def test_the_definitions_are_loaded_once_for_all_services(services: Settings) -> None:
    servers = [process.cmdline() for process in left_over(services) if "grpc" in process.cmdline()]
    assert len(servers) == 1, servers


def test_a_killed_process_with_the_definitions_is_replaced(service_home: Settings, dagster_project: Path) -> None:
    def holders() -> list[psutil.Process]:
        return [process for process in left_over(service_home) if "grpc" in process.cmdline()]

    with Services(service_home, root=dagster_project, required_free_bytes=0) as services:
        services.check()
        [holder] = holders()
        holder.kill()
        psutil.wait_procs([holder], timeout=10)
        services.check()
        assert len(holders()) == 1
        with DagsterApi(attach(service_home).dagster_url) as dagster:
            dagster.launch("pool_day", partition="2026-01-02")
            wait_until(lambda: dagster.runs(job="pool_day")[0].status == "SUCCESS")


def test_a_temporary_directory_too_deep_for_sockets_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service_home: Settings, dagster_project: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("deep" * 20)))
    with pytest.raises(ServiceError, match=r"too long for a socket.*TMPDIR"):
        Services(service_home, root=dagster_project, required_free_bytes=0).start()
    assert not (service_home.home / "postgres").exists()


def test_a_folder_that_others_may_read_is_not_used_for_sockets(service_home: Settings, dagster_project: Path) -> None:
    folder = socket_folder(supervisor_id(service_home.home))
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(ServiceError, match="is not a private folder of this user"):
        Services(service_home, root=dagster_project, required_free_bytes=0).start()
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
