"""How small a change of code is: the multiplier of the turn reward, and what lowered it (SPEC section 8)."""

from collections.abc import Sequence

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.changed_lines import LineChanges, file_changes, lines_of
from flywheel.arbiter.evaluation.minimal_diff.formulas import base_score, line_score, multiplier
from flywheel.arbiter.evaluation.minimal_diff.matching import Matching, kept_weight
from flywheel.arbiter.evaluation.minimal_diff.pieces import Piece, pieces_of
from flywheel.arbiter.evaluation.minimal_diff.renames import Rename, rename
from flywheel.arbiter.evaluation.minimal_diff.scaffolding import Scaffold, added_of, scaffolds
from flywheel.arbiter.evaluation.minimal_diff.trees import Identities
from flywheel.records import MinimalDiffMetrics

MOVED_PART = 0.8
"""What a leaf that moved unchanged counts of one that stayed."""


class FileReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """One file of a change.

    Attributes:
        compared: how similarity was computed: the language whose syntax tree it is of, ``lines`` where no grammar reads
            the file or it is too large, ``binary`` where it is no text and counts as a touched file alone.
        similarity: 0–1; None for a binary file.
        kept, moved, leaves: weight of the leaves that stayed, of those that moved unchanged, and of all, both sides
            together.
        new_syntax_errors: places that cannot be read any more. A whole file that has some is like nothing before.
    """

    path: str
    old_path: str | None
    compared: str
    similarity: float | None
    kept: float
    moved: float
    leaves: int
    added_lines: int
    removed_lines: int
    new_syntax_errors: int = 0


class Loss(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that lowered the multiplier, by how much, and why."""

    by: float
    reason: str


class MinimalDiff(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a change comes to: the metrics that are logged, and how they came about.

    ``partial``: of some files only a diff's hunks are known; similarity and ratio are of these.
    """

    metrics: MinimalDiffMetrics
    base: float
    line_score: float
    added_lines: int
    removed_lines: int
    scaffolding: tuple[Scaffold, ...]
    renames: tuple[Rename, ...]
    files: tuple[FileReport, ...]
    losses: tuple[Loss, ...]
    partial: bool


def score(change: Change) -> MinimalDiff:
    """Score a change; one of nothing has a multiplier of 1.

    - Similarity: 2 · matched leaves / all leaves of both sides, over all files; a moved leaf counts ``MOVED_PART``, a
      consistent rename costs one leaf however often the name stands. Where nothing has leaves, 1.
    - Line change ratio: changed lines / lines before in the touched files, at least 1 of them.
    - Scaffolding: see ``scaffolding``.
    """
    lines = [file_changes(file) for file in change.files]
    pieces = [pieces_of(file, changes) for file, changes in zip(change.files, lines, strict=True)]
    renames = _matched([piece for of_file in pieces for piece in of_file])
    files = tuple(map(_file_report, change.files, lines, pieces))
    leaves = sum(file.leaves for file in files)
    kept = sum(file.kept + MOVED_PART * file.moved for file in files) - 2 * len(renames)
    similarity = min(1.0, max(0.0, kept / leaves)) if leaves else 1.0
    code = [piece for of_file in pieces for piece in of_file if piece.language is not None]
    found = scaffolds(added_of((piece.old_facts, piece.new_facts) for piece in code))
    return _report(change, similarity=similarity, files=files, renames=renames, found=found)


def _matched(pieces: Sequence[Piece]) -> tuple[Rename, ...]:
    """Match all trees with one another; twice where names were renamed, the second time under the new ones."""
    whole = [piece for piece in pieces if not piece.broken]
    before = [piece.before for piece in pieces if piece.before is not None]
    after = [piece.after for piece in whole if piece.after is not None]
    roots = [(piece.before, piece.after) for piece in whole if piece.before is not None and piece.after is not None]
    identities = Identities()
    for tree in (*before, *after):
        identities.number(tree)
    matching = Matching(before, after)
    matching.run(roots)
    renames = rename(matching.updates)
    if renames:
        for tree in (*before, *after):
            tree.forget_all()
        for tree in before:
            identities.number(tree)
        Matching(before, after).run(roots)
    return renames


def _file_report(file: FileChange, lines: LineChanges, pieces: Sequence[Piece]) -> FileReport:
    trees = [tree for piece in pieces for tree in (piece.before, piece.after) if tree is not None]
    leaves = sum(tree.weight for tree in trees)
    kept = sum(kept_weight(tree, moved_part=0.0) for tree in trees)
    moved = sum(kept_weight(tree, moved_part=1.0) for tree in trees) - kept
    similarity = (kept + MOVED_PART * moved) / leaves if leaves else 1.0
    language = pieces[0].language if pieces else None
    return FileReport(
        path=file.path,
        old_path=file.old_path,
        compared="binary" if file.binary else language.name if language else "lines",
        similarity=None if file.binary else similarity,
        kept=kept,
        moved=moved,
        leaves=leaves,
        added_lines=len(lines.added),
        removed_lines=len(lines.removed),
        new_syntax_errors=sum(piece.new_errors for piece in pieces),
    )


def _report(
    change: Change,
    *,
    similarity: float,
    files: tuple[FileReport, ...],
    renames: tuple[Rename, ...],
    found: tuple[Scaffold, ...],
) -> MinimalDiff:
    added, removed = sum(file.added_lines for file in files), sum(file.removed_lines for file in files)
    by_lines = line_score(added + removed)
    penalty = min(1.0, sum(one.penalty for one in found))
    base = base_score(similarity=similarity, lines=by_lines)
    reward_multiplier = multiplier(base=base, scaffolding_penalty=penalty)
    before = sum(len(lines_of(file.before or "")) for file in change.files)
    losses = [
        Loss(by=0.7 * (1 - similarity), reason=f"similarity {similarity:.3f}: {_of_leaves(files)}"),
        Loss(by=0.3 * (1 - by_lines), reason=f"line score {by_lines:.3f}: {added:,} lines added, {removed:,} removed"),
        Loss(by=base - reward_multiplier, reason="scaffolding: " + "; ".join(one.reason for one in found)),
    ]
    return MinimalDiff(
        metrics=MinimalDiffMetrics(
            ast_similarity=similarity,
            file_touch_count=len(files),
            line_change_ratio=(added + removed) / max(1, before),
            scaffolding_penalty=penalty,
            reward_multiplier=reward_multiplier,
        ),
        base=base,
        line_score=by_lines,
        added_lines=added,
        removed_lines=removed,
        scaffolding=found,
        renames=renames,
        files=files,
        losses=tuple(sorted((loss for loss in losses if loss.by > 0), key=lambda loss: -loss.by)),
        partial=change.is_partial,
    )


def _of_leaves(files: Sequence[FileReport]) -> str:
    leaves, moved = sum(file.leaves for file in files), sum(file.moved for file in files)
    left = leaves - moved - sum(file.kept for file in files)
    return f"{left:,.0f} of {leaves:,} leaves of both sides are new or gone, {moved:,.0f} moved"
