"""Which files are tests, which files judge, and what code says once comments are taken away."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.languages import language_of_path

PYTHON = "python"
WRITTEN_LIKE = {
    PYTHON: PYTHON,
    "javascript": "javascript",
    "typescript": "javascript",
    "tsx": "javascript",
    "java": "java",
    "go": "go",
    "rust": "rust",
}
"""The languages whose tests are read, and as which each is."""
KOTLIN = ".kt"
_TEST_NAME = re.compile(r"^(?:tests?|test_.*|.*_tests?|.*\.(?:test|spec)|.*Tests?|.*TestCase|.*[a-z]IT)$")
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "testing", "spec", "specs"})
_PYTHON_HIDDEN = re.compile(
    r"(?P<text>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?''')|(?P<keep>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<comment>\#[^\r\n]*)",
    re.DOTALL,
)
_OTHER_HIDDEN = re.compile(
    r"(?P<text>/\*.*?(?:\*/|\Z))|(?P<keep>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?P<comment>//[^\r\n\u2028\u2029]*)",
    re.DOTALL,
)


LONGEST_LINE = 1_000
"""Characters of a line that are looked at: longer ones are data, or meant to keep whoever looks busy."""


class AddedLine(Struct, frozen=True):
    """A line that the change added: its number after it, from 1, and its text."""

    number: int
    text: str


def language_of(path: str) -> str | None:
    """The language that a file's tests are read as, by its name; None where it is none whose tests we know.

    Kotlin's tests read as Java's; there is no grammar of it.
    """
    if path.endswith(KOTLIN):
        return "java"
    language = language_of_path(path)
    return None if language is None else WRITTEN_LIKE.get(language.name)


def is_test(path: str) -> bool:
    """Whether the file holds tests, by its name or a folder's. What only helps tests counts as well."""
    return is_named_as_test(path) or bool(_TEST_FOLDERS & set(PurePosixPath(path).parts[:-1]))


def is_named_as_test(path: str) -> bool:
    """Whether test runners take the file for one of tests, by its own name."""
    return language_of(path) is not None and bool(_TEST_NAME.match(PurePosixPath(path).stem))


def paths_of(file: FileChange) -> tuple[str, ...]:
    """The file's path after the change, and the one before where it was another."""
    return (file.path,) if file.old_path in {None, file.path} else (file.path, str(file.old_path))


def code_of(text: str, language: str) -> str:
    """The text with comments and, in Python, texts of several lines blanked; lines and columns stay."""

    def blank(found: re.Match[str]) -> str:
        if found["keep"] is not None:
            return found[0]
        return re.sub(r"\S", " ", found[0])  # white space stays: some of it ends lines, as a form feed does

    return (_PYTHON_HIDDEN if language == PYTHON else _OTHER_HIDDEN).sub(blank, text)


def code_lines(text: str, language: str) -> list[str]:
    """The lines of the code, as far as they are looked at."""
    return [line[:LONGEST_LINE] for line in code_of(text, language).splitlines()]


def added_lines(file: FileChange) -> Iterator[AddedLine]:
    """Lines that are in the file after the change more often than before, wherever they stand."""
    left: dict[str, int] = {}
    for line in (file.before or "").splitlines():
        left[line.strip()] = left.get(line.strip(), 0) + 1
    for number, line in enumerate((file.after or "").splitlines(), start=1):
        if left.get(line.strip(), 0):
            left[line.strip()] -= 1
        elif line.strip():
            yield AddedLine(number, line[:LONGEST_LINE])


def source_files(change: Change) -> Iterator[tuple[FileChange, str]]:
    """The files of the change that are code and no tests, with their language."""
    for file in change.files:
        language = language_of(file.path)
        if language is not None and not is_test(file.path):
            yield file, language
