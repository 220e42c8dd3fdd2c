"""``flywheel serve``: the pool and its receiver over HTTP and gRPC."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen. [default: FLYWHEEL_PORTS__HOST, 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), help="On which port. [default: FLYWHEEL_PORTS__API, 8200]")
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    help="Where to take OpenTelemetry over gRPC; 0: nowhere. [default: FLYWHEEL_PORTS__OTLP_GRPC, 4317]",
)
@click.pass_obj
def serve(load: "Callable[[], Settings]", host: str | None, port: int | None, grpc_port: int | None) -> None:
    """Serve the benchmark data pool, its receiver and the arbiter until Ctrl-C.

    `flywheel up` does it too; this one is for a machine of its own. Who reads sends a grant's token, from
    `flywheel access token`, or the installation's in HOME/secrets/api_token; who sends records or traces, or has tasks
    run, a tenant's key, from `flywheel keys create`. /docs describes what can be asked and sent, /metrics is for
    Prometheus.

    \b
    Examples:
      flywheel serve
      flywheel serve --port 8201 --grpc-port 4318
      curl -H "Authorization: Bearer $(cat .flywheel/secrets/api_token)" localhost:8200/v1/pool/statistics
    """
    from flywheel.api.app import create_app
    from flywheel.api.server import run
    from flywheel.cli.connection import connected
    from flywheel.cli.tasks import model_resolver
    from flywheel.services.preflight import check_port

    settings = connected(load())
    host, port = host or settings.ports.host, port or settings.ports.api
    grpc_port = settings.ports.otlp_grpc if grpc_port is None else grpc_port
    check_port("api", host, port)
    if grpc_port:
        check_port("otlp_grpc", host, grpc_port)
    click.echo(f"the pool is served at http://{host}:{port}/docs")
    grpc_address = f"{host}:{grpc_port}" if grpc_port else ""
    app = create_app(settings, otlp_grpc_address=grpc_address, resolve_model=model_resolver(settings))
    run(app, host=host, port=port, header_timeout_s=settings.receiver.header_timeout_s)
