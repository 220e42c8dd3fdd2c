"""``flywheel serve``: the pool over HTTP."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flywheel.settings import Settings

STREAM_GRACE_S = 3


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen. [default: FLYWHEEL_PORTS__HOST, 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), help="On which port. [default: FLYWHEEL_PORTS__API, 8200]")
@click.pass_obj
def serve(load: "Callable[[], Settings]", host: str | None, port: int | None) -> None:
    """Serve the benchmark data pool over HTTP until Ctrl-C.

    `flywheel up` does it too; this one is for a machine of its own. Requests carry a grant's token, from
    `flywheel access token`, or the installation's in HOME/secrets/api_token. /docs describes what can be asked,
    /metrics is for Prometheus.

    \b
    Examples:
      flywheel serve
      flywheel serve --port 8201
      curl -H "Authorization: Bearer $(cat .flywheel/secrets/api_token)" localhost:8200/v1/pool/statistics
    """
    import uvicorn

    from flywheel.api.app import create_app
    from flywheel.cli.connection import connected
    from flywheel.services.preflight import check_port

    settings = connected(load())
    host, port = host or settings.ports.host, port or settings.ports.api
    check_port("api", host, port)
    click.echo(f"the pool is served at http://{host}:{port}/docs")
    uvicorn.run(
        create_app(settings), host=host, port=port, log_level="warning", timeout_graceful_shutdown=STREAM_GRACE_S
    )
