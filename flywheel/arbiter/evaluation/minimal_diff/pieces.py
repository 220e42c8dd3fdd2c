"""The parts of files that are compared with one another: whole files, or the hunks that a diff shows of them."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.change import FileChange
from flywheel.arbiter.evaluation.changed_lines import LineChanges, lines_of
from flywheel.arbiter.evaluation.minimal_diff.scaffolding import Facts, facts_of
from flywheel.arbiter.evaluation.minimal_diff.trees import Node, errors_in, parsed, tree_of_code, tree_of_lines
from flywheel.languages import Language, language_of_path

if TYPE_CHECKING:
    import tree_sitter

LARGEST = 1_000_000
"""Characters of the longer side from which a file is compared by lines: no person writes such code."""
PREPROCESSED = frozenset({"c", "cpp"})
"""Languages whose valid code a grammar may not be able to read: macros."""


class Piece(Struct):
    """A part of a file. ``language``: None where it is compared by lines. ``added``: its added lines, by row from 0.

    ``broken``: it could be read before and cannot be read now, so nothing of it is matched.
    """

    language: Language | None
    before: Node | None
    after: Node | None
    added: list[tuple[int, str]]
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
    if not file.hunks:
        added = [(line.number - 1, line.text) for line in changes.added]
        return [_piece(file.before, file.after, language, added, path=file.path)]
    found = []
    for hunk in file.hunks:
        rows = range(hunk.after_start, hunk.after_start + len(lines_of(hunk.after)))
        added = [(line.number - hunk.after_start, line.text) for line in changes.added if line.number in rows]
        found.append(_piece(hunk.before, hunk.after, language, added, path=file.path, fragment=True))
    return found


def _piece(
    before: str | None,
    after: str | None,
    language: Language | None,
    added: list[tuple[int, str]],
    *,
    path: str,
    fragment: bool = False,
) -> Piece:
    if language is None:
        trees = [None if text is None else tree_of_lines(text) for text in (before, after)]
        return Piece(None, *trees, added)
    old, new = (None if text is None else parsed(text, language, fragment=fragment) for text in (before, after))
    new_errors = max(0, _errors(new) - _errors(old))
    return Piece(
        language,
        tree_of_code(old) if old else None,
        tree_of_code(new) if new else None,
        added,
        old_facts=facts_of(old, path=path) if old else Facts(),
        new_facts=facts_of(new, path=path) if new else Facts(),
        new_errors=new_errors,
        broken=new_errors > 0 and not fragment and language.name not in PREPROCESSED,
    )


def _errors(tree: "tree_sitter.Tree | None") -> int:
    return 0 if tree is None else errors_in(tree)
