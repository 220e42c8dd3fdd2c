import os
import socket
from pathlib import Path

import pytest

from flywheel.errors import PortInUseError, ServiceError
from flywheel.services.preflight import check_disk, check_port, check_ports, connectable, project_root
from flywheel.settings import PortSettings


def test_one_port_for_two_services_is_refused() -> None:
    with pytest.raises(PortInUseError, match="FLYWHEEL_PORTS__MLFLOW=3001"):
        check_ports(PortSettings(dagster=3000, mlflow=3000))


def test_a_taken_port_of_the_pools_service_names_its_variable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"port {port} .*api.*FLYWHEEL_PORTS__API={port + 1}"):
            check_port("api", "127.0.0.1", port)


def test_a_home_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match="FLYWHEEL_HOME"):
        check_disk(tmp_path / "file" / "home")


def test_the_project_is_found_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert os.path.samefile(project_root(), Path(__file__).parents[2])


def test_a_server_on_all_addresses_is_asked_on_this_machine() -> None:
    assert connectable("0.0.0.0") == "127.0.0.1"
    assert connectable("192.0.2.1") == "192.0.2.1"
