"""Writes flywheel/pool/anonymization/data/common_words.txt anew: words that are no person's name by themselves.

``python -m scripts.common_words [FOLDER …]``. Counts the words of docstrings, readmes and manuals in the folders, by
default of the installed packages: a word that many of them write small is a common one, although somebody may be
called so.
"""

import ast
import re
import sys
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path

from flywheel.pool.anonymization.names import listed_names

TARGET = Path(__file__).parent.parent / "flywheel/pool/anonymization/data/common_words.txt"
WORD = re.compile(r"(?<![\w/.-])[A-Za-z][a-z]+(?![\w/=(\[]|\.\w)")
LARGEST = 2_000_000  # bytes of a file
OFTEN, SOURCES, SMALL = 20, 6, 0.3  # times, packages, and the share that is written small
OFTEN_NAME, SMALL_NAME = 30, 0.6  # for what is also a name


def texts(folder: Path) -> list[tuple[str, str]]:
    """Each prose text below a folder, and the package it is of."""
    found: list[tuple[str, str]] = []
    for path in folder.rglob("*"):
        if not path.is_file() or path.stat().st_size > LARGEST or "faker" in path.parts:
            continue
        source = path.relative_to(folder).parts[0]
        content = path.read_text(encoding="utf-8", errors="ignore")
        if path.suffix == ".py":
            try:
                tree = ast.parse(content)
            except (SyntaxError, ValueError):
                continue
            nodes = [one for one in ast.walk(tree) if isinstance(one, ast.Module | ast.ClassDef | ast.FunctionDef)]
            found += [(source, text) for one in nodes if (text := ast.get_docstring(one))]
        elif path.suffix in {".md", ".rst", ".txt"} or path.name in {"METADATA", "copyright", "README"}:
            found.append((source, content))
    return found


def main() -> None:
    """Count and write. Words that the file already has stay: some were added by hand."""
    small, large = Counter[str](), Counter[str]()
    sources: dict[str, set[str]] = defaultdict(set)
    for folder in map(Path, sys.argv[1:] or [sysconfig.get_paths()["purelib"]]):
        for source, text in texts(folder):
            for word in WORD.findall(text):
                (small if word.islower() else large)[word.lower()] += 1
                sources[word.lower()].add(source)
    names = {name.lower() for _, listed in listed_names() for name in listed}
    common = set(TARGET.read_text(encoding="utf-8").split())
    for word, count in small.items():
        often, share = (OFTEN_NAME, SMALL_NAME) if word in names else (OFTEN, SMALL)
        if count >= often and len(sources[word]) >= SOURCES and count >= share * (count + large[word]):
            common.add(word)
    TARGET.write_text("".join(f"{word}\n" for word in sorted(common)), encoding="utf-8")


if __name__ == "__main__":
    main()
