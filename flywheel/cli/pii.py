"""``flywheel pii``: what personal data and secrets the detectors find, how well, and why."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from flywheel.pool.anonymization.evaluation import Evaluation, Example, LabelledText, TypeScores
    from flywheel.settings import Settings
    from flywheel.training.intervals import Interval


@click.group(cls=Group)
def pii() -> None:
    """Try the detectors of personal data and secrets on texts of your own. Needs no running services.

    \b
    Examples:
      flywheel pii explain "write to ann@example.org"
      flywheel pii scan --input texts.jsonl --output spans.jsonl
      flywheel pii evaluate --labels labels.jsonl.gz
    """


@pii.command()
@click.option(
    "--input", "source", metavar="FILE", required=True, help='JSON lines {"text": …}, gzip or not; - is stdin.'
)
@click.option("--output", "target", metavar="FILE", required=True, help='JSON lines {"spans": […]}; - is stdout.')
@click.option("--processes", type=click.IntRange(min=1), help="For large inputs. [default: pool_processes]")
@click.option(
    "--ner-model", metavar="PIPELINE", help="spaCy pipeline that finds persons too. [default: anonymization.ner_model]"
)
@click.pass_obj
def scan(
    load: "Callable[[], Settings]", *, source: str, target: str, processes: int | None, ner_model: str | None
) -> None:
    """Find personal data and secrets in every text.

    Each output line has the spans of the input line at its place: {"spans": [{"start", "end", "type"}]}, offsets in
    characters, end exclusive. Other keys of a line are kept, its text is not. A line that cannot be used ends it with
    the line's number, and nothing is written.

    \b
    Examples:
      flywheel pii scan --input texts.jsonl --output spans.jsonl
      zcat texts.jsonl.gz | flywheel pii scan --input - --output - | jq .spans
    """
    from flywheel.pool.anonymization import scanning
    from flywheel.pool.anonymization.detection import detection_in
    from flywheel.pool.workers import cores

    settings = load()
    detection = detection_in(settings.anonymization, ner_model=ner_model)
    used = processes or settings.pool_processes or cores()
    with scanning.opened(source) as lines, scanning.whole(target) as output:
        count, spans = scanning.scan(lines, output, name=named_file(source), processes=used, detection=detection)
    click.echo(f"{count:,} texts, {spans:,} spans", err=True)


@pii.command()
@click.option("--labels", metavar="FILE", required=True, help="Labelled texts, gzip or not; - is stdin.")
@click.option("--predictions", metavar="FILE", help="What a detector found, a line for each text. [default: ours runs]")
@click.option("--examples", type=click.IntRange(min=0), default=5, show_default=True, help="Of each type and mistake.")
@click.option("--show", is_flag=True, help="Show the values of the examples instead of their shape.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def evaluate(
    load: "Callable[[], Settings]", *, labels: str, predictions: str | None, examples: int, show: bool, as_json: bool
) -> None:
    """Hold what is found against labels: recall, precision and F1 of each type with 95 % intervals.

    Labels are JSON lines {"text", "spans": [{"start", "end", "type"}]}, or the layouts tau-messages and
    presidio-research. A label is removed when 80 % of its characters are covered, by any type; a span is right when
    half of its characters lie in labels of what must go; exact: same start, end and type.

    \b
    Examples:
      flywheel pii evaluate --labels labels.jsonl.gz
      flywheel pii evaluate --labels labels.jsonl --predictions theirs.jsonl --json
      flywheel pii evaluate --labels labels.jsonl --examples 20 --show
    """
    from flywheel.pool.anonymization import evaluation as judging
    from flywheel.pool.anonymization import labels as reading
    from flywheel.pool.anonymization.detection import detection_in
    from flywheel.pool.anonymization.scanning import opened
    from flywheel.pool.anonymization.spans import find_spans

    with opened(labels) as lines:
        known = reading.read_labels(lines, name=named_file(labels))
    settings = load().anonymization
    if predictions is None:
        detection = detection_in(settings)
        spans = (find_spans(one.text, detection=detection) for one in known.texts)
        found = [tuple(judging.Mark(s.start, s.end, s.type) for s in some) for some in spans]
    else:
        with opened(predictions) as lines:
            found = reading.read_predictions(lines, known.texts, name=named_file(predictions))
    own = frozenset(one.name for one in settings.types)
    result = judging.evaluate(known.texts, found, complete=known.complete, examples=examples, own=own)
    if as_json:
        print_json(document(result, known.texts, show=show))
        return
    print_scores(result)
    print_examples("missed", result.missed, known.texts, show=show)
    print_examples("found in vain", result.wrong, known.texts, show=show)


@pii.command()
@click.argument("text", required=False)
@click.option("--input", "source", metavar="FILE", help="Read the text from a file; - is stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def explain(load: "Callable[[], Settings]", *, text: str | None, source: str | None, as_json: bool) -> None:
    """Show what is found in TEXT, marked, and why. It shows values: they are yours.

    \b
    Examples:
      flywheel pii explain "write to ann@example.org"
      flywheel pii explain --input conversation.txt
      pbpaste | flywheel pii explain --input - --json
    """
    from flywheel.cli.marked_text import print_marked, print_reasons
    from flywheel.pool.anonymization.detection import detection_in
    from flywheel.pool.anonymization.scanning import opened
    from flywheel.pool.anonymization.spans import find_spans

    if (text is None) == (source is None):
        raise click.UsageError("give either a text or --input FILE")
    if text is None and source is not None:
        with opened(source) as file:
            text = file.read().decode("utf-8", "replace")
    content = text or ""
    found = find_spans(content, detection=detection_in(load().anonymization))
    if as_json:
        print_json({"spans": found})
        return
    print_marked(content, found)
    print_reasons("what was found" if found else "nothing was found", content, found)


def named_file(path: str) -> str:
    """What errors call a file."""
    return "standard input" if path == "-" else path


def print_scores(result: "Evaluation") -> None:
    """The table of types, the total last."""
    click.echo(
        f"{result.texts:,} texts of {result.characters:,} characters, of which {result.replaced_characters:,} "
        f"({result.replaced_characters / max(result.characters, 1):.1%}) would be replaced"
    )
    rows = (*result.types, result.total)
    print_table(
        ("type", "labels", "removed", "recall", "typed", "found", "right", "precision", "F1"),
        [
            (
                named(one),
                one.labels,
                one.removed,
                with_interval(one.recall),
                with_interval(one.typed_recall),
                one.found,
                one.right,
                with_interval(one.precision),
                one.f1,
            )
            for one in rows
        ],
    )
    click.echo("\nthe same by exact start, end and type")
    print_table(
        ("type", "exact", "recall", "precision", "F1"),
        [
            (named(one), one.exact, with_interval(one.exact_recall), with_interval(one.exact_precision), one.exact_f1)
            for one in rows
        ],
    )
    if any(not one.must_go for one in result.types):
        click.echo("\n(type): not among what must go; it is not in the last rows")


def named(one: "TypeScores") -> str:
    """The type, in brackets where it may stay."""
    return one.type if one.must_go else f"({one.type})"


def with_interval(share: "Interval | None") -> str | None:
    """``0.912 (0.881–0.937)``."""
    return None if share is None else f"{share.value:.3f} ({share.low:.3f}–{share.high:.3f})"


def print_examples(
    title: str, examples: "tuple[Example, ...]", texts: "tuple[LabelledText, ...]", *, show: bool
) -> None:
    """Where mistakes are: the text's number from 1, the place in it, and the value's shape or, asked for, the value."""
    if examples:
        click.echo(f"\n{title}{'' if show else ' (shapes; --show shows the values)'}")
        print_table(
            ("type", "text", "characters", "value"),
            [
                (one["type"], str(one["text"]), f"{one['start']}–{one['end']}", repr(one["value"]))
                for one in described(examples, texts, show=show)
            ],
        )


def described(
    examples: "tuple[Example, ...]", texts: "tuple[LabelledText, ...]", *, show: bool
) -> list[dict[str, object]]:
    """Examples for people and programs."""
    from flywheel.pool.anonymization.evaluation import masked

    told: list[dict[str, object]] = []
    for example in sorted(examples, key=lambda one: (one.mark.type, one.number, one.mark.start)):
        mark = example.mark
        value = texts[example.number].text[mark.start : mark.end]
        told.append(
            {
                "type": mark.type,
                "text": example.number + 1,
                "start": mark.start,
                "end": mark.end,
                "value": value if show else masked(value),
            }
        )
    return told


def document(result: "Evaluation", texts: "tuple[LabelledText, ...]", *, show: bool) -> dict[str, object]:
    """The evaluation as one JSON document."""
    import msgspec

    whole: dict[str, object] = msgspec.to_builtins(result)
    examples = {"missed": result.missed, "wrong": result.wrong}
    return {**whole, **{name: described(some, texts, show=show) for name, some in examples.items()}}
