"""``flywheel audit``: the trail of signed verdicts. Who read what is another record: ``flywheel access audit``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flywheel.cli.audited import audited
from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.audit_trail.chain import Read
    from flywheel.arbiter.audit_trail.verifying import Report
    from flywheel.settings import Settings

EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW = click.Path(dir_okay=False, path_type=Path)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(cls=Group)
def audit() -> None:
    """The audit trail: what the arbiter decided, signed, in a chain that shows any tampering.

    \b
    Examples:
      flywheel audit verify
      flywheel audit head --output /mnt/elsewhere/head.json
      flywheel audit list --task order-1841
      flywheel audit export trail.jsonl
    """


@audit.command()
@click.option("--head", "heads", multiple=True, type=EXISTING, help="A head that was kept elsewhere. May be repeated.")
@click.option("--keys", type=EXISTING, help="Public keys to trust, as `flywheel keys signing export` wrote them.")
@click.option("--trust", multiple=True, metavar="ID", help="A key to trust. May be repeated.")
@click.option("--file", "exported", type=EXISTING, help="An exported trail in the place of the database.")
@as_json_option
@click.pass_context
def verify(
    context: click.Context,
    *,
    heads: tuple[Path, ...],
    keys: Path | None,
    trust: tuple[str, ...],
    exported: Path | None,
    as_json: bool,
) -> None:
    """Look for edits, removals, reorders, truncations, forged signatures and unknown keys. Exit code 1: there is one.

    The trail is held against the head that this installation keeps below its home, and against those that are given.
    Needs no private key; with --file no database either, and no head but those that are given.

    \b
    Examples:
      flywheel audit verify
      flywheel audit verify --head /mnt/elsewhere/head.json --keys keys.json --json
      flywheel audit verify --file trail.jsonl --head head.json
    """
    from flywheel.arbiter.audit_trail.heads import read_head
    from flywheel.arbiter.audit_trail.verifying import verify_file, verify_trail
    from flywheel.cli.connection import engine_of
    from flywheel.cli.signing_keys import ids_in

    given = [read_head(path) for path in heads]
    trusted = [*trust, *(ids_in(keys) if keys else ())]
    if exported is not None:
        report = verify_file(exported, heads=given, trusted=trusted)
    else:
        settings: Settings = context.obj()
        own = [read_head(settings.audit_head)] if settings.audit_head.exists() else []
        with engine_of(settings) as engine:
            report = verify_trail(engine, heads=[*own, *given], trusted=trusted)
    show_report(report, as_json=as_json)
    context.exit(0 if report.intact else 1)


@audit.command()
@click.option("--output", type=NEW, help="Write it to a file, best on another machine's disk.")
@click.pass_obj
def head(load: "Callable[[], Settings]", *, output: Path | None) -> None:
    """Sign how long the trail is and where it ends; what is cut off later is found by it.

    Refuses where the trail does not hold the head any more that this installation kept.

    \b
    Examples:
      flywheel audit head
      flywheel audit head --output /mnt/elsewhere/head.json
    """
    from flywheel.arbiter.audit_trail.heads import encoded_head, lost_head, read_head
    from flywheel.arbiter.audit_trail.rotation import settled_key
    from flywheel.arbiter.audit_trail.trail import holds, present_head
    from flywheel.cli.connection import engine_of
    from flywheel.collection.segments import write_whole
    from flywheel.errors import AuditTrailError

    settings = load()
    with engine_of(settings) as engine:
        kept = read_head(settings.audit_head) if settings.audit_head.exists() else None
        if kept is not None and not holds(engine, kept):
            raise AuditTrailError(lost_head(settings.audit_head, kept))
        found = present_head(engine, settled_key(settings, engine))
    if output is None:
        click.echo(encoded_head(found).decode(), nl=False)
        return
    write_whole(output, (encoded_head(found),))
    click.echo(f"{found.sequence:,} entries; the head is in {output}")


@audit.command("list")
@click.option("--tenant", help="Only verdicts of this tenant, as its logs name it.")
@click.option("--task", help="Only verdicts on this task.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@as_json_option
@click.pass_obj
def list_command(
    load: "Callable[[], Settings]", *, tenant: str | None, task: str | None, limit: int, as_json: bool
) -> None:
    """Show the last entries, the newest first.

    \b
    Example:
      flywheel audit list --task order-1841
    """
    from flywheel.arbiter.audit_trail.trail import newest
    from flywheel.cli.connection import pool_of

    def read() -> "Sequence[Read]":
        with opened.engine.connect() as connection:
            return newest(connection, tenant_id=tenant, task_id=task, limit=limit)

    with pool_of(load()) as opened:
        found = [described(one) for one in audited(opened, "verdicts.read", read, tenant=tenant, task=task)]
    if as_json:
        print_json(found)
        return
    columns = ("sequence", "at", "kind", "says", "signed by")
    print_table(columns, [[one[column] for column in columns] for one in map(shortened, found)])


@audit.command()
@click.argument("name", metavar="SEQUENCE|VERDICT_ID")
@as_json_option
@click.pass_obj
def show(load: "Callable[[], Settings]", *, name: str, as_json: bool) -> None:
    """Show an entry with all that it says, by its place or by the verdictId of a data point.

    \b
    Examples:
      flywheel audit show 12
      flywheel audit show 5f0c9a1e7b8d4c3a9e2f1d0b6a7c8e9f --json
    """
    from flywheel.arbiter.audit_trail.trail import find
    from flywheel.cli.connection import pool_of

    def read() -> "Read":
        with opened.engine.connect() as connection:
            return find(connection, name)

    with pool_of(load()) as opened:
        found = described(audited(opened, "verdicts.read", read, entry=name))
    if as_json:
        print_json(found)
        return
    content = found.pop("content") or {}
    print_mapping({name: value for name, value in {**found, **content}.items() if value not in (None, [])})


@audit.command()
@click.argument("file", type=NEW)
@click.pass_obj
def export(load: "Callable[[], Settings]", *, file: Path) -> None:
    """Write the whole trail to a file that `flywheel audit verify --file` verifies anywhere.

    It holds what verdicts say of tasks, with the tenants' names: an erasure does not reach it.

    \b
    Example:
      flywheel audit export trail.jsonl
    """
    from flywheel.arbiter.audit_trail.verifying import export_trail
    from flywheel.cli.connection import pool_of

    with pool_of(load()) as opened:
        count = audited(opened, "verdicts.read", lambda: export_trail(opened.engine, file), output=str(file))
    click.echo(f"{count:,} entries are in {file}")


@audit.command()
@click.pass_obj
def deliver(load: "Callable[[], Settings]") -> None:
    """Append the verdicts that wait below this installation's home, also those that killed processes left there.

    Arbiters do it by themselves; this is for a home whose arbiter does not run any more.

    \b
    Example:
      flywheel audit deliver
    """
    from flywheel.arbiter.audit_trail.outbox import deliver as deliver_waiting
    from flywheel.arbiter.audit_trail.rotation import settled_key
    from flywheel.cli.connection import engine_of

    settings = load()
    with engine_of(settings) as engine:
        key = settled_key(settings, engine)
        count = deliver_waiting(engine, settings.verdicts_dir, key, head_file=settings.audit_head)
    click.echo(f"{count:,} verdicts waited and are in the audit trail now")


def described(read: "Read") -> dict[str, Any]:
    """An entry as JSON has it."""
    import msgspec

    entry = read.entry
    return {
        "sequence": entry.sequence,
        "at": entry.at,
        "kind": entry.kind,
        "content": None if read.content is None else msgspec.json.decode(read.content),
        "erased_in": read.erased_in,
        "verdict_signature": entry.verdict_signature,
        "content_digest": entry.content_digest.hex(),
        "previous": entry.previous.hex(),
        "hash": entry.hash.hex(),
        "signature": entry.signature,
    }


def shortened(found: dict[str, Any]) -> dict[str, Any]:
    """The same for a line of a table."""
    content = found["content"]
    says = {
        "verdict": "{taskId} by {agentId}: {passed}{score}",
        "key": "signs from here on: {keyId}",
        "erasure": "{by} erased {erased:,} contents",
    }[found["kind"]]
    if content is None:
        said = f"erased by entry {found['erased_in']:,}"
    else:
        score = content.get("overallScore")
        passed = "passed" if content.get("passedAllMandatory") else "not passed"
        said = says.format(**content, passed=passed, score="" if score is None else f", {score:.3f}")
    at = f"{found['at']:%Y-%m-%d %H:%M:%S}"
    return {**found, "at": at, "says": said, "signed by": found["signature"].split(":")[1][:12]}


def show_report(report: "Report", *, as_json: bool) -> None:
    """What came of verifying, for people or as JSON."""
    if as_json:
        print_json(report)
        return
    print_mapping(
        {
            "entries": report.entries,
            "verdicts": report.verdicts,
            "contents erased": report.erased,
            "from": report.first_at,
            "to": report.last_at,
            "keys": report.keys or "none",
            "heads": report.heads,
            "last hash": report.last_hash,
        }
    )
    click.echo()
    if report.finding is not None:
        click.echo(
            f"NOT INTACT from entry {report.finding.sequence:,} on ({report.finding.problem}): {report.finding.detail}"
        )
    if report.guards:
        click.echo(f"NOT GUARDED: the triggers {', '.join(report.guards)} are gone or do not hold for everybody")
    if report.intact:
        cut = "" if report.heads else "; no head was given, so what was cut off its end would not be noticed"
        click.echo(f"intact{cut}")
