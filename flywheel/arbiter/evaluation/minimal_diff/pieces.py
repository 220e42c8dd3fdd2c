"""The parts of files that are compared with one another: whole files, or the hunks that a diff shows of them."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.change import FileChange
from flywheel.arbiter.evaluation.changed_lines import Line, LineChanges, lines_of
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
        sides = [(hunk.before, hunk.after) for hunk in file.hunks] or [(file.before, file.after)]
        return [Piece(None, *(None if text is None else tree_of_lines(text) for text in side)) for side in sides]
    if not file.hunks:
        return [_code(Side(file.before, changes.removed), Side(file.after, changes.added), language, path=file.path)]
    return [
        _code(
            Side(hunk.before, changes.removed, hunk.before_start),
            Side(hunk.after, changes.added, hunk.after_start),
            language,
            path=file.path,
            fragment=True,
        )
        for hunk in file.hunks
    ]


class Side(Struct, frozen=True):
    """One side of a part, the lines of its file that only this side has, and the number of its first line."""

    text: str | None
    changed: tuple[Line, ...]
    first: int = 1

    def parsed(self, language: Language, *, path: str, fragment: bool) -> "tuple[tree_sitter.Tree | None, Facts]":
        """Its tree, and its facts."""
        if self.text is None:
            return None, Facts()
        rows = range(self.first, self.first + len(lines_of(self.text)))
        changed = {line.number - self.first: line.text for line in self.changed if line.number in rows}
        tree = parsed(self.text, language, fragment=fragment)
        return tree, facts_of(tree, changed, path=path)


def _code(before: Side, after: Side, language: Language, *, path: str, fragment: bool = False) -> Piece:
    old, old_facts = before.parsed(language, path=path, fragment=fragment)
    new, new_facts = after.parsed(language, path=path, fragment=fragment)
    new_errors = max(0, _errors(new) - _errors(old))
    return Piece(
        language,
        tree_of_code(old) if old else None,
        tree_of_code(new) if new else None,
        old_facts=old_facts,
        new_facts=new_facts,
        new_errors=new_errors,
        broken=new_errors > 0 and not fragment and language.name not in PREPROCESSED,
    )


def _errors(tree: "tree_sitter.Tree | None") -> int:
    return 0 if tree is None else errors_in(tree)
