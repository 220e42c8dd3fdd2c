"""What must hold before anything is started: free ports, enough disk, the project's files."""

import shutil
import socket
from pathlib import Path

from flywheel.errors import PortInUseError, ServiceError
from flywheel.settings import PortSettings

# The base model 0.3 GB, two trained ones with their optimizer-free checkpoints and the registry's copies 1.6 GB,
# PostgreSQL, lake and logs 0.5 GB: measured on the quick start, rounded up.
REQUIRED_FREE_BYTES = 4 * 2**30
WORKSPACE = "workspace.yaml"
DEFINITIONS = "definitions.py"


def check_ports(ports: PortSettings) -> None:
    """Make sure that nobody listens where the services will.

    Raises:
        PortInUseError: a port is taken; the message says which setting chooses another.
    """
    takers: dict[int, str] = {}
    chosen = (("dagster", ports.dagster), ("mlflow", ports.mlflow), ("api", ports.api), ("otlp_grpc", ports.otlp_grpc))
    for service, port in chosen:
        if not port:  # not wanted
            continue
        if port in takers:
            raise PortInUseError(
                f"{takers[port]} and {service} cannot both use port {port}; "
                f"choose another for one of them, for example FLYWHEEL_PORTS__{service.upper()}={port + 1}"
            )
        takers[port] = service
    for port, service in takers.items():
        check_port(service, ports.host, port)


def check_port(service: str, host: str, port: int) -> None:
    """Make sure that nobody listens where a service will.

    Raises:
        PortInUseError: somebody does; the message says which setting chooses another port.
    """
    if not is_free(host, port):
        raise PortInUseError(
            f"port {port} on {host}, where {service} would listen, is in use by another program; "
            f"stop it or choose another port: FLYWHEEL_PORTS__{service.upper()}={port + 1}"
        )


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on this port now.

    Binding alone is not enough: macOS lets a second program bind a port that another holds on all addresses.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        if probe.connect_ex((connectable(host), port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def connectable(host: str) -> str:
    """The address at which a client on this machine reaches a server that listens on ``host``."""
    return "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared, not bound


def check_disk(home: Path, *, required_bytes: int = REQUIRED_FREE_BYTES) -> None:
    """Make sure that home exists, can be written and has room.

    Raises:
        ServiceError: it has not.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(home).free
    except OSError as error:
        raise ServiceError(
            f"{home} cannot be used: {error.strerror or error}. Choose another folder with FLYWHEEL_HOME."
        ) from error
    if free < required_bytes:
        raise ServiceError(
            f"{home} has {free / 2**30:.1f} GiB free and {required_bytes / 2**30:.1f} GiB are needed; "
            f"free some space or choose another folder with FLYWHEEL_HOME"
        )


def project_root() -> Path:
    """The folder of ``workspace.yaml`` and ``dagster_home``: the checkout of this package, else the working directory.

    Raises:
        ServiceError: neither holds them.
    """
    checkout = Path(__file__).resolve().parents[2]
    for folder in (checkout, Path.cwd()):
        if (folder / WORKSPACE).exists() and (folder / "dagster_home" / "dagster.yaml").exists():
            return folder
    raise ServiceError(
        f"no {WORKSPACE} with a dagster_home beside it in {checkout} or {Path.cwd()}; run from the project's checkout"
    )
