"""``flywheel keys signing``: the keys that the arbiter's verdicts are signed with."""

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flywheel.arbiter.audit_trail.trail import TrailKey
    from flywheel.settings import Settings


@click.group(cls=Group)
def signing() -> None:
    """The keys that the arbiter signs verdicts with. What an earlier one signed verifies for ever.

    \b
    Examples:
      flywheel keys signing list
      flywheel keys signing rotate
      flywheel keys signing export keys.json
    """


@signing.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def list_command(load: "Callable[[], Settings]", *, as_json: bool) -> None:
    """Show the public keys that the audit trail was ever signed with, oldest first, and since when.

    \b
    Example:
      flywheel keys signing list
    """
    found = keys_of(load())
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "public key", "since (UTC)", "until (UTC)", "by", "entry"),
        [
            (k.id, k.public_key, f"{k.since:%F %T}", f"{k.until:%F %T}" if k.until else None, k.by, k.sequence)
            for k in found
        ],
    )


@signing.command()
@click.option(
    "--lost", is_flag=True, help="The present key is gone: go on with this installation's, which nobody vouches for."
)
@click.pass_obj
def rotate(load: "Callable[[], Settings]", *, lost: bool) -> None:
    """Make a new key the one that signs; the present one announces it in the trail and is deleted.

    Arbiters of this installation go on with the new one by themselves. Where the environment gives the key, the command
    says which variables to set.

    \b
    Examples:
      flywheel keys signing rotate
      flywheel keys signing rotate --lost
    """
    from flywheel.arbiter.audit_trail import rotation
    from flywheel.cli.connection import engine_of

    settings = load()
    with engine_of(settings) as engine:
        change = rotation.replace_lost if lost else rotation.rotate
        key = change(settings, engine, by=getpass.getuser())
    click.echo(f"verdicts are signed with the key {key.id} from now on")
    if lost:
        click.echo(
            f"whoever verifies must be told so: flywheel audit verify --trust {key.id} --trust FIRST_KEY", err=True
        )


@signing.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def export(load: "Callable[[], Settings]", *, file: Path) -> None:
    """Write the public keys to a file, for those who verify elsewhere; keep it where the trail's server cannot write.

    \b
    Example:
      flywheel keys signing export keys.json
    """
    import msgspec

    from flywheel.collection.segments import write_whole

    found = keys_of(load())
    write_whole(file, (msgspec.json.format(msgspec.json.encode(found)), b"\n"))
    click.echo(f"{len(found):,} public keys are in {file}")


def keys_of(settings: "Settings") -> "Sequence[TrailKey]":
    """The keys in the trail."""
    from flywheel.arbiter.audit_trail.trail import list_keys
    from flywheel.cli.connection import engine_of

    with engine_of(settings) as engine, engine.connect() as connection:
        return list_keys(connection)


def ids_in(file: Path) -> list[str]:
    """The ids of exported keys, worked out from the keys themselves.

    Raises:
        InputError: the file holds no keys.
    """
    import msgspec

    from flywheel.arbiter.audit_trail.keys import PublicKey
    from flywheel.arbiter.audit_trail.trail import TrailKey
    from flywheel.errors import InputError

    try:
        return [PublicKey(key.public_key).id for key in msgspec.json.decode(file.read_bytes(), type=list[TrailKey])]
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{file} holds no keys as `flywheel keys signing export` writes them: {error}") from error
