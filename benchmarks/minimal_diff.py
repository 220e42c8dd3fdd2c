"""Minimal diff beside what is used for it elsewhere: who sees bloat, what each misses, and what it costs.

``python benchmarks/minimal_diff.py [--json]``. Peers: ``difflib``'s ratio of characters, a Jaccard index of node types,
and on small functions the exact tree edit distance (``apted``) as the oracle.

- ``bloat``: share of pairs in which the correct patch scores above the same patch bloated, per kind and source; ours by
  the multiplier and by similarity alone, the peers by similarity. Needs the real patches beside the checkout.
- ``probes``: what each measure says of changes that a person tells apart at once.
- ``oracle``: Spearman's rank correlation with the exact similarity, over graded edits of small functions.
- ``milliseconds``: processor time for three changed lines in a file of 200, and for a small function; median of rounds.
"""

import argparse
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from scipy.stats import spearmanr  # type: ignore[import-untyped]

from flywheel.arbiter.evaluation.change import Change, change_of_text
from flywheel.arbiter.evaluation.minimal_diff.scoring import score
from flywheel.languages import BY_NAME, language_of_path
from tests.arbiter.evaluation.minimal_diff.bloat import BLOATERS, bloated_change
from tests.arbiter.evaluation.minimal_diff.peers import difflib_ratio, exact_similarity, node_type_jaccard
from tests.arbiter.evaluation.minimal_diff.programs import OTHER_BODY, PYTHON
from tests.arbiter.evaluation.minimal_diff.samples import DIFFS, graded_pairs, samples

ROUNDS = 15
LINES = 200
SOURCE = Path(__file__).resolve().parents[1] / "flywheel" / "arbiter" / "episodes.py"
PYTHON_LANGUAGE = BY_NAME["python"]
FUNCTION = PYTHON[PYTHON.index("def total_of") : PYTHON.index("def widest")]
PROBES = {
    "one operator": PYTHON.replace("item.price > 0", "item.price >= 0"),
    "operands swapped": PYTHON.replace("shape.width > best.width", "best.width > shape.width"),
    "renamed consistently": re.sub(r"\b(total|item|shape)\b", r"the_\1", PYTHON),
    "function moved": PYTHON.replace(FUNCTION, "") + "\n\n" + FUNCTION,
    "laid out anew": re.sub(r"(?m)^( +)", r"\1\1", PYTHON),
    "body rewritten": PYTHON.replace(FUNCTION, OTHER_BODY + "\n\n"),
    "syntax broken": PYTHON.replace("return best", "return (best"),
}


def similarity(before: str, after: str) -> float:
    """Ours, of one Python file."""
    return score(change_of_text("file.py", before=before, after=after)).metrics.ast_similarity


def jaccard(before: str, after: str) -> float:
    """The index of node types of one Python file."""
    return node_type_jaccard(before, after, PYTHON_LANGUAGE)


def peers_of(change: Change) -> tuple[float, float]:
    """Both peers' similarity of a change: of all its files, one after the other."""
    before, after = ("".join(getattr(file, side) or "" for file in change.files) for side in ("before", "after"))
    language = language_of_path(change.files[0].path) or PYTHON_LANGUAGE
    return difflib_ratio(before, after), node_type_jaccard(before, after, language)


def bloat_figures() -> dict[str, dict[str, dict[str, float]]]:
    """Shares of pairs in order, per kind of bloat and source of patches."""
    pairs: Counter[tuple[str, str]] = Counter()
    above: Counter[tuple[str, str, str]] = Counter()
    for number, sample in enumerate(samples()):
        correct, correct_peers = score(sample.change).metrics, peers_of(sample.change)
        for kind in BLOATERS:
            bloated = bloated_change(kind, sample.change, seed=number)
            metrics, peers = score(bloated).metrics, peers_of(bloated)
            pairs[kind, sample.source] += 1
            above[kind, sample.source, "ours"] += correct.reward_multiplier > metrics.reward_multiplier
            above[kind, sample.source, "oursSimilarity"] += correct.ast_similarity > metrics.ast_similarity
            above[kind, sample.source, "difflib"] += correct_peers[0] > peers[0]
            above[kind, sample.source, "nodeTypeJaccard"] += correct_peers[1] > peers[1]
    figures: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in BLOATERS}
    for (kind, source), count in pairs.items():
        names = ("ours", "oursSimilarity", "difflib", "nodeTypeJaccard")
        shares = {name: round(above[kind, source, name] / count, 3) for name in names}
        figures[kind][source] = {"pairs": count, **shares}
    return figures


