"""``flywheel pool alerts``: is collection well?"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.command()
@click.option("--rules", is_flag=True, help="List what is watched and its limits instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def alerts(load: "Callable[[], Settings]", rules: bool, as_json: bool) -> None:
    """List the alerts that are active: volume, failures, privacy, quality, tool adoption, rewards.

    \b
    Examples:
      flywheel pool alerts
      flywheel pool alerts --rules
    """

    from flywheel.cli.connection import pool_of
    from flywheel.pool.alerts import alerts as active_alerts
    from flywheel.pool.health import ALARMS

    settings = load()
    if rules:
        rows = [(alarm.name, alarm.says, alarm.limit(settings.health), alarm.severity) for alarm in ALARMS]
        if as_json:
            print_json([dict(zip(("name", "says", "limit", "severity"), row, strict=True)) for row in rows])
        else:
            print_table(("alert", "when", "limit", "severity"), rows)
        return
    with pool_of(settings) as opened:
        found = active_alerts(opened, now=opened.now())
    if as_json:
        print_json(found)
    elif found:
        columns = ("alert", "severity", "since (UTC)", "what")
        print_table(columns, [(a.key, a.severity, f"{a.since:%Y-%m-%d %H:%M}", a.message) for a in found])
    else:
        click.echo("collection is well: no alert is active")
