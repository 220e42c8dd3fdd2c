"""``flywheel keys``: keys of the receiver, the secret of the tenant hash, the keys that verdicts are signed with."""

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table
from flywheel.cli.signing_keys import signing

if TYPE_CHECKING:
    from flywheel.pool.salt_rotation import SaltStatus
    from flywheel.settings import Settings


@click.group(cls=Group)
def keys() -> None:
    """Keys of the service, each of one tenant; the salt of the tenant hash and the signing keys, with their rotation.

    \b
    Examples:
      flywheel keys create --tenant acme --name "their staging"
      flywheel keys create --tenant acme --may-run-tasks
      flywheel keys list
      flywheel keys revoke 0a1b2c3d4e5f
      flywheel keys status
      flywheel keys rotate-salt
      flywheel keys signing rotate
    """


keys.add_command(signing)


@keys.command()
@click.option("--tenant", required=True, help="Whose records come in with it, as their logs name them.")
@click.option("--name", default="", help="What people call it.")
@click.option("--may-run-tasks", is_flag=True, help="Agents do tasks for it, too, which may cost money.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def create(load: "Callable[[], Settings]", *, tenant: str, name: str, may_run_tasks: bool, as_json: bool) -> None:
    """Make a key for a tenant and print it, this once: only a digest is kept.

    It sends records and traces; with --may-run-tasks it also has tasks routed and run (docs/arbiter.md).

    \b
    Examples:
      flywheel keys create --tenant acme --name "their staging"
      flywheel keys create --tenant acme --may-run-tasks
      export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$(flywheel keys create --tenant acme)"
    """
    from datetime import UTC, datetime

    from flywheel.cli.connection import pool_of
    from flywheel.collection.receiver.keys import create_key

    with pool_of(load()) as pool:
        made = create_key(
            pool, tenant, name=name, by=getpass.getuser(), now=datetime.now(UTC), may_run_tasks=may_run_tasks
        )
    if as_json:
        print_json(made)
        return
    click.echo(f"key {made.id} of {made.tenant_id}; it is shown this once:", err=True)
    click.echo(made.key)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_command(load: "Callable[[], Settings]", *, as_json: bool) -> None:
    """Show all keys without their secrets, the newest first.

    \b
    Example:
      flywheel keys list
    """
    from flywheel.cli.connection import pool_of
    from flywheel.collection.receiver.keys import list_keys

    with pool_of(load()) as pool:
        found = list_keys(pool)
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "tenant", "name", "runs tasks", "made", "by", "revoked"),
        [
            (
                key.id,
                key.tenant_id,
                key.name,
                "yes" if key.may_run_tasks else "no",
                f"{key.created_at:%Y-%m-%d %H:%M}",
                key.created_by,
                f"{key.revoked_at:%Y-%m-%d %H:%M} by {key.revoked_by}" if key.revoked_at else "",
            )
            for key in found
        ],
    )


@keys.command()
@click.argument("key_id", metavar="ID")
@click.pass_obj
def revoke(load: "Callable[[], Settings]", *, key_id: str) -> None:
    """End a key. Receivers that have it in memory refuse it within `receiver.key_cache_s`, 10 seconds unless told.

    \b
    Example:
      flywheel keys revoke 0a1b2c3d4e5f
    """
    from datetime import UTC, datetime

    from flywheel.cli.connection import pool_of
    from flywheel.collection.receiver.keys import revoke_key

    settings = load()
    with pool_of(settings) as pool:
        revoke_key(pool, key_id, by=getpass.getuser(), now=datetime.now(UTC))
    click.echo(f"key {key_id} is revoked; no receiver takes it after {settings.receiver.key_cache_s:.0f} s")


@keys.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def status(load: "Callable[[], Settings]", *, as_json: bool) -> None:
    """Say which salt is in use and what still carries hashes of another; reads the lake for it.

    \b
    Examples:
      flywheel keys status
      flywheel keys status --json
    """
    from datetime import UTC, datetime

    from flywheel.cli.connection import pool_of
    from flywheel.pool.salt_rotation import salt_status

    with pool_of(load()) as pool:
        show(salt_status(pool, now=datetime.now(UTC)), as_json=as_json)


@keys.command("rotate-salt")
@click.option("--finish", is_flag=True, help="Forget the former salt, if nothing carries it any more.")
@click.option("--force", is_flag=True, help="With --finish: also if something does. No name will find that any more.")
@click.option("--tenant", "tenants", multiple=True, help="A tenant that grants or batches are for and no log names.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def rotate(
    load: "Callable[[], Settings]", *, finish: bool, force: bool, tenants: tuple[str, ...], as_json: bool
) -> None:
    """Make a new salt and let everything come under it; run again, go on with what is under way.

    Points of the former salt stay one tenant with those of the new one. Their days run again by themselves; once
    `flywheel keys status` counts nothing, --finish forgets the former salt. Where the environment gives the salt, the
    command says which variables to set, and checks them.

    \b
    Examples:
      flywheel keys rotate-salt
      flywheel keys status
      flywheel keys rotate-salt --finish
    """
    from datetime import UTC, datetime

    from flywheel.cli.connection import pool_of
    from flywheel.pool.salt_rotation import finish_rotation, rotate_salt, salt_status

    if force and not finish:
        raise click.UsageError("--force goes with --finish")
    by, now = getpass.getuser(), datetime.now(UTC)
    with pool_of(load()) as pool:
        if not finish:
            show(rotate_salt(pool, now=now, by=by, names=tenants), as_json=as_json)
            return
        left = finish_rotation(pool, now=now, by=by, force=force, names=tenants)
        found = salt_status(pool, now=now)
        configured = bool(pool.settings.tenant_salt_previous.get_secret_value())
    if as_json:
        print_json(found)
        return
    click.echo(f"the former salt is forgotten; what still carries it: {left}")
    if configured:
        click.echo("unset FLYWHEEL_TENANT_SALT_PREVIOUS for all services and start them again")


def show(found: "SaltStatus", *, as_json: bool) -> None:
    """The state of the salts for people, or as JSON."""
    if as_json:
        print_json(found)
        return
    carrying = found.carrying
    print_mapping(
        {
            "present salt": f"{found.present} ({found.present_from})",
            "in use since": f"{found.began_at:%Y-%m-%d %H:%M} UTC" if found.began_at else "not used yet",
            "rotated away": found.former or "none",
            "days under another salt": len(carrying.days),
            **{f"rows of {table}": rows for table, rows in carrying.rows.items()},
            "batches": ", ".join(carrying.batches) or 0,
            "grants": ", ".join(map(str, carrying.grants)) or 0,
            "tokens not used since": ", ".join(carrying.tokens) or 0,
            "unfinished erasures": carrying.erasures,
        }
    )
    if found.former is not None:
        ready = "nothing carries the former salt: `flywheel keys rotate-salt --finish` forgets it"
        click.echo(f"\n{ready if carrying.nothing else 'the former salt is needed: both are valid until then'}")
