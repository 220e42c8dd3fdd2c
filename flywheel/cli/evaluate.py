"""``flywheel evaluate``, ``flywheel spec check|schema``: hold a change to a working spec."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.evaluation.change import Change
    from flywheel.arbiter.evaluation.spec_evaluator import GateResult, SpecEvaluation
    from flywheel.records import Caws
    from flywheel.settings import Settings

NOT_PASSED = 1
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("evaluate")
@click.option("--spec", "spec_path", required=True, type=FILE, help="The working spec.")
@click.option("--before", required=True, type=FOLDER, help="The workspace before the change. It is not changed.")
@click.option("--after", type=FOLDER, help="The workspace after the change.")
@click.option("--patch", metavar="FILE", help="The change as a unified diff, instead of --after; - is stdin.")
@click.option("--asked", type=FILE, help="The task's own words: what they contain is not unsafe.")
@click.option("--agent", "agent_id", help="Who made the change, for the verdict's provenance.")
@click.option("--task", "task_id", help="The task that it was made for.")
@click.option("--commit", help="The commit that it was made from.")
@click.option("--sign", is_flag=True, help="Sign the verdict and append it to the audit trail; needs running services.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def evaluate(
    load: "Callable[[], Settings]",
    *,
    spec_path: Path,
    before: Path,
    after: Path | None,
    patch: str | None,
    asked: Path | None,
    agent_id: str | None,
    task_id: str | None,
    commit: str | None,
    sign: bool,
    as_json: bool,
) -> None:
    """Run the gates of a working spec on a change, in a sandbox, and judge it.

    Exit code 1: it did not pass, or could not be judged.

    \b
    Examples:
      flywheel evaluate --spec spec.yaml --before main/ --after worktree/
      flywheel evaluate --spec spec.yaml --before main/ --patch fix.diff --json
      flywheel evaluate --spec spec.yaml --before main/ --after worktree/ --sign --agent coder --task t-17
      git diff main | flywheel evaluate --spec spec.yaml --before main/ --patch -
    """
    from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of
    from flywheel.arbiter.evaluation.spec_evaluator import Origin, evaluate_under_spec
    from flywheel.arbiter.evaluation.working_spec.reading import load_spec

    if sign and None in {agent_id, task_id}:
        raise click.UsageError("--sign says who answers for what: name --agent and --task")
    spec, at = load_spec(spec_path), datetime.now(UTC)
    if sign:
        _require_notary(load())
    found = evaluate_under_spec(
        spec,
        _change(before, after, patch),
        before=before,
        after=after,
        at=at,
        asked=_text(asked.read_bytes(), str(asked)) if asked else "",
        origin=Origin(agent_id=agent_id, task_id=task_id, commit=commit),
        rubric=rubric_of(load().rubrics),
    )
    signed = _signed(load(), found, at) if sign else None
    if as_json:
        print_json(_document(found, signed))
    else:
        _show(found)
        if signed is not None:
            click.echo(f"verdict {signed.verdict_id}, signed and in the audit trail")
    if not found.passed_all_mandatory:
        click.get_current_context().exit(NOT_PASSED)


@click.group("spec", cls=Group)
def spec() -> None:
    """Working specs: what changes are held to. Needs no running services.

    \b
    Examples:
      flywheel spec check specs/*.yaml
      flywheel spec schema > working-spec.schema.json
    """


@spec.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check_specs(files: tuple[Path, ...]) -> None:
    """Check working specs, and say of each mistake in which line it is.

    Exit code 1: there is one.

    \b
    Example:
      flywheel spec check specs/*.yaml
    """
    from flywheel.arbiter.evaluation.working_spec.reading import read_spec
    from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec
    from flywheel.errors import InputError

    now, wrong = datetime.now(UTC), 0
    for path in files:
        try:
            read = read_spec(path)
        except InputError as error:
            click.echo(str(error))
            wrong += 1
            continue
        if not isinstance(read, WorkingSpec):
            click.echo("\n".join(map(str, read)))
            wrong += 1
            continue
        click.echo(f"{path}: {read.name}, risk tier {read.risk_tier}, {len(read.all_gates)} gates, {read.digest[:12]}")
        for waiver in read.waivers:
            refusal = waiver.refusal(now)
            if refusal is not None:
                click.echo(f"{path}: the waiver {waiver.id} does not waive {waiver.gate}: {refusal}")
    if wrong:
        click.get_current_context().exit(NOT_PASSED)


@spec.command("schema")
def show_schema() -> None:
    """Print the JSON Schema of working specs, for editors and other programs.

    \b
    Example:
      flywheel spec schema > working-spec.schema.json
    """
    from flywheel.arbiter.evaluation.working_spec.spec import json_schema

    print_json(json_schema())


def _require_notary(settings: "Settings") -> None:
    """Refuse before gates run for minutes what could not be signed after them."""
    from flywheel.arbiter.audit_trail.rotation import settled_key
    from flywheel.cli.connection import engine_of

    with engine_of(settings) as engine:
        settled_key(settings, engine)


def _signed(settings: "Settings", found: "SpecEvaluation", at: datetime) -> "Caws":
    """The verdict, in the audit trail of the running services."""
    from flywheel.arbiter.audit_trail.notary import sign_change_at_once
    from flywheel.cli.connection import engine_of

    origin = found.origin
    with engine_of(settings) as engine:
        return sign_change_at_once(
            settings, engine, found, task_id=str(origin.task_id), agent_id=str(origin.agent_id), at=at
        )


def _change(before: Path, after: Path | None, patch: str | None) -> "Change":
    from flywheel.arbiter.evaluation.folders import change_of_folders
    from flywheel.arbiter.evaluation.patches import change_of_patch

    if after is not None and patch is None:
        return change_of_folders(before, after)
    if patch is not None and after is None:
        name = "standard input" if patch == "-" else patch
        content = sys.stdin.buffer.read() if patch == "-" else Path(patch).read_bytes()
        return change_of_patch(_text(content, name), name=name, folder=before)
    raise click.UsageError("name the change by --after DIR or by --patch FILE, one of both")


def _text(content: bytes, name: str) -> str:
    from flywheel.errors import InputError

    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is no text in UTF-8: {error}; save it as that") from error


def _show(found: "SpecEvaluation") -> None:
    click.echo(f"{found.spec.name}, risk tier {found.spec.risk_tier}\n")
    print_table(
        ("gate", "", "score", "needed", "seconds", "what it found"),
        [
            (
                result.name + ("" if result.mandatory else " (optional)"),
                result.status.upper() if result.refuses else result.status,
                f"{result.outcome.score:.3f}",
                f"{result.threshold:.3f}",
                "-" if result.outcome.evidence.seconds is None else f"{result.outcome.evidence.seconds:.1f}",
                result.outcome.reason,
            )
            for result in found.results
        ],
    )
    for result in found.results:
        if not result.passed:
            _show_evidence(result)
    _show_waivers(found)
    for confined in dict.fromkeys(result.outcome.evidence.confined for result in found.results):
        if confined:
            click.echo(f"\nconfined {', '.join(confined)}")
    click.echo(f"\n{found.reason}" if found.passed_all_mandatory else f"\nnot passed: {found.reason}")


def _show_evidence(result: "GateResult") -> None:
    seen = result.outcome.evidence
    if not (seen.findings or seen.command):
        return
    click.echo(f"\n{result.name}")
    for finding in seen.findings:
        click.echo(f"  {finding}")
    if seen.command:
        click.echo(f"  $ {' '.join(seen.command)}")
        click.echo("".join(f"  | {line}\n" for line in seen.output.splitlines()), nl=False)


def _show_waivers(found: "SpecEvaluation") -> None:
    if not found.spec.waivers:
        return
    used = {waiver.id for waiver in found.waivers_used}
    ignored = {one.waiver.id: one.reason for one in found.ignored_waivers}
    click.echo("\nwaivers")
    for waiver in found.spec.waivers:
        state = "used" if waiver.id in used else ignored.get(waiver.id, "not needed")
        click.echo(
            f"  {waiver.id}: {waiver.gate}, by {waiver.owner or 'nobody'} until {waiver.expires}, {state}: "
            f"{waiver.reason}"
        )


def _document(found: "SpecEvaluation", signed: "Caws | None") -> dict[str, Any]:
    from flywheel.records import to_builtins

    return {
        "passed": found.passed_all_mandatory,
        "reason": found.reason,
        "spec": {"id": found.spec.id, "version": found.spec.version, "digest": found.spec.digest},
        "gates": [_gate(result) for result in found.results],
        "waivers": {
            "used": [waiver.model_dump(mode="json") for waiver in found.waivers_used],
            "ignored": [{**one.waiver.model_dump(mode="json"), "why": one.reason} for one in found.ignored_waivers],
        },
        "cawsCompliant": found.caws_compliant,
        "budgetCompliant": found.budget_compliant,
        "minimalDiffMetrics": to_builtins(found.minimal_diff),
        "verdict": to_builtins(found.verdict if signed is None else signed),
    }


def _gate(result: "GateResult") -> dict[str, Any]:
    import msgspec

    return {
        "name": result.name,
        "kind": result.kind,
        "status": result.status,
        "mandatory": result.mandatory,
        "score": result.outcome.score,
        "threshold": result.threshold,
        "reason": result.outcome.reason,
        "error": result.outcome.error,
        "waiver": result.waiver,
        "evidence": msgspec.to_builtins(result.outcome.evidence),
    }
