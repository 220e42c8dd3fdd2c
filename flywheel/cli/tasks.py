"""``flywheel tasks``: let the arbiter route tasks to the registered agents, or one agent try them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.environments import REFERENCE, chosen_tasks, list_tasks, show_task, try_tasks, verify_answers
from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.traffic import TrafficReport
    from flywheel.settings import Settings

LABELS = ("before", "after")


@click.group(cls=Group)
def tasks() -> None:
    """Run tasks and see who got them; look at environments and try them.

    \b
    Examples:
      flywheel tasks run --label before
      flywheel tasks report --label after --json
      flywheel tasks run code-repair:clamp
    """


for command in (list_tasks, show_task, verify_answers):
    tasks.add_command(command)


@tasks.command("run")
@click.argument("task_ids", nargs=-1)
@click.option("--label", type=click.Choice(LABELS), help="Route a stream. before: for training; after: fresh tasks.")
@click.option("--source", help="Try the tasks of this source.")
@click.option("--split", type=click.Choice(("train", "validation", "heldout")), help="Only this split of the source.")
@click.option("--agent", "agent_id", default=REFERENCE, show_default=True, help="Who tries them, by its id.")
@click.option("--transcript", is_flag=True, help="Print what was said in tried tasks.")
@click.option("--count", type=click.IntRange(min=1), help="How many. [default: the profile's, or all of the source]")
@click.option("--progress", is_flag=True, help="Print a stream's progress as JSON lines instead of the report.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document.")
@click.pass_obj
def run_tasks(
    load: "Callable[[], Settings]",
    *,
    task_ids: tuple[str, ...],
    label: str | None,
    source: str | None,
    split: str | None,
    agent_id: str,
    transcript: bool,
    count: int | None,
    progress: bool,
    as_json: bool,
) -> None:
    """Route, run, evaluate and log tasks of the training split; or have one agent try some.

    With --label tasks are routed; those already done under the label are skipped. With ids or --source one agent does
    them, and nothing is routed, logged or learned; exit code 1 says that not all were done. The reference agent plays
    the known solutions and needs no running services.

    \b
    Examples:
      flywheel tasks run --label before
      flywheel tasks run --label after --count 20 --json
      flywheel tasks run code-repair:clamp --transcript
      flywheel tasks run --source agentdojo --count 10 --agent our-gateway
    """
    if sum((label is not None, source is not None, bool(task_ids))) != 1:
        raise click.UsageError("give one of --label, --source and ids of tasks")
    settings = load()
    if label is None:
        chosen = chosen_tasks(settings.tasks, task_ids, source=source, split=split, first=count)
        try_tasks(settings, chosen, agent_id=agent_id, transcript=transcript, as_json=as_json)
        return
    _run_stream(settings, label=label, count=count, progress=progress, as_json=as_json)


def _run_stream(settings: "Settings", *, label: str, count: int | None, progress: bool, as_json: bool) -> None:
    from flywheel.arbiter import traffic
    from flywheel.cli.connection import connected, engine_of
    from flywheel.cli.progress import report

    running = connected(settings)
    wanted = count or (running.tasks.routed_before if label == "before" else running.tasks.routed_after)
    with engine_of(running) as engine:
        done = traffic.run_tasks(
            running,
            engine,
            label=label,
            count=wanted,
            resolve_model=model_resolver(running),
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
    if not done.tasks:
        click.echo(f"no task of {done.label!r} was run yet; `flywheel tasks run --label {done.label}` runs them")
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
