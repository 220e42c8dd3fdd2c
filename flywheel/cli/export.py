"""``flywheel pool export`` and ``release``: batches of anonymized points for training elsewhere."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flywheel.cli import times
from flywheel.cli.output import print_json, print_mapping

if TYPE_CHECKING:
    from flywheel.pool.batches import Batch
    from flywheel.pool.export_choice import ExportCriteria
    from flywheel.pool.export_files import Format
    from flywheel.pool.pool import BenchmarkPool
    from flywheel.settings import Settings

PHASES = ("sft", "turn-level-rl", "grpo", "curriculum")
FORMATS = ("trl", "parquet", "jsonl")
Share = click.FloatRange(0, 1, max_open=True)


def mix_of(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """``complex=0.3`` as a share by complexity."""
    try:
        return {name: float(share) for name, _, share in (value.partition("=") for value in values)}
    except ValueError:
        raise click.BadParameter("write shares as complex=0.3, once for each complexity") from None


@click.command()
@click.option("--phase", type=click.Choice(PHASES), help="What the points are for; they are marked for it.")
@click.option("--id", "export_id", help="Name of the export. [default: export-DATE-TIME]")
@click.option("--min-points", type=click.IntRange(1), help="Fewer of quality are refused. [default: the phase's]")
@click.option("--max-points", type=click.IntRange(1), help="[default: twice the phase's points]")
@click.option("--min-quality", type=click.FloatRange(0, 1), help="Least overall score. [default: the phase's]")
@click.option("--max-age-days", type=click.IntRange(1), help="[default: the phase's]")
@click.option("--min-task-types", type=click.IntRange(1), help="Different ones. [default: the phase's]")
@click.option("--min-agents", type=click.IntRange(1), help="Different ones. [default: the phase's]")
@click.option("--task-type", "task_types", multiple=True, help="Only this one; more than once for several.")
@click.option("--agent", "agents", multiple=True, help="Only this one; more than once for several.")
@click.option("--since", type=times.moment, help="Only from this UTC time on.")
@click.option("--until", type=times.moment, help="Only before this UTC time.")
@click.option(
    "--complexity-mix",
    multiple=True,
    callback=mix_of,
    metavar="NAME=SHARE",
    help="Share of a complexity, kept exactly.",
)
@click.option("--any-time", is_flag=True, help="Spread over all times, instead of the most recent first.")
@click.option("--include-failures", is_flag=True, help="Add points that failed; not for sft.")
@click.option("--keep-near-duplicates", is_flag=True, help="Keep points that say almost the same.")
@click.option("--validation-fraction", type=Share, help="Of the tasks. [default: 0.1]")
@click.option("--heldout-fraction", type=Share, help="Of the tasks. [default: 0.1]")
@click.option(
    "--noise-epsilon",
    type=click.FloatRange(0, min_open=True),
    help="Noise on rewards; so much of each tenant's privacy budget is spent. [default: as the policies say]",
)
@click.option(
    "--noise-delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Gaussian noise with this δ, with --noise-epsilon. [default: Laplace noise, δ 0]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be in it and what is missing; mark and write nothing.")
@click.option("--batch", "batch_id", metavar="BATCH", help="Write this export again instead of making one.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="trl", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="A new folder for the files.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def export(
    load: "Callable[[], Settings]",
    /,
    *,
    phase: str | None,
    export_id: str | None,
    batch_id: str | None,
    dry_run: bool,
    form: "Format",
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Choose anonymized points for a phase, mark them, and write them as files.

    \b
    Examples:
      flywheel pool export --phase sft --dry-run
      flywheel pool export --phase grpo --include-failures --output grpo-data
      flywheel pool export --phase sft --complexity-mix standard=0.7 --complexity-mix complex=0.3 --output sft-data
      flywheel pool export --batch export-20260105-101500 --format parquet --output again
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.batches import get_batch
    from flywheel.pool.export_files import check_unused, write_export
    from flywheel.pool.exports import MadeExport, make_export, preview_export

    if (phase is None) == (batch_id is None):
        raise click.UsageError("say --phase for a new export, or --batch to write one again")
    if batch_id is not None and output is None:
        raise click.UsageError("say --output: where the export is to be written")
    if batch_id is not None and dry_run:
        raise click.UsageError("--dry-run is for a new export; --batch writes one that is made")
    now = datetime.now(UTC)
    if output is not None and not dry_run:
        check_unused(output)
    with pool_of(load()) as opened:
        if batch_id is not None:
            made = MadeExport(batch=get_batch(opened, batch_id), rows=None)
            audited(opened, "export.write", made.batch)
        else:
            criteria = asked_for(opened.settings, phase, options)
            if dry_run:
                plan = preview_export(opened, criteria, now=now)
                show_plan(plan.batch, plan.lacking, plan.trained_before, as_json=as_json)
                return
            made = make_export(opened, criteria, export_id=export_id or f"export-{now:%Y%m%d-%H%M%S}", now=now)
            audited(opened, "export.make", made.batch)
        batch = made.batch
        if output is not None:
            with told_how_to_write_again(batch.id, form):
                write_export(opened, batch.id, output, form, made=made)
    if as_json:
        print_json({"batch": batch, "folder": None if output is None else str(output)})
        return
    print_mapping(summary(batch))
    print_trained_before(batch.criteria.get("trained_before", 0))
    click.echo(
        f"written to {output}" if output else f"write it with: flywheel pool export --batch {batch.id} --output DIR"
    )


@click.command()
@click.argument("batch_id")
@click.option("--because", required=True, help="Why, in words; the ledger keeps it.")
@click.option("--force", is_flag=True, help="A training batch, too, though its points may be in use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def release(load: "Callable[[], Settings]", batch_id: str, *, because: str, force: bool, as_json: bool) -> None:
    """Give the points of BATCH_ID back, because what they were for failed. The batch cannot be used again.

    A training batch is refused without --force: look at its runs first.

    \b
    Example:
      flywheel pool release export-20260105-101500 --because "the cluster was lost"
    """
    from flywheel.cli.connection import pool_of
    from flywheel.pool.releases import release_batch

    with pool_of(load()) as opened:
        batch = release_batch(opened, batch_id, because=because, now=datetime.now(UTC), force=force)
        audited(opened, "batch.release", batch)
    if as_json:
        print_json(batch)
    else:
        click.echo(f"{batch.size:,} points of {batch.id} may be chosen again: {batch.released_because}")


@contextmanager
def told_how_to_write_again(batch_id: str, form: str) -> "Iterator[None]":
    """Where writing fails or is interrupted, say that the export is made and how it is written."""
    try:
        yield
    except BaseException:
        click.echo(
            f"export {batch_id} is made and its points are marked, but it was not written; write it with: "
            f"flywheel pool export --batch {batch_id} --format {form} --output DIR",
            err=True,
        )
        raise


def audited(opened: "BenchmarkPool", action: str, batch: "Batch") -> None:
    """Enter into the audit what this machine's user does with a batch."""
    from flywheel.pool.access.audit import record

    record(opened, action, principal=getpass.getuser(), asked={"batch": batch.id}, rows=batch.size)


