"""``flywheel access``: who may read what of the pool, who decided it, and what was read."""

import getpass
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import click

from flywheel.cli import times
from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.pool.access.decisions import Fields, Grant, Role
    from flywheel.settings import Settings

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
by_option = click.option("--by", default=getpass.getuser, show_default="the user of this machine", help="Who does it.")


@click.group(cls=Group)
def access() -> None:
    """Give people and programs access to the pool, approve it, take it back, and see what was read.

    A principal is the name of a role in PostgreSQL, which holds the limits of its grants itself. Whoever runs these
    commands does so as the service: --by is believed here, and entered into the audit.

    \b
    Examples:
      flywheel access request alice analyst --tenant acme --reason "their quarterly report" --by bob
      flywheel access approve 1 --by carol
      flywheel access login alice
      flywheel access audit --refused
    """


@access.command()
@click.argument("principal")
@click.argument("role", type=click.Choice(["rl-trainer", "analyst", "arbiter", "reviewer", "admin"]))
@click.option("--reason", required=True, help="Why, for those who read it later.")
@click.option("--fields", type=click.Choice(["anonymized", "all"]), default="anonymized", show_default=True)
@click.option("--tenant", "tenants", multiple=True, help="Only this tenant; may be repeated. [default: all]")
@click.option("--since", type=times.moment, help="Only points from this UTC time on.")
@click.option("--until", type=times.moment, help="Only points before this UTC time.")
@click.option("--expires", type=times.moment, help="When the access ends by itself, UTC. [default: never]")
@by_option
@as_json_option
@click.pass_obj
def request(
    load: "Callable[[], Settings]",
    principal: str,
    role: str,
    *,
    reason: str,
    fields: str,
    tenants: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    expires: datetime | None,
    by: str,
    as_json: bool,
) -> None:
    """Ask for access of PRINCIPAL in ROLE. Tenants are kept as hashes only.

    \b
    Examples:
      flywheel access request alice analyst --reason "weekly report"
      flywheel access request dana reviewer --fields all --tenant acme --expires 2026-07-01 --reason "their incident"
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.grants import request_grant

    with pool_of(load()) as opened:
        grant = request_grant(
            opened,
            principal=principal,
            role=cast("Role", role),
            by=by,
            reason=reason,
            now=present(),
            fields=cast("Fields", fields),
            tenants=tenants or None,
            since=since,
            until=until,
            expires_at=expires,
        )
    show_grants([grant], as_json=as_json)


@access.command()
@click.argument("grant_id", type=int)
@by_option
@as_json_option
@click.pass_obj
def approve(load: "Callable[[], Settings]", grant_id: int, by: str, as_json: bool) -> None:
    """Put a grant that waits into force. Neither who asked for it nor who is given it can.

    \b
    Example:
      flywheel access approve 7 --by carol
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.grants import approve as approve_grant

    with pool_of(load()) as opened:
        grant = approve_grant(opened, grant_id, by=by, now=present())
    show_grants([grant], as_json=as_json)


@access.command()
@click.argument("grant_id", type=int)
@click.option("--reason", required=True, help="Why, for those who read it later.")
@by_option
@as_json_option
@click.pass_obj
def revoke(load: "Callable[[], Settings]", grant_id: int, reason: str, by: str, as_json: bool) -> None:
    """End a grant, its tokens and the sessions that its principal has open.

    \b
    Example:
      flywheel access revoke 7 --reason "left the team"
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.grants import revoke as revoke_grant

    with pool_of(load()) as opened:
        grant = revoke_grant(opened, grant_id, by=by, reason=reason, now=present())
    show_grants([grant], as_json=as_json)


@access.command("list")
@click.option("--principal", help="Only this principal's.")
@click.option("--all", "everything", is_flag=True, help="Also what is expired or revoked.")
@as_json_option
@click.pass_obj
def list_(load: "Callable[[], Settings]", principal: str | None, everything: bool, as_json: bool) -> None:
    """List the grants that are in force or wait for approval.

    \b
    Example:
      flywheel access list --principal alice --all
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.decisions import standing
    from flywheel.pool.access.grants import list_grants

    with pool_of(load()) as opened:
        found = list_grants(opened, principal=principal)
    past = ("expired", "revoked")
    shown = [grant for grant in found if everything or standing(grant, now=present()) not in past]
    show_grants(shown, as_json=as_json)


