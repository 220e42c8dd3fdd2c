"""``flywheel rubric``: which rubrics there are, what they weigh, and what each term does to real rewards."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table
from flywheel.cli.pool_queries import as_json_option, filtered, where_of

if TYPE_CHECKING:
    from flywheel.arbiter.evaluation.rubrics.ablation import How, ScoredAnswer, TypeAblation
    from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
    from flywheel.settings import Settings


@click.group(cls=Group)
def rubric() -> None:
    """Look at the rubrics that score answers, check one, and measure what its terms do.

    \b
    Examples:
      flywheel rubric list
      flywheel rubric show builtin
      flywheel rubric check rubrics/team.yaml
      flywheel rubric ablate --input points.jsonl
    """


@rubric.command("list")
@as_json_option
@click.pass_obj
def list_rubrics(load: "Callable[[], Settings]", as_json: bool) -> None:
    """List the built-in rubric and those of the configuration, and which one scores.

    \b
    Example:
      flywheel rubric list --json
    """
    from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of, rubrics_of

    settings = load().rubrics
    used = rubric_of(settings).name
    rows = [
        {"rubric": name, "scores": name == used, "file": str(path), "description": found.description}
        for name, (found, path) in rubrics_of(settings).items()
    ]
    if as_json:
        print_json(rows)
        return
    print_table(("rubric", "scores", "file", "description"), [tuple(row.values()) for row in rows])


@rubric.command("show")
@click.argument("name", required=False)
@as_json_option
@click.pass_obj
def show_rubric(load: "Callable[[], Settings]", name: str | None, as_json: bool) -> None:
    """Show a rubric: functions, weights per task type, the gate, and what findings of reward hacking do.

    Without NAME the one that scores. NAME is an id, or id@version.

    \b
    Examples:
      flywheel rubric show
      flywheel rubric show builtin@1 --json
    """
    from flywheel.arbiter.evaluation.rubrics.catalog import named_rubric

    settings = load().rubrics
    found = named_rubric(settings, name or settings.use)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_rubric(found)


@rubric.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_obj
def check_rubrics(load: "Callable[[], Settings]", files: tuple[Path, ...]) -> None:
    """Check files of rubrics: their fields, and that none contradicts another or the configuration's.

    Exits 1 and names file and field where one cannot be used.

    \b
    Example:
      flywheel rubric check rubrics/*.yaml
    """
    from flywheel.arbiter.evaluation.rubrics.catalog import rubrics_of
    from flywheel.arbiter.evaluation.rubrics.reading import read_rubric

    settings = load().rubrics
    both = settings.model_copy(update={"files": (*settings.files, *files)})
    rubrics_of(both)
    for path in files:
        click.echo(f"{path}: {read_rubric(path).name} can be used")


@rubric.command()
@click.option("--input", "source", metavar="FILE", help="Points or logs as JSON lines, gzip or not; - is stdin.")
@click.option("--rubric", "name", help="Another than the one that scores, by id or id@version.")
@click.option(
    "--how",
    type=click.Choice(["drop", "zero"]),
    default="drop",
    show_default=True,
    help="Share a term's weight out among the others, or leave them as they are.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="Reward from which an answer is taken. [default: batch.sft.quality]",
)
@filtered
@as_json_option
@click.pass_obj
def ablate(
    load: "Callable[[], Settings]",
    /,
    *,
    source: str | None,
    name: str | None,
    how: str,
    threshold: float | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Say what rewards would be without each term of the rubric, per task type.

    Over the points of the pool, or with --input over a file, without running services. Filters are for the pool; of
    them a file of evaluations alone takes --task-type, as theirs.

    \b
    Examples:
      flywheel rubric ablate --since 2026-01-05 --task-type code-editing
      flywheel rubric ablate --input points.jsonl --rubric team --json
      flywheel pool points --format jsonl | flywheel rubric ablate --input - --how zero
    """
    from flywheel.arbiter.evaluation.rubrics.ablation import ablate as ablated
    from flywheel.arbiter.evaluation.rubrics.catalog import named_rubric
    from flywheel.errors import InputError

    settings = load()
    chosen = named_rubric(settings.rubrics, name or settings.rubrics.use)
    answers = _of_file(source, filters) if source is not None else _of_pool(settings, filters)
    if not answers:
        raise InputError(f"there is no scored answer in {source or 'the pool'}; a wider filter may find some")
    limit = settings.batch.sft.quality if threshold is None else threshold
    found = ablated(answers, chosen, how=cast("How", how), threshold=limit)
    if as_json:
        print_json({"rubric": chosen.name, "how": how, "threshold": limit, "taskTypes": found})
    else:
        print_ablation(found, chosen)


def print_rubric(found: "Rubric") -> None:
    """A rubric as tables."""
    from flywheel.arbiter.evaluation.hacking.finding import KINDS
    from flywheel.arbiter.evaluation.rubrics.rubric import SCORES, TERMS, Lowering
    from flywheel.arbiter.evaluation.rubrics.terms import term_function

    click.echo(f"{found.name}: {found.description}\n" if found.description else f"{found.name}\n")
    weighed = [(", ".join(row.task_types), row.weights) for row in found.rows]
    weighed.append(("otherwise" if found.rows else "every task type", found.otherwise))
    print_table(("task types", *TERMS), [(types, *(w.of(term) for term in TERMS)) for types, w in weighed])
    click.echo(f"\nThe reward is 0 where safety is below {found.safety_threshold:g}.\n")
    functions: list[tuple[str, str]] = [(score, found.functions[score]) for score in SCORES]
    functions += [
        (f"{score} of {', '.join(row.task_types)}", f) for row in found.rows for score, f in row.functions.items()
    ]
    print_table(("score", "function", "is"), [(score, f, _summary(term_function(f))) for score, f in functions])
    click.echo()
    effects = [(kind, found.effect_of(kind), KINDS[kind].summary) for kind in KINDS]
    print_table(
        ("finding", "does", "is"),
        [
            (kind, f"lowers {effect.lower} × {effect.by:g}" if isinstance(effect, Lowering) else f"{effect}s", summary)
            for kind, effect, summary in effects
        ],
    )


def print_ablation(found: "Sequence[TypeAblation]", chosen: "Rubric") -> None:
    """A table for each task type."""
    columns = ("without", "weight", "reward", "ranks", "spread", "reversed", "lost", "silent", "decisions", "outcome")
    for one in found:
        outcome = "-" if one.outcome_correlation is None else f"{one.outcome_correlation:.3f}"
        click.echo(
            f"{one.task_type}: {one.answers:,} answers, {one.groups:,} groups ({one.silent_groups:,} silent), "
            f"mean reward {one.mean_reward:.3f}, correlation with the outcome {outcome}"
        )
        if one.scored_otherwise:
            click.echo(f"  {one.scored_otherwise:,} answers were not scored by {chosen.name} as it is now")
        print_table(
            columns,
            [
                (
                    *(effect.term, effect.weight, f"{effect.mean_reward_change:+.3f}", effect.rank_correlation),
                    None if effect.spread_share is None else f"{effect.spread_share:.1%}",
                    *(_share(count, effect.orderings) for count in (effect.orderings_reversed, effect.orderings_lost)),
                    *(effect.silent_groups, effect.decisions_changed, effect.outcome_correlation),
                )
                for effect in one.terms
            ],
        )
        click.echo()


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "-"


def _summary(function: object) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0]


def _of_file(source: str, filters: dict[str, Any]) -> "list[ScoredAnswer]":
    from flywheel.arbiter.evaluation.rubrics.scored import read_scored
    from flywheel.pool.anonymization import scanning

    types = filters["task_types"]
    others = sorted(name for name, value in filters.items() if name != "task_types" and value not in (None, ()))
    if others or len(types) > 1:
        raise click.UsageError("a file is read whole: of the filters it takes one --task-type")
    with scanning.opened(source) as lines:
        found = list(read_scored(lines, name=source, task_type=types[0] if types else None))
    return [answer for answer in found if not types or answer.task_type == types[0]]


def _of_pool(settings: "Settings", filters: dict[str, Any]) -> "list[ScoredAnswer]":
    from flywheel.arbiter.evaluation.rubrics.scored import of_point
    from flywheel.cli.audited import audited
    from flywheel.cli.connection import pool_of
    from flywheel.pool.queries.points import PointQuery

    query = PointQuery(where=where_of((), filters))
    with pool_of(settings) as opened:
        points = opened.get_points(query)
        audited(opened, "points.read", lambda: None, streamed=True, asked=query.where)
        return [of_point(point) for point in points]
