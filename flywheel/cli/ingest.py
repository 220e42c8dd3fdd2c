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

    report = collection.ingest(paths, load().segments_dir)
    if as_json:
        print_json(report)
        return
    click.echo(
        f"{report.lines:,} lines of {report.files:,} files taken; {report.skipped_files:,} files were known, "
        f"{report.blank_lines:,} lines blank, {report.oversized_lines:,} too long"
    )
