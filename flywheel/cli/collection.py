"""``flywheel collection``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json

if TYPE_CHECKING:
    from flywheel.settings import Settings

LETTERS = click.option(
    "--dead-letters", type=click.Path(path_type=Path), help="Folder that the collectors were given. [default: theirs]"
)


@click.group()
def collection() -> None:
    """What collectors wrote, and what they could not.

    \b
    Examples:
      flywheel collection status
      flywheel collection retry
    """


@collection.command()
@LETTERS
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def status(load: "Callable[[], Settings]", dead_letters: Path | None, as_json: bool) -> None:
    """Segments and dead letters of this home.

    \b
    Examples:
      flywheel collection status
      flywheel collection status --dead-letters /other-disk/dead-letters --json
    """
    from flywheel.collection.status import collection_status

    found = collection_status(load().segments_dir, dead_letters=dead_letters)
    if as_json:
        print_json(found)
        return
    click.echo(
        f"{found.closed_segments:,} segments closed ({found.closed_bytes:,} bytes), {found.live_segments:,} being "
        f"written, {found.orphaned_segments:,} left by killed processes, which the next intake closes"
    )
    for letter in found.dead_letters:
        click.echo(
            f"dead letter {letter.name}: {letter.logs:,} logs, {letter.reason}, {letter.written_at:%Y-%m-%d %H:%M}Z"
        )
    if found.dead_letters:
        click.echo("flywheel collection retry brings them back")


@collection.command()
@LETTERS
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def retry(load: "Callable[[], Settings]", dead_letters: Path | None, as_json: bool) -> None:
    """Bring dead letters back among the segments, from where the pool takes them.

    \b
    Examples:
      flywheel collection retry
    """
    from flywheel.collection.dead_letters import FOLDER, retry_dead_letters

    segments_dir = load().segments_dir
    count = retry_dead_letters(dead_letters or segments_dir / FOLDER, segments_dir)
    if as_json:
        print_json({"retried": count})
        return
    click.echo(f"{count:,} dead letters are segments again" if count else "there are no dead letters")
