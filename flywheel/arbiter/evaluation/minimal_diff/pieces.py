"""The parts of files that are compared with one another: whole files, or the hunks that a diff shows of them."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.change import FileChange, Hunk
from flywheel.arbiter.evaluation.changed_lines import Line, LineChanges, lines_of
from flywheel.arbiter.evaluation.minimal_diff.scaffolding import Facts, facts_of
from flywheel.arbiter.evaluation.minimal_diff.trees import (
    Node,
    Parsed,
    parsed,
    parsed_part,
    tree_of_code,
    tree_of_lines,
)
from flywheel.languages import Language, language_of_path

LARGEST = 1_000_000
"""Characters of the longer side from which a file is compared by lines: no person writes such code."""
PREPROCESSED = frozenset({"c", "cpp"})
"""Languages whose valid code a grammar may not be able to read: macros."""


class Piece(Struct):
    """A part of a file. ``language``: None where it is compared by lines.

    ``broken``: it could be read before and cannot be read now, so nothing of it is matched.
    """

    language: Language | None
    before: Node | None
    after: Node | None
    old_facts: Facts = msgspec.field(default_factory=Facts)
    new_facts: Facts = msgspec.field(default_factory=Facts)
    new_errors: int = 0
    broken: bool = False


def pieces_of(file: FileChange, changes: LineChanges) -> list[Piece]:
    """The parts of one file; of a binary one there are none."""
    if file.binary:
        return []
    language = language_of_path(file.path)
    if max(len(file.before or ""), len(file.after or "")) > LARGEST:
        language = None
    if language is None:
        if not file.hunks:
            return [_prose(file.before, file.after)]
        return [_prose(hunk.before, hunk.after) for hunk in file.hunks]
    if not file.hunks:
        old, new = (None if text is None else parsed(text, language) for text in (file.before, file.after))
        return [_code(old, new, (_rows(changes.removed), _rows(changes.added)), language, path=file.path)]
    return [_part(hunk, changes, language, path=file.path) for hunk in file.hunks]


def _prose(before: str | None, after: str | None) -> Piece:
    return Piece(
        language=None,
        before=None if before is None else tree_of_lines(before),
        after=None if after is None else tree_of_lines(after),
    )


def _part(hunk: Hunk, changes: LineChanges, language: Language, *, path: str) -> Piece:
    old, new = parsed_part(hunk.before, hunk.after, language)
    removed = _rows(changes.removed, first=hunk.before_start, count=len(lines_of(hunk.before)))
    added = _rows(changes.added, first=hunk.after_start, count=len(lines_of(hunk.after)))
    piece = _code(old, new, (removed, added), language, path=path)
    piece.broken = False  # where a diff cuts code off, no grammar can read it
    return piece


def _code(
    old: Parsed | None,
    new: Parsed | None,
    changed: tuple[dict[int, str], dict[int, str]],
    language: Language,
    *,
    path: str,
) -> Piece:
    new_errors = max(0, (new.errors if new else 0) - (old.errors if old else 0))
    return Piece(
        language,
        tree_of_code(old) if old else None,
        tree_of_code(new) if new else None,
        old_facts=facts_of(old, changed[0], path=path) if old else Facts(),
        new_facts=facts_of(new, changed[1], path=path) if new else Facts(),
        new_errors=new_errors,
        broken=new_errors > 0 and language.name not in PREPROCESSED,
    )


def _rows(changed: Sequence[Line], *, first: int = 1, count: int | None = None) -> dict[int, str]:
    """The changed lines by row from 0, counted from a part's first line."""
    rows = {line.number - first: line.text for line in changed}
    return rows if count is None else {row: text for row, text in rows.items() if 0 <= row < count}
