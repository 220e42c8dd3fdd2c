"""``flywheel privacy``: what exports have spent of the tenants' privacy budgets."""

import getpass
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.group(cls=Group)
def privacy() -> None:
    """Privacy of tenants: what noise on rewards has spent of their budgets.

    \b
    Examples:
      flywheel privacy budget
    """


@privacy.command()
@click.option("--tenant", metavar="NAME", help="Only this one, named as its logs name it. [default: all that spent]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def budget(load: "Callable[[], Settings]", *, tenant: str | None, as_json: bool) -> None:
    """List what exports with noise have spent of each tenant's ε and δ, and what is left, by period.

    Tenants are shown by their keyed hash: the pool does not know their names.

    \b
    Examples:
      flywheel privacy budget
      flywheel privacy budget --tenant acme --json
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.audit import record
    from flywheel.pool.anonymization.tenants import salts_of
    from flywheel.pool.privacy_budget import list_budgets

    with pool_of(load()) as opened:
        hashes = () if tenant is None else salts_of(opened.settings).hashes(tenant)
        found = list_budgets(opened, now=datetime.now(UTC), hashes=hashes)
        asked = {"tenant": hashes[0]} if hashes else {}
        record(opened, "privacy.budget", principal=getpass.getuser(), asked=asked, rows=len(found))
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("tenant", "from", "until", "exports", "ε spent", "ε left", "δ spent", "δ left", "ε ever", "δ ever"),
            [
                (
                    held.tenant_hash,
                    held.since.date(),
                    held.until.date(),
                    held.exports,
                    *(
                        f"{number:g}"
                        for number in (
                            held.epsilon_spent,
                            held.epsilon_left,
                            held.delta_spent,
                            held.delta_left,
                            held.epsilon_ever,
                            held.delta_ever,
                        )
                    ),
                )
                for held in found
            ],
        )
    else:
        click.echo("no export has spent anything of a privacy budget")