@access.command()
@click.argument("principal")
@click.option("--new-password", is_flag=True, help="Replace the password that it has.")
@by_option
@as_json_option
@click.pass_obj
def login(load: "Callable[[], Settings]", principal: str, new_password: bool, by: str, as_json: bool) -> None:
    """Let PRINCIPAL log in to PostgreSQL itself. Shows the password this once, and what is left open.

    A role that could log in before keeps its password and gets the rights of its grants.

    \b
    Example:
      flywheel access login alice
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.logins import make_login

    with pool_of(load()) as opened:
        made = make_login(opened, principal, by=by, now=present(), new_password=new_password)
    if as_json:
        print_json(made)
        return
    password = made.password or "as before"
    print_mapping({"principal": made.principal, "database": made.database, "password": password})
    for sentence in made.weaknesses:
        click.echo(f"open: {sentence}", err=True)


@access.command()
@click.argument("grant_id", type=int, required=False)
@click.option("--revoke", "token_id", metavar="TOKEN_ID", help="End this token instead of issuing one.")
@by_option
@as_json_option
@click.pass_obj
def token(load: "Callable[[], Settings]", grant_id: int | None, token_id: str | None, by: str, as_json: bool) -> None:
    """Issue a token for HTTP under the grant GRANT_ID, shown this once; or end one.

    \b
    Examples:
      flywheel access token 7
      flywheel access token --revoke 3f9a61c2b4d0
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.tokens import issue_token, revoke_token

    if (grant_id is None) == (token_id is None):
        raise click.UsageError("give a GRANT_ID, or --revoke with a TOKEN_ID")
    with pool_of(load()) as opened:
        if token_id is not None:
            revoke_token(opened, token_id, by=by, now=present())
            return
        assert grant_id is not None
        issued = issue_token(opened, grant_id, by=by, now=present())
    if as_json:
        print_json(issued)
        return
    ends = f"{issued.expires_at:%Y-%m-%d %H:%M} UTC"
    print_mapping({"principal": issued.principal, "id": issued.id, "token": issued.token, "good until": ends})


@access.command()
@click.option("--principal", help="Only what this one did or tried.")
@click.option("--action", help="Only this action, for example points.read or grant.approve.")
@click.option("--since", type=times.moment, help="Only from this UTC time on.")
@click.option("--refused", is_flag=True, help="Only what was not allowed.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@as_json_option
@click.pass_obj
def audit(
    load: "Callable[[], Settings]",
    *,
    principal: str | None,
    action: str | None,
    since: datetime | None,
    refused: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show who asked for what, was given what, and read what; newest first.

    \b
    Example:
      flywheel access audit --principal alice --since 2026-06-01
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.access.audit import list_audit

    with pool_of(load()) as opened:
        found = list_audit(opened, principal=principal, action=action, since=since, refused=refused, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        ("at (UTC)", "who", "action", "grant", "rows", "allowed", "reason"),
        [
            (f"{e.at:%Y-%m-%d %H:%M:%S}", e.principal, e.action, e.grant_id, e.rows, e.allowed, e.reason or "-")
            for e in found
        ],
    )


def show_grants(grants: "Sequence[Grant]", *, as_json: bool) -> None:
    """A table of grants, or all of them as JSON."""
    from flywheel.pool.access.decisions import range_of, standing

    if as_json:
        print_json(grants)
        return
    now = present()
    print_table(
        ("grant", "principal", "role", "fields", "tenants", "points", "expires", "state", "asked by", "reason"),
        [
            (
                grant.id,
                grant.principal,
                grant.role,
                grant.fields,
                "all" if grant.tenants is None else [name[:12] for name in grant.tenants],
                range_of(grant.since, grant.until),
                f"{grant.expires_at:%Y-%m-%d %H:%M}" if grant.expires_at else None,
                standing(grant, now=now),
                grant.requested_by,
                grant.reason,
            )
            for grant in grants
        ],
    )


def present() -> datetime:
    """Now, in UTC."""
    from datetime import UTC

    return datetime.now(UTC)