def probe_figures() -> dict[str, dict[str, float]]:
    """Each measure's similarity of each probe."""
    measures = {"ours": similarity, "difflib": difflib_ratio, "nodeTypeJaccard": jaccard}
    return {
        probe: {name: round(measure(PYTHON, after), 3) for name, measure in measures.items()}
        for probe, after in PROBES.items()
    }


def oracle_figures() -> dict[str, float]:
    """Rank correlations with the exact similarity."""
    pairs = graded_pairs(seed=1, largest=260)
    exact = [exact_similarity(before, after, PYTHON_LANGUAGE) for before, after in pairs]
    measures = {"ours": similarity, "difflib": difflib_ratio, "nodeTypeJaccard": jaccard}
    figures = {name: [measure(before, after) for before, after in pairs] for name, measure in measures.items()}
    correlations = {name: round(float(spearmanr(values, exact).statistic), 3) for name, values in figures.items()}
    return {"pairs": len(pairs), **correlations}


def milliseconds(function: Callable[[], object]) -> float:
    """The median processor time of the rounds."""
    function()  # grammars are loaded once a process
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        function()
        rounds.append((time.process_time() - started) * 1e3)
    return round(statistics.median(rounds), 2)


def time_figures() -> dict[str, dict[str, float]]:
    """What each measure takes, on a file and on a function."""
    before = "\n".join(SOURCE.read_text(encoding="utf-8").split("\n")[:LINES]) + "\n"
    after = before.replace("answers", "replies", 3)
    renamed = re.sub(r"\bepisode\b", "story", before)
    return {
        f"file of {LINES} lines": {
            "ours": milliseconds(lambda: similarity(before, after)),
            "oursRenamed": milliseconds(lambda: similarity(before, renamed)),
            "difflib": milliseconds(lambda: difflib_ratio(before, after)),
            "nodeTypeJaccard": milliseconds(lambda: jaccard(before, after)),
        },
        "function of 10 lines": {
            "ours": milliseconds(lambda: similarity(FUNCTION, OTHER_BODY)),
            "difflib": milliseconds(lambda: difflib_ratio(FUNCTION, OTHER_BODY)),
            "nodeTypeJaccard": milliseconds(lambda: jaccard(FUNCTION, OTHER_BODY)),
            "exact": milliseconds(lambda: exact_similarity(FUNCTION, OTHER_BODY, PYTHON_LANGUAGE)),
        },
    }


def main() -> None:
    """Measure everything in one run."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = arguments.parse_args().json
    bloat = bloat_figures() if DIFFS.is_dir() else None
    probes, oracle, times = probe_figures(), oracle_figures(), time_figures()
    if as_json:
        print(json.dumps({"bloat": bloat, "probes": probes, "oracle": oracle, "milliseconds": times}))
        return
    for kind, sources in (bloat or {}).items():
        for source, shares in sources.items():
            print(f"{kind:13} {source:16} {in_line(shares)}")
    if bloat is None:
        print(f"no bloat pairs: the real patches are not in {DIFFS}")
    for name, measured in (*probes.items(), *times.items(), ("rank correlation", oracle)):
        print(f"{name:21} {in_line(measured)}")


def in_line(figures: dict[str, float]) -> str:
    """Names and figures on one line."""
    return "  ".join(f"{name} {value:g}" for name, value in figures.items())


if __name__ == "__main__":
    main()
