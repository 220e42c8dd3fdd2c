"""``flywheel quarantine``: people decide about lines that failed a gate."""

import getpass
import json
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, cast

import click

from flywheel.cli import times
from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.pool.pool import BenchmarkPool
    from flywheel.pool.quarantine import QuarantinedLine, State
    from flywheel.settings import Settings

SHORT_ID = 12
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
note_option = click.option("--note", required=True, help="Why, for those who read it later.")


@click.group(cls=Group)
def quarantine() -> None:
    """Review lines that failed a gate.

    The id of a line may be cut short, as the list does.

    \b
    Examples:
      flywheel quarantine gates
      flywheel quarantine list
      flywheel quarantine show 3f9a61c2b4d0
      flywheel quarantine release 3f9a61c2b4d0 --note "their tool counts retries"
      flywheel quarantine reject 3f9a61c2b4d0 --note "a test of theirs"
    """


@quarantine.command("list")
@click.option("--day", type=times.day, help="Only this UTC day.")
@click.option("--gate", help="Only what failed this gate.")
@click.option(
    "--state",
    type=click.Choice(["pending", "approved", "rejected", "all"]),
    default="pending",
    show_default=True,
    help="What was decided.",
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@as_json_option
@click.pass_obj
def list_lines(
    load: "Callable[[], Settings]", *, day: date | None, gate: str | None, state: str, limit: int, as_json: bool
) -> None:
    """List lines, newest day first.

    \b
    Example:
      flywheel quarantine list --day 2026-01-05 --gate consistent
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.quarantine import list_quarantine

    chosen = None if state == "all" else cast("State", state)
    with pool_of(load()) as opened:
        found = list_quarantine(opened, day=day, state=chosen, gate=gate, limit=limit)
        audited(opened, "quarantine.read", found)
    print_lines(found, as_json=as_json)


@quarantine.command()
@click.argument("line_id")
@as_json_option
@click.pass_obj
def show(load: "Callable[[], Settings]", line_id: str, as_json: bool) -> None:
    """Show a line as it arrived, why it is here, and what was turned away with it.

    \b
    Example:
      flywheel quarantine show 3f9a61c2b4d0
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.quarantine import quarantined

    with pool_of(load()) as opened:
        line, *others = quarantined(opened, line_id)
        audited(opened, "quarantine.read", [line, *others])
    if as_json:
        print_json([line, *others])
        return
    decided = f"{line.reviewed_at:%Y-%m-%d %H:%M} UTC" if line.reviewed_at else "-"
    print_mapping(
        {
            "id": line.id,
            "day": line.day,
            "task": line.task_id,
            "gates": line.gates,
            "state": line.state,
            "note": line.note or "-",
            "decided": decided,
            "turned away with it": [other.id[:SHORT_ID] for other in others] or "-",
        }
    )
    click.echo("".join(f"\n- {reason}" for reason in line.reasons) + "\n")
    click.echo(pretty(line.line))


@quarantine.command()
@click.argument("line_id")
@note_option
@as_json_option
@click.pass_obj
def release(load: "Callable[[], Settings]", line_id: str, note: str, as_json: bool) -> None:
    """Let a task pass in spite of its gates, with every line that was turned away with LINE_ID.

    Its day runs again by itself, and the task becomes a point that says which gates were waived. Lines that cannot be
    read or joined cannot be released.

    \b
    Example:
      flywheel quarantine release 3f9a61c2b4d0 --note "their tool counts retries"
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.quarantine import release as release_lines

    with pool_of(load()) as opened:
        found = release_lines(opened, line_id, note=note, now=opened.now())
        audited(opened, "quarantine.decide", found)
    print_lines(found, as_json=as_json)


@quarantine.command()
@click.argument("line_id")
@note_option
@as_json_option
@click.pass_obj
def reject(load: "Callable[[], Settings]", line_id: str, note: str, as_json: bool) -> None:
    """Say that LINE_ID is rightly here, with every line that was turned away with it. Takes a release back, too.

    \b
    Example:
      flywheel quarantine reject 3f9a61c2b4d0 --note "a test of theirs"
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.quarantine import reject as reject_lines

    with pool_of(load()) as opened:
        found = reject_lines(opened, line_id, note=note, now=opened.now())
        audited(opened, "quarantine.decide", found)
    print_lines(found, as_json=as_json)


@quarantine.command()
@as_json_option
def gates(as_json: bool) -> None:
    """List the gates: what each demands, what follows where it does not hold, and whether it can be waived.

    \b
    Example:
      flywheel quarantine gates
    """
    from flywheel.pool.gates import GATES

    columns = ("gate", "demands", "on failure", "can be waived")
    rows = [(gate.name, gate.demands, gate.severity, gate.waivable) for gate in GATES]
    if as_json:
        print_json([dict(zip(("gate", "demands", "severity", "waivable"), row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def audited(opened: "BenchmarkPool", action: str, found: "Sequence[QuarantinedLine]") -> None:
    """Enter into the audit that this machine's user is about to see lines as they arrived."""
    from flywheel.pool.access.audit import record

    ids = [line.id for line in found]
    record(opened, action, principal=getpass.getuser(), asked={"lines": ids}, rows=len(found))


def print_lines(found: "Sequence[QuarantinedLine]", *, as_json: bool) -> None:
    """A table of lines, or all of them as JSON."""
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "day", "task", "gates", "state", "reasons"),
        [(line.id[:SHORT_ID], line.day, line.task_id, line.gates, line.state, line.reasons) for line in found],
        empty="no line that was asked for is in quarantine",
    )


def pretty(line: str) -> str:
    """A line as indented JSON, or as it is where it is none."""
    try:
        return json.dumps(json.loads(line), indent=2, ensure_ascii=False)
    except ValueError:
        return line
