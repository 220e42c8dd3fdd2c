"""``flywheel ingest``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def ingest(load: "Callable[[], Settings]", paths: tuple[str, ...], as_json: bool) -> None:
    """Bring in log files for the pool.

    They are JSON lines with the field "log"; - is stdin. Every line is taken as it is; one that is malformed
    is quarantined by the pool with its reason. A file that was taken before adds nothing.

    \b
    Examples:
      flywheel ingest logs.jsonl
      zcat logs.jsonl.gz | flywheel ingest -
      flywheel ingest day-1.jsonl day-2.jsonl --json
    """
    from flywheel.collection import ingest as collection

    settings = load()
    report = collection.ingest(paths, settings.segments_dir)
    say_if_halted(settings)
    if as_json:
        print_json(report)
        return
    click.echo(
        f"{report.lines:,} lines of {report.files:,} files taken; {report.skipped_files:,} files were known, "
        f"{report.blank_lines:,} lines blank, {report.oversized_lines:,} too long"
    )


def say_if_halted(settings: "Settings") -> None:
    """Say on stderr that what was taken waits, where the pool is halted. Without services nobody knows of a halt."""
    from flywheel.cli.connection import pool_of
    from flywheel.errors import DatabaseError, NotRunningError
    from flywheel.pool.halts import halted_because, open_halts

    try:
        with pool_of(settings) as opened:
            halted = halted_because(open_halts(opened))
    except NotRunningError:
        return
    except DatabaseError as error:
        click.echo(f"the lines were taken; whether the pool is halted cannot be asked: {error}", err=True)
        return
    if halted:
        click.echo(f"the lines were taken and wait: {halted}", err=True)
