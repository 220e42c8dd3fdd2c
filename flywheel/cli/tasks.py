"""``flywheel tasks``: let the arbiter route benchmark tasks to the registered agents."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.traffic import TrafficReport
    from flywheel.settings import Settings

LABELS = ("before", "after")


@click.group()
def tasks() -> None:
    """Run benchmark tasks and see who got them.

    \b
    Examples:
      flywheel tasks run --label before
      flywheel tasks report --label after --json
    """


@tasks.command("run")
@click.option("--label", type=click.Choice(LABELS), required=True, help="before: for training; after: fresh tasks.")
@click.option("--count", type=click.IntRange(min=1), help="How many. [default: the profile's]")
@click.option("--progress", is_flag=True, help="Print progress as JSON lines instead of the report.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.pass_obj
def run_tasks(load: "Callable[[], Settings]", label: str, count: int | None, progress: bool, as_json: bool) -> None:
    """Route, run, evaluate and log tasks of the training split. Tasks already done under the label are skipped.

    \b
    Examples:
      flywheel tasks run --label before
      flywheel tasks run --label after --count 20 --json
    """
    from flywheel.arbiter import traffic
    from flywheel.cli.connection import connected, engine_of
    from flywheel.cli.progress import report

    settings = connected(load())
    wanted = count or (settings.tasks.routed_before if label == "before" else settings.tasks.routed_after)
    with engine_of(settings) as engine:
        done = traffic.run_tasks(
            settings,
            engine,
            label=label,
            count=wanted,
            resolve_model=model_resolver(settings),
            on_progress=report if progress else ignore,
        )
    if not progress:
        show(done, as_json=as_json)


@tasks.command("report")
@click.option("--label", type=click.Choice(LABELS), required=True, help="before or after.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def report_tasks(load: "Callable[[], Settings]", label: str, as_json: bool) -> None:
    """Say which agents got the tasks of a label, and how they did.

    \b
    Example:
      flywheel tasks report --label before
    """
    from flywheel.arbiter.traffic import traffic_report
    from flywheel.cli.connection import engine_of

    with engine_of(load()) as engine:
        show(traffic_report(engine, label=label), as_json=as_json)


def show(done: "TrafficReport", *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print_json(done)
        return
    print_table(
        ("agent", "tasks", "share", "success rate", "mean quality"),
        [(a.agent_id, a.tasks, a.share, a.success_rate, a.mean_quality) for a in done.agents],
    )


def ignore(_done: int, _total: int | None, _message: str) -> None:
    """Progress that nobody asked for."""


def model_resolver(settings: "Settings") -> "Callable[[str, int], str]":
    """Finds the folder of a registered model's version, downloading it once."""
    from flywheel.cli.models import registry

    def resolve(name: str, version: int) -> str:
        with registry(settings) as mlflow:
            return str(mlflow.download(name, version, cache=settings.models_dir))

    return resolve
