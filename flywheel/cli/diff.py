"""``flywheel diff``: how small a change of code is, and what of it lowers its reward."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.groups import Group
from flywheel.cli.output import print_json, print_mapping, print_table

if TYPE_CHECKING:
    from flywheel.arbiter.evaluation.change import Change
    from flywheel.arbiter.evaluation.minimal_diff.scoring import FileReport, MinimalDiff


@click.group(cls=Group)
def diff() -> None:
    """Judge changes of code. Needs no running services.

    \b
    Examples:
      flywheel diff score --before old/ --after new/
      git diff | flywheel diff score --patch - --before .
    """


@diff.command("score")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="File or folder as it was.")
@click.option("--after", type=click.Path(exists=True, path_type=Path), help="File or folder as it is now.")
@click.option("--patch", metavar="FILE", help="Unified diff instead of --after; - is stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def score_diff(*, before: Path | None, after: Path | None, patch: str | None, as_json: bool) -> None:
    """Score how small a change is: 0.1–1, the multiplier of the turn reward, and what lowered it.

    The change is between two files, between two folders, or what a patch does to the folder --before. Of a patch alone
    no more is known than its hunks show; it is scored by these, and says so. Caches and histories of versions are left
    out of folders.

    \b
    Examples:
      flywheel diff score --before basket.py --after mended.py
      flywheel diff score --before old/ --after new/ --json
      flywheel diff score --patch fix.patch --before checkout/
      git diff | flywheel diff score --patch -
    """
    from flywheel.arbiter.evaluation.minimal_diff.scoring import score

    if (after is None) == (patch is None) or (after is not None and before is None):
        raise click.UsageError("give --before and --after, or --patch with or without --before")
    change = read_patch(patch, before) if patch is not None else compared(before, after)
    found = score(change)
    if as_json:
        print_json(found)
    else:
        show(found)


def read_patch(patch: str, folder: Path | None) -> "Change":
    """The change of a file with a unified diff, or of standard input."""
    from flywheel.arbiter.evaluation.patches import change_of_patch
    from flywheel.errors import InputError

    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder} is no folder; name the one that {patch} was made from")
    name = "standard input" if patch == "-" else patch
    content = sys.stdin.buffer.read() if patch == "-" else Path(patch).read_bytes()
    return change_of_patch(content.decode("utf-8", "replace"), name=name, folder=folder)


def compared(before: Path | None, after: Path | None) -> "Change":
    """The change between two files or two folders."""
    from flywheel.arbiter.evaluation.change import change_of_contents
    from flywheel.arbiter.evaluation.folders import change_of_folders
    from flywheel.errors import InputError

    assert before is not None
    assert after is not None
    if before.is_dir() != after.is_dir():
        raise InputError(f"{before} and {after} are a file and a folder; name two files or two folders")
    if before.is_dir():
        return change_of_folders(before, after)
    return change_of_contents(after.name, before=before.read_bytes(), after=after.read_bytes())


def show(found: "MinimalDiff") -> None:
    """The multiplier, what lowered it, and the files."""
    metrics = found.metrics
    lines = f"+{found.added_lines:,} −{found.removed_lines:,}, {metrics.line_change_ratio:.1%} of those there were"
    print_mapping(
        {
            "multiplier": metrics.reward_multiplier,
            "similarity": metrics.ast_similarity,
            "line score": found.line_score,
            "scaffolding": metrics.scaffolding_penalty,
            "files": metrics.file_touch_count,
            "lines": lines,
        }
    )
    if found.partial:
        click.echo("\nNo more than the hunks of a patch is known: similarity and lines before are of these.")
    if found.losses:
        click.echo("\nwhat lowered it")
        print_table(("by", "why"), [(loss.by, loss.reason) for loss in found.losses])
    if found.renames:
        click.echo("\nrenamed, each counted once")
        print_table(("from", "to", "places"), [(one.old, one.new, one.places) for one in found.renames])
    if found.files:
        click.echo("\nfiles")
        columns = ("file", "similarity", "compared by", "moved", "added", "removed", "")
        print_table(columns, [row_of(file) for file in found.files])


def row_of(file: "FileReport") -> tuple[object, ...]:
    """A file's row: how it was compared, and what is to be known of it."""
    compared_by = file.compared if file.compared in {"lines", "binary"} else f"{file.compared} tree"
    remarks = [f"was {file.old_path}"] if file.old_path else []
    if file.new_syntax_errors:
        remarks.append(f"{file.new_syntax_errors:,} new syntax errors")
    moved = f"{file.moved / file.leaves:.1%}" if file.leaves else "-"
    similarity = "-" if file.similarity is None else f"{file.similarity:.3f}"
    return file.path, similarity, compared_by, moved, file.added_lines, file.removed_lines, "; ".join(remarks)
