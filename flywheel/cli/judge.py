"""``flywheel judge``: who judges answers by what, one answer judged, and judges held against labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.evaluation.judges.agreement import Agreement, Estimate
    from flywheel.arbiter.evaluation.judges.kept import Kept
    from flywheel.arbiter.evaluation.judges.measuring import Measured
    from flywheel.arbiter.evaluation.judges.opinions import Judgement
    from flywheel.settings import Settings

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Group)
def judge() -> None:
    """Models that judge answers to tasks without a published answer. They are configured in [judges].

    \b
    Examples:
      flywheel judge show
      flywheel judge try --task "Name a prime above 10." --answer "11"
      flywheel judge evaluate --input labelled.jsonl
    """


@judge.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def show(load: "Callable[[], Settings]", as_json: bool) -> None:
    """Show the judges and the criteria, with versions and thresholds.

    \b
    Example:
      flywheel judge show --json
    """
    from flywheel.arbiter.evaluation.judges import prompts
    from flywheel.arbiter.evaluation.judges.criteria import criteria_of

    settings = load().judges
    criteria = criteria_of(settings)
    if as_json:
        judges = [model.model_dump(exclude={"api_key_env"}) for model in settings.models]
        print_json({"judges": judges, "prompts": prompts.VERSION, "criteria": criteria})
        return
    if settings.models:
        rows = [(one.id, one.kind, one.model or "base", one.base_url or "this machine") for one in settings.models]
        print_table(("judge", "kind", "model", "where"), rows)
    else:
        click.echo("No judge is configured: answers without a published one are logged as not evaluated.")
    click.echo(f"\nPrompts version {prompts.VERSION}")
    print_table(
        ("criterion", "threshold", "mandatory", "term"),
        [(one.label, one.threshold, one.mandatory, one.term) for one in criteria],
    )


@judge.command("try")
@click.option("--task", required=True, help="What was asked.")
@click.option("--answer", required=True, help="What was answered.")
@click.option("--criterion", "names", multiple=True, help="Only this criterion; may be repeated.")
@click.option("--judge", "only", metavar="ID", help="Only this judge. [default: all, as an arbiter asks them]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def try_answer(
    load: "Callable[[], Settings]", *, task: str, answer: str, names: tuple[str, ...], only: str | None, as_json: bool
) -> None:
    """Judge one answer and show who said what. Nothing is logged, kept or counted.

    \b
    Example:
      flywheel judge try --task "Name a prime above 10." --answer "11" --criterion relevance
    """
    from flywheel.arbiter.evaluation.judges.build import panel_of
    from flywheel.arbiter.evaluation.judges.criteria import criteria_of
    from flywheel.arbiter.evaluation.judges.material import Material
    from flywheel.arbiter.evaluation.judges.panel import Case
    from flywheel.cli.tasks import model_resolver
    from flywheel.errors import ConfigurationError

    settings = load()
    known = {criterion.name: criterion for criterion in criteria_of(settings.judges)}
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(f"no criterion is named {unknown[0]!r}; configured: {', '.join(known)}")
    panel = panel_of(settings, only=only, resolve_model=model_resolver(settings))
    material = Material(task=task, answer=answer)
    cases = [Case(material=material, criterion=known[name]) for name in names or known]
    judgements = panel.judge(cases, tenant_id=settings.tenant_id)
    if as_json:
        print_json(judgements)
        return
    for judgement in judgements:
        print_judgement(judgement)


@judge.command()
@click.option("--input", "source", type=FILE, required=True, help="JSON lines: task, answer, labels.")
@click.option("--judge", "only", metavar="ID", help="Only this judge. [default: all, as an arbiter asks them]")
@click.option("--calibrate", "method", type=click.Choice(("isotonic", "platt")), help="Fit a curve for one judge.")
@click.option(
    "--fitted-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Of the groups that the curve is fitted on; the others report it.",
)
@click.option("--save", "target", type=click.Path(dir_okay=False, path_type=Path), help="Where the curves go.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def evaluate(
    load: "Callable[[], Settings]",
    *,
    source: Path,
    only: str | None,
    method: str | None,
    fitted_share: float,
    target: Path | None,
    as_json: bool,
) -> None:
    """Hold judges against labels: accuracy, kappa, Brier score, calibration, AUC per criterion, with 95 % intervals.

    A line is {"task": text or messages, "answer": text, "labels": {"relevance": true}}; "group" names what is not
    independent (default: the same task). Abstentions are counted apart, and accuracy is bounded as if all of them were
    wrong, and right. Where the services run, opinions are kept: a second run does not ask again.

    \b
    Examples:
      flywheel judge evaluate --input labelled.jsonl --json
      flywheel judge evaluate --input labelled.jsonl --judge qwen --calibrate isotonic --save qwen.json
    """
    from flywheel.arbiter.evaluation.judges.build import panel_of
    from flywheel.arbiter.evaluation.judges.calibration import save
    from flywheel.arbiter.evaluation.judges.criteria import criteria_of
    from flywheel.arbiter.evaluation.judges.labels import read_labelled
    from flywheel.arbiter.evaluation.judges.measuring import calibrations, measure
    from flywheel.cli.tasks import model_resolver
    from flywheel.collection.collector import utc_now
    from flywheel.errors import InputError

    settings = load()
    if target is not None and method is None:
        raise click.UsageError("--save needs --calibrate")
    if target is not None and not target.parent.is_dir():
        raise click.UsageError(f"there is no folder {target.parent}; make it, or save elsewhere")
    if method is not None and only is None and len(settings.judges.models) > 1:
        raise click.UsageError("a curve is of one judge: say which with --judge")
    file, criteria = read_labelled(source), criteria_of(settings.judges)
    with _kept(settings) as kept:
        resolve = model_resolver(settings)
        panel = panel_of(settings, kept=kept, only=only, calibrated=method is None, resolve_model=resolve)
        found = measure(
            file,
            panel,
            criteria,
            tenant_id=settings.tenant_id,
            method=method,  # type: ignore[arg-type]
            fitted_share=fitted_share,
            on_progress=lambda done, total: click.echo(f"{done:,} of {total:,} judged", err=True),
        )
    if as_json:
        print_json(found)
    else:
        print_measured(found)
    if target is None:
        return
    curves = calibrations(found, panel, criteria, method=method, now=utc_now())  # type: ignore[arg-type]
    if not curves:
        raise InputError(f"no curve was fitted, {target} is not written; label more answers, of both kinds")
    save(target, curves)


def print_judgement(judgement: "Judgement") -> None:
    """One criterion: what the judges say together, and each opinion behind it."""
    from flywheel.arbiter.evaluation.judges.opinions import Score

    found, criterion = judgement.finding, judgement.criterion
    if isinstance(found, Score):
        verdict = "passes" if judgement.passed else f"does not pass, {criterion.threshold:g} is needed"
        click.echo(f"{criterion.label}: {found.value:.2f}, {verdict}")
    else:
        click.echo(f"{criterion.label}: abstention, {found.kind}: {found.reason}")
    if judgement.unsure is not None and isinstance(found, Score):
        click.echo(f"  unsure: {judgement.unsure}")
    for opinion in judgement.opinions:
        said = opinion.finding
        score = f"{said.value:.2f} (sure by {said.confidence:.2f})" if isinstance(said, Score) else said.kind
        click.echo(f"  {opinion.judge} ({opinion.model}): {score}: {said.reason}")


def print_measured(found: "Measured") -> None:
    """Tables for people."""
    click.echo(f"judges: {', '.join(found.judges)}\n")
    for name, agreement in found.agreement.items():
        print_agreement(agreement, title=agreement.criterion)
        click.echo(f"the first judge was unsure of {found.unsure[name]:,}\n")
    for name, calibrated in found.calibration.items():
        if calibrated.calibrated is None:
            click.echo(f"{name}: no curve; {calibrated.fitted_on:,} scores, or labels of one kind, are too few\n")
            continue
        print_agreement(calibrated.raw, title=f"{name}, raw, on rows that the curve was not fitted on")
        print_agreement(calibrated.calibrated, title=f"{name}, calibrated, on the same")


def print_agreement(found: "Agreement", *, title: str) -> None:
    """The figures of one criterion."""
    abstained = ", ".join(f"{kind} {count:,}" for kind, count in found.abstentions.items())
    bounds = found.accuracy_bounds
    print_mapping(
        {
            title: "",
            "rows": f"{found.rows:,} in {found.groups:,} groups, {found.scored:,} scored",
            "abstentions": abstained or "none",
            "labelled yes": found.base_rate,
            "accuracy": _told(found.accuracy),
            "accuracy, abstentions wrong to right": None if bounds is None else f"{bounds[0]:.3f} to {bounds[1]:.3f}",
            "Cohen's kappa": _told(found.kappa),
            "Brier score": _told(found.brier),
            "expected calibration error": _told(found.calibration_error),
            "AUC": _told(found.auc),
        }
    )
    rows = [(f"{one.low:.1f}-{one.high:.1f}", one.count, one.mean_score, one.share) for one in found.reliability]
    print_table(("scores", "rows", "mean score", "labelled yes"), rows)


def _told(estimate: "Estimate | None") -> str | None:
    if estimate is None:
        return None
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f}, {estimate.method})"


@contextmanager
def _kept(settings: "Settings") -> "Iterator[Kept]":
    """Where opinions are kept: the running database, else nowhere."""
    from flywheel.arbiter.evaluation.judges.kept import KeptInDatabase, NothingKept
    from flywheel.cli.connection import connected, engine_of
    from flywheel.errors import NotRunningError

    try:
        running = connected(settings)
    except NotRunningError:
        click.echo("no services run: opinions are not kept, a second run asks again", err=True)
        yield NothingKept()
        return
    with engine_of(running) as engine:
        yield KeptInDatabase(engine, days=settings.judges.cache_days)