def print_trained_before(count: int) -> None:
    """Say how many held-out tasks are no fair test of models of earlier batches."""
    if count:
        click.echo(f"{count:,} of its held-out tasks were trained on by earlier batches")


def asked_for(settings: "Settings", phase: Any, options: dict[str, Any]) -> "ExportCriteria":
    """The criteria of the options; those not given are the phase's.

    Raises:
        PoolError: they contradict each other.
    """
    from flywheel.pool.export_choice import criteria_for
    from flywheel.pool.filters import PointFilter

    since, until = options.pop("since"), options.pop("until")
    task_types, agents = options.pop("task_types"), options.pop("agents")
    given = {name: value for name, value in options.items() if value is not None}
    return criteria_for(
        settings,
        phase,
        only=PointFilter(since=since, until=until, task_types=task_types, agents=agents),
        prefer_recent=not given.pop("any_time"),
        remove_near_duplicates=not given.pop("keep_near_duplicates"),
        **given,
    )


def summary(batch: "Batch") -> dict[str, Any]:
    """What a person wants to know of an export."""
    counted = {
        "splits": batch.splits,
        "outcomes": batch.outcomes,
        "task types": batch.task_types,
        "complexities": batch.complexities,
        "agents": batch.agents,
        "left out": batch.left_out,
    }
    return {
        "export": batch.id,
        "points": batch.size,
        **{name: ", ".join(f"{key} {number:,}" for key, number in held.items()) for name, held in counted.items()},
        "noise": noise_told(batch),
        "mean quality": next((known["mean"] for known in batch.quality.values()), None),
        "from": batch.first_at,
        "to": batch.last_at,
        "digest": batch.digest or None,
    }


def noise_told(batch: "Batch") -> str | None:
    """The noise on an export's rewards and what it spends, in words; None where they are true."""
    noise = batch.criteria.get("noise")
    if noise is None:
        return None
    return (
        f"{noise['mechanism']} of scale {noise['scale']:.3g} on rewards; "
        f"ε {noise['epsilon']:g} and δ {noise['delta']:g} of each tenant's privacy budget"
    )


def show_plan(batch: "Batch | None", lacking: tuple[str, ...], trained_before: int, *, as_json: bool) -> None:
    """Print what an export would hold, and what it lacks."""
    if as_json:
        print_json({"batch": batch, "lacking": lacking, "trainedBefore": trained_before})
        return
    if batch is not None:
        print_mapping(summary(batch))
    print_trained_before(trained_before)
    click.echo(f"the export cannot be made yet: {'; '.join(lacking)}" if lacking else "the export can be made")
