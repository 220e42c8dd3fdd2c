"""Renaming what code declares, per language, beside parsing alone, which is its floor.

``python benchmarks/code_names.py [--json]``. Microseconds of processor time for a file of about 200 lines, the median
of nine rounds; the ratio says how much more than parsing it takes.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

from flywheel.languages import LanguageName, parser
from flywheel.pool.anonymization.code.points import rename_code
from flywheel.pool.anonymization.places import Place
from tests.pool.anonymization.code.snippets import SNIPPETS

LINES = 200
ROUNDS = 9


def file_of(language: LanguageName) -> str:
    """A file of about 200 lines: the language's snippet, over and over."""
    snippet = SNIPPETS[language]
    return snippet * max(1, round(LINES / snippet.count("\n")))


def microseconds(function: Callable[[], object]) -> float:
    """The median time of the rounds."""
    function()  # grammars and queries are compiled once a process
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        function()
        rounds.append((time.process_time() - started) * 1e6)
    return statistics.median(rounds)


def figures_of(language: LanguageName) -> dict[str, float]:
    """Both times and their ratio."""
    source = file_of(language)
    text = f"```{language}\n{source}\n```"
    ours = microseconds(lambda: rename_code([Place([text], 0, text)]))
    floor = microseconds(lambda: parser(language).parse(source.encode()))
    return {
        "lines": source.count("\n"),
        "renameUs": round(ours),
        "parseUs": round(floor),
        "ratio": round(ours / floor, 1),
    }


def main() -> None:
    """Measure every language in one run."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = arguments.parse_args().json
    figures = {language: figures_of(language) for language in SNIPPETS}
    if as_json:
        print(json.dumps(figures))
        return
    for language, measured in figures.items():
        print(f"{language:11} " + "  ".join(f"{name} {value:,}" for name, value in measured.items()))


if __name__ == "__main__":
    main()
