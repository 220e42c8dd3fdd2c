"""``flywheel pool halts`` and ``lift``: what holds the pool, and how a person lets it go on."""

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING

import click

from flywheel.cli import times
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def halts(load: "Callable[[], Settings]", as_json: bool) -> None:
    """List what halts the pool, and the halts that were lifted, with who lifted them and why.

    \b
    Examples:
      flywheel pool halts
      flywheel pool halts --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.halts import list_halts

    with pool_of(load()) as opened:
        found = list_halts(opened)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("day", "opened (UTC)", "reason", "lifted (UTC)", "by", "note"),
            [
                (
                    halt.day,
                    f"{halt.opened_at:%Y-%m-%d %H:%M}",
                    halt.reason,
                    f"{halt.lifted_at:%Y-%m-%d %H:%M}" if halt.lifted_at else "open",
                    halt.lifted_by,
                    halt.note or "-",
                )
                for halt in found
            ],
        )
    else:
        click.echo("nothing halts the pool, and nothing ever did")


@click.command()
@click.argument("day", metavar="DAY", type=times.day)
@click.option("--by", required=True, metavar="NAME", help="Who looked at it.")
@click.option("--note", required=True, metavar="TEXT", help="What was seen and done, for those who read it later.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def lift(load: "Callable[[], Settings]", *, day: date, by: str, note: str, as_json: bool) -> None:
    """Lift the halt of DAY: segments are indexed, days run and batches are made again.

    Refused while the day's last privacy check still has violations and its points are still there: mend the detectors,
    run the day's partition of pool_day again in Dagster, then lift.

    \b
    Example:
      flywheel pool lift 2026-01-05 --by Ann --note "phone numbers of the new form are now found"
    """

    from flywheel.cli.connection import pool_of
    from flywheel.pool.halts import halted_because, open_halts
    from flywheel.pool.halts import lift as lift_halt

    with pool_of(load()) as opened:
        lifted = lift_halt(opened, day, by=by, note=note, now=opened.now())
        others = open_halts(opened)
    if as_json:
        print_json(lifted)
        return
    click.echo(f"the halt of {lifted.day} was lifted by {lifted.lifted_by}")
    click.echo(halted_because(others) or "the pool goes on")
