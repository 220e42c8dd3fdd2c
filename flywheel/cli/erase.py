"""``flywheel pool erase``: remove a tenant, or single tasks of it, from the pool."""

import getpass
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.pool.erasure import ErasureReport
    from flywheel.settings import Settings


@click.command()
@click.option("--tenant", required=True, metavar="NAME", help="The tenant, as its logs name it.")
@click.option(
    "--task", "tasks", multiple=True, metavar="ID", help="Only this task of it, as its logs name it. May be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only count what would be removed, everywhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def erase(
    load: "Callable[[], Settings]", *, tenant: str, tasks: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove a tenant from segments, quarantine, the lake with its old versions, every tier, and batches.

    With --task only these tasks of it: what a person asks for whose tasks your own system knows.

    Names the batches and models that its points had touched. Cannot be undone. An erasure that was cut off is finished
    by the same command.

    \b
    Examples:
      flywheel pool erase --tenant acme --dry-run
      flywheel pool erase --tenant acme
      flywheel pool erase --tenant acme --task order-1841 --task order-2077
    """
    from datetime import UTC, datetime

    from flywheel.cli.connection import pool_of
    from flywheel.cli.models import registry
    from flywheel.pool.erasure import erase_tenant, find_tenant
    from flywheel.services.lineage import models_by_batch

    settings = load()
    with pool_of(settings) as opened:
        now = datetime.now(UTC)
        if dry_run or not yes:
            found = find_tenant(opened, tenant, now=now, tasks=tasks or None)
        if dry_run:
            show(found, as_json=as_json)
            return
        if not yes:
            ask(tenant, found)
        models_of = models_by_batch(lambda: registry(settings), opened.engine)
        report = erase_tenant(opened, tenant, now=now, tasks=tasks or None, models_of=models_of, by=getpass.getuser())
    show(report, as_json=as_json)


def ask(tenant: str, found: "ErasureReport") -> None:
    """Ask the person at the terminal; without one, refuse."""
    if not is_terminal():
        raise click.UsageError("there is no terminal to ask at; add --yes, or --dry-run to see what would be removed")
    print_mapping(found.removed)
    whose = f"tenant {tenant}" if found.tasks is None else f"{found.tasks:,} task(s) of tenant {tenant}"
    click.confirm(
        f"Remove all of this of {whose}, and every earlier version of the lake's tables? It cannot be undone",
        abort=True,
        err=True,
    )


def is_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def show(report: "ErasureReport", *, as_json: bool) -> None:
    """The report for people, or as JSON."""
    if as_json:
        print_json(report)
        return
    if report.repeated:
        click.echo(f"was erased at {report.finished_at:%Y-%m-%d %H:%M} UTC, and nothing came since; then were removed:")
    print_mapping(report.removed)
    if not any(report.removed.values()) and not report.open_lines:
        click.echo("\nnothing of it was found: is this the name that its logs have, letter by letter?", err=True)
    click.echo(f"\n{len(report.days):,} days {'changed; they are run again' if report.finished_at else 'would change'}")
    click.echo(f"batches with its points: {', '.join(report.batches) or 'none'}")
    if report.models:
        print_table(
            ("model", "version", "stage", "batch", "aliases", "serves now"),
            [(m.name, m.version, m.stage, m.batch, m.aliases, m.serves) for m in report.models],
        )
    elif report.models is not None:
        click.echo("models trained on them: none")
    elif report.registry:
        click.echo(f"models trained on them are not known: {report.registry}")
    if report.open_segments:
        click.echo(
            f"{report.open_segments:,} segments are still written, with {report.open_lines:,} lines of it: run this "
            f"again once they are closed. A collector closes its segment with its first log after five minutes, and "
            f"when it ends"
        )
    if report.other_salt:
        click.echo(
            f"{report.other_salt:,} of its points were anonymized with a salt that is forgotten or not given here: run "
            f"this again with FLYWHEEL_TENANT_SALT_PREVIOUS set to that one, for its aggregates and batches"
        )
