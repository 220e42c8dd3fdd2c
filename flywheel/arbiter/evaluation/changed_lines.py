"""Which lines a change really adds and removes: by a longest common subsequence, whatever a diff claims.

Lines end at line feeds alone, as in git; what ends a line is part of it, so that other line ends are other lines.
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, FileChange

MOST_CELLS = 400_000_000
"""Lines that differ before × after above which nothing between them is searched for: 20,000 × 20,000 take 50 MB."""


class Line(Struct, frozen=True):
    """A line with its end, and its number in the file, from 1."""

    number: int
    text: str


class LineChanges(Struct, frozen=True, kw_only=True):
    """The lines of one file that only one of its sides has."""

    path: str
    added: tuple[Line, ...]
    removed: tuple[Line, ...]

    @property
    def count(self) -> int:
        """How many lines changed: a line that was replaced by another counts for both."""
        return len(self.added) + len(self.removed)


def changes_of(change: Change) -> tuple[LineChanges, ...]:
    """The changed lines of every file, in the change's order."""
    return tuple(file_changes(file) for file in change.files)


def file_changes(file: FileChange) -> LineChanges:
    """The changed lines of one file; of a binary one there are none."""
    parts = [(hunk.before, hunk.after, hunk.before_start, hunk.after_start) for hunk in file.hunks]
    added: list[Line] = []
    removed: list[Line] = []
    for before, after, before_start, after_start in parts or [(file.before or "", file.after or "", 1, 1)]:
        old, new = lines_of(before), lines_of(after)
        common = common_items(old, new)
        kept_old, kept_new = {one for one, _ in common}, {other for _, other in common}
        removed += [Line(before_start + at, line) for at, line in enumerate(old) if at not in kept_old]
        added += [Line(after_start + at, line) for at, line in enumerate(new) if at not in kept_new]
    return LineChanges(path=file.path, added=tuple(added), removed=tuple(removed))


def lines_of(text: str) -> list[str]:
    """The lines with their ends."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def common_items(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """A longest common subsequence, as pairs of positions in order.

    What both begin and end with is taken first. Where what is left is too much to be compared
    (``MOST_CELLS``), it has nothing in common.
    """
    low = 0
    shorter = min(len(one), len(other))
    while low < shorter and one[low] == other[low]:
        low += 1
    high = 0
    while high < shorter - low and one[-1 - high] == other[-1 - high]:
        high += 1
    start = [(at, at) for at in range(low)]
    end = [(len(one) - at, len(other) - at) for at in range(high, 0, -1)]
    middle = _longest(one[low : len(one) - high], other[low : len(other) - high])
    return [*start, *((low + left, low + right) for left, right in middle), *end]


def _longest(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """A longest common subsequence by bit-parallel dynamic programming (Hyyrö 2004): a word of bits per row."""
    if not one or not other or len(one) * len(other) > MOST_CELLS:
        return []
    places: dict[Hashable, int] = {}
    for at, item in enumerate(other):
        places[item] = places.get(item, 0) | 1 << at
    full = (1 << len(other)) - 1
    row, rows = full, []
    for item in one:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & full
        rows.append(row)
    return _traced(one, other, rows)


def _traced(one: Sequence[Hashable], other: Sequence[Hashable], rows: list[int]) -> list[tuple[int, int]]:
    """The subsequence from its rows, where a zero bit says that the length grows at this place."""
    pairs = []
    left, right = len(one) - 1, len(other) - 1
    while left >= 0 and right >= 0:
        if rows[left] >> right & 1:
            right -= 1
        elif left and not rows[left - 1] >> right & 1:
            left -= 1
        else:
            pairs.append((left, right))
            left, right = left - 1, right - 1
    return pairs[::-1]
