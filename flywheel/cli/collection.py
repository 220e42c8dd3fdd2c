"""``flywheel collection``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json

if TYPE_CHECKING:
    from flywheel.settings import Settings


def of_home(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command about this home's collecting."""
    for option in (
        click.pass_obj,
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option(
            "--dead-letters",
            type=click.Path(path_type=Path),
            help="Folder that the collectors were given. [default: FLYWHEEL_COLLECTION__DEAD_LETTERS, or theirs]",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Group)
def collection() -> None:
    """What collectors wrote, and what they could not.

    \b
    Examples:
      flywheel collection status
      flywheel collection retry
    """


@collection.command()
@of_home
def status(load: "Callable[[], Settings]", dead_letters: Path | None, as_json: bool) -> None:
    """Segments and dead letters of this home.

    \b
    Examples:
      flywheel collection status
      flywheel collection status --dead-letters /other-disk/dead-letters --json
    """
    from flywheel.collection.status import collection_status

    settings = load()
    found = collection_status(
        settings.segments_dir, dead_letters=dead_letters or settings.dead_letters_dir, spans_dir=settings.spans_dir
    )
    if as_json:
        print_json(found)
        return
    click.echo(
        f"{found.closed_segments:,} segments closed ({found.closed_bytes:,} bytes), {found.live_segments:,} being "
        f"written, {found.orphaned_segments:,} left by killed processes, which the next intake closes"
    )
    for what, letters in (("logs", found.dead_letters), ("spans of a trace", found.set_aside)):
        for letter in letters:
            click.echo(
                f"dead letter {letter.name}: {letter.logs:,} {what}, {letter.reason}, "
                f"{letter.written_at:%Y-%m-%d %H:%M}Z"
            )
    if found.dead_letters or found.set_aside:
        click.echo("flywheel collection retry brings them back")


@collection.command()
@of_home
def retry(load: "Callable[[], Settings]", dead_letters: Path | None, as_json: bool) -> None:
    """Bring dead letters back among the segments, from where the pool takes them, and traces among those that wait.

    \b
    Examples:
      flywheel collection retry
    """
    from flywheel.collection.dead_letters import FOLDER, retry_dead_letters

    settings = load()
    count = retry_dead_letters(dead_letters or settings.dead_letters_dir, settings.segments_dir)
    count += retry_dead_letters(settings.spans_dir / FOLDER, settings.spans_dir)
    if as_json:
        print_json({"retried": count})
        return
    click.echo(f"{count:,} dead letters are segments again" if count else "there are no dead letters")
