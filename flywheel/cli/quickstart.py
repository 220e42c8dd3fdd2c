"""``flywheel quickstart``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flywheel.settings import Settings

NO_CANDIDATE = 3
LOG_WIDTH = 120


@click.command()
@click.option("--once", is_flag=True, help="Leave when the loop is through, instead of staying up until Ctrl-C.")
@click.option("--summary", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures as JSON to FILE.")
@click.pass_context
def quickstart(context: click.Context, once: bool, summary: Path | None) -> None:
    """Run the whole loop on real input.

    Tasks, pool, training, comparison, approval, tasks again. Killed or interrupted, it goes on from what is
    there; when everything is there, it prints the figures again. Here
    the program stands in for the person who approves a candidate.

    Exits 3 when the loop ran to its end and the trained model was not better, so that no candidate was registered.

    \b
    Examples:
      flywheel quickstart
      flywheel quickstart --once --summary summary.json
      flywheel --profile smoke quickstart --once
    """
    from rich.console import Console

    from flywheel.quickstart.run import run_quickstart

    load: Callable[[], Settings] = context.obj
    measured = run_quickstart(
        load(), once=once, summary_file=summary, console=Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    )
    if not measured.candidate.registered:
        context.exit(NO_CANDIDATE)
