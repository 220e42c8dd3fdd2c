"""``flywheel models``: what training registered, and who serves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.services.mlflow_api import MlflowApi
    from flywheel.settings import Settings

TAGS = {
    "stage": "flywheel.stage",
    "batch": "flywheel.training_batch",
    "trained from": "flywheel.parent",
    "base model": "flywheel.base_model",
    "verdict": "flywheel.verdict",
}
"""What the list shows of a version's tags; ``--json`` has them all."""


@click.group(cls=Group)
def models() -> None:
    """List, approve and look back on trained models.

    \b
    Examples:
      flywheel models list
      flywheel models approve            the version with the alias candidate
      flywheel models approve 3
      flywheel models history
    """


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_models(load: "Callable[[], Settings]", as_json: bool) -> None:
    """List the registered versions with their aliases, batch and stage, newest first.

    \b
    Example:
      flywheel models list --json
    """
    from flywheel.rollout.promotion import MODEL_NAME

    with registry(load()) as mlflow:
        versions = mlflow.versions(MODEL_NAME)
    if as_json:
        print_json(versions)
        return
    print_table(
        ("version", "aliases", *TAGS),
        [(v.version, v.aliases, *(v.tags.get(tag) for tag in TAGS.values())) for v in versions],
        empty="no model is registered yet: the first comes with the first training run",
    )


@models.command()
@click.argument("version", type=int, required=False)
@click.option("--reason", default="approved by hand", show_default=True, help="For the history of who served.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def approve(load: "Callable[[], Settings]", version: int | None, reason: str, as_json: bool) -> None:
    """Make VERSION (by default the candidate) the champion and let the arbiter route to it.

    Setting the alias champion in MLflow's user interface does the same.

    \b
    Examples:
      flywheel models approve
      flywheel models approve 3 --reason "looked at the report, fine"
    """
    import os
    from datetime import UTC, datetime

    from flywheel.cli.connection import engine_of
    from flywheel.services import approval

    settings = load()
    with registry(settings) as mlflow, engine_of(settings) as engine:
        approved = approval.approve(
            engine,
            mlflow,
            version=version,
            now=datetime.now(UTC),
            actor=os.environ.get("USER", f"uid {os.getuid()}"),
            reason=reason,
        )
    if as_json:
        print_json({"model": approved.name, "champion": approved.version})
    else:
        click.echo(f"{approved.name} version {approved.version} is champion; the arbiter routes to it")


@models.command("prepare")
@click.option("--progress", is_flag=True, help="Print progress as JSON lines, the folder last.")
@click.pass_obj
def prepare(load: "Callable[[], Settings]", progress: bool) -> None:
    """Make the pretrained model that everything starts from, and print its folder. Done once, then instant.

    \b
    Example:
      flywheel models prepare
    """
    from flywheel.cli.progress import report
    from flywheel.training.pretrained import ensure_base_model

    folder = ensure_base_model(load())
    if progress:
        report(1, 1, str(folder))
    else:
        click.echo(folder)


@models.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def history(load: "Callable[[], Settings]", as_json: bool) -> None:
    """Say which version served when, who decided it and why, oldest first.

    \b
    Example:
      flywheel models history
    """
    from flywheel.cli.connection import engine_of
    from flywheel.rollout import promotion

    with engine_of(load()) as engine:
        changes = promotion.history(engine)
    if as_json:
        print_json(changes)
        return
    print_table(
        ("since (UTC)", "alias", "version", "by", "why"),
        [(f"{c.set_at:%Y-%m-%d %H:%M:%S}", c.alias, c.version, c.actor, c.reason) for c in changes],
        empty="no model has served yet",
    )


def registry(settings: "Settings") -> "MlflowApi":
    """A client of the running model registry: that of ``MLFLOW_TRACKING_URI``, else of this home's services."""
    import os

    from flywheel.services.endpoints import attach
    from flywheel.services.mlflow_api import MlflowApi

    return MlflowApi(os.environ.get("MLFLOW_TRACKING_URI") or attach(settings).mlflow_url)
