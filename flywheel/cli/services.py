"""``flywheel up``, ``down`` and ``status``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json, print_mapping

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.command()
@click.pass_obj
def up(load: "Callable[[], Settings]") -> None:
    """Start the services and own them until Ctrl-C.

    They are PostgreSQL, MLflow, Dagster's code server, web server and daemon, and the pool over HTTP. Logs lie below
    HOME/logs. A port in use is named, with the variable that chooses another.

    \b
    Examples:
      flywheel up
      FLYWHEEL_PORTS__DAGSTER=3001 flywheel up
      FLYWHEEL_DATABASE_URL=postgresql://me@db.example.com/flywheel flywheel up
    """
    from flywheel.services.interrupts import Interrupted
    from flywheel.services.supervisor import Services

    with Services(load(), on_progress=lambda message: click.echo(f"starting: {message}")) as services:
        endpoints = services.endpoints
        click.echo(f"Dagster  {endpoints.dagster_url}\nMLflow   {endpoints.mlflow_url}")
        click.echo(f"API      {endpoints.api_url}/docs\nCtrl-C stops everything.")
        try:
            services.wait()
        except Interrupted:
            click.echo("stopping; tasks and runs that are under way are ended in order")
            raise


@click.command()
@click.pass_obj
def down(load: "Callable[[], Settings]") -> None:
    """Stop the services of this home.

    Also those that a killed run left behind.

    \b
    Example:
      flywheel down
    """
    from flywheel.services.supervisor import shut_down

    click.echo(f"{shut_down(load())} processes stopped")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def status(load: "Callable[[], Settings]", as_json: bool) -> None:
    """Say what runs for this home, and where.

    Exits 1 when nothing does.

    \b
    Examples:
      flywheel status
      flywheel status --json
    """
    from flywheel.services.endpoints import attach
    from flywheel.services.supervisor import answers

    settings = load()
    endpoints = attach(settings)
    found = {
        "home": str(settings.home),
        "profile": endpoints.profile,
        "pid": endpoints.pid,
        "startedAt": endpoints.started_at,
        "dagster": {"url": endpoints.dagster_url, "answers": answers(f"{endpoints.dagster_url}/server_info")},
        "mlflow": {"url": endpoints.mlflow_url, "answers": answers(f"{endpoints.mlflow_url}/health")},
        "api": {"url": endpoints.api_url, "answers": answers(f"{endpoints.api_url}/v1/pool/healthz")},
    }
    if as_json:
        print_json(found)
        return
    print_mapping(
        {
            "home": settings.home,
            "profile": endpoints.profile,
            "process": f"{endpoints.pid}, since {endpoints.started_at:%Y-%m-%d %H:%M} UTC",
            "Dagster": described(endpoints.dagster_url, found["dagster"]),
            "MLflow": described(endpoints.mlflow_url, found["mlflow"]),
            "API": described(f"{endpoints.api_url}/docs", found["api"]),
        }
    )


def described(url: str, service: object) -> str:
    """A service's address, and whether it answers."""
    return url if isinstance(service, dict) and service["answers"] else f"{url} (does not answer)"
