"""Two folders as a change: which files differ, and which of them were renamed."""

import os
from collections import Counter
from pathlib import Path

from flywheel.arbiter.evaluation.change import Change, file_of_contents, text_of
from flywheel.arbiter.evaluation.changed_lines import lines_of
from flywheel.errors import InputError

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
    | {".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"}
)
"""Folders that are no part of a workspace: histories of versions, caches, installed packages."""
RENAMED = 0.5
"""Share of lines that two files have in common from which one is the other under a new name: git's default."""
MOST_PAIRS = 10_000


def change_of_folders(before: Path, after: Path) -> Change:
    """The files that differ between two folders. Links are not followed: what differs is where they lead.

    A file that is gone and one that is new are one renamed file where at least half of their lines are the same.

    Raises:
        InputError: one of them is no folder.
    """
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; name the two folders to be compared")
    old, new = _contents(before), _contents(after)
    gone = {path: content for path, content in old.items() if path not in new}
    come = {path: content for path, content in new.items() if path not in old}
    renamed = _renames(gone, come)
    changed: dict[str, tuple[str, bytes | None, bytes | None]]
    changed = {path: (path, old[path], new[path]) for path in old.keys() & new.keys() if old[path] != new[path]}
    changed |= {path: (source, old[source], come[path]) for path, source in renamed.items()}
    changed |= {path: (path, old[path], None) for path in gone.keys() - set(renamed.values())}
    changed |= {path: (path, None, new[path]) for path in come.keys() - renamed.keys()}
    return Change(
        files=tuple(
            file_of_contents(path, before=was, after=now, old_path=source if source != path else None)
            for path, (source, was, now) in sorted(changed.items())
        )
    )


def _contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = [name for name in folders if name not in LEFT_OUT and name not in links]
        for name in (*files, *links):
            path = Path(place, name)
            if path.is_symlink():
                found[path.relative_to(folder).as_posix()] = os.fsencode(path.readlink())
            elif path.is_file():
                found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _renames(gone: dict[str, bytes], come: dict[str, bytes]) -> dict[str, str]:
    """The old path of each renamed file, by its new one: the most alike first, by name where they are equally so."""
    by_content = {content: path for path, content in sorted(gone.items(), reverse=True) if content}
    found = {}
    for path, content in sorted(come.items()):
        source = by_content.pop(content, None)
        if source is not None:
            found[path] = source
    left = {path: _lines(gone[path]) for path in gone.keys() - set(found.values())}
    new = {path: _lines(come[path]) for path in come.keys() - found.keys()}
    if len(left) * len(new) > MOST_PAIRS:
        return found
    pairs = sorted((-_alike(left[one], new[other]), other, one) for one in left for other in new)
    for score, path, source in pairs:
        if -score >= RENAMED and path not in found and source not in found.values():
            found[path] = source
    return found


def _lines(content: bytes) -> Counter[str]:
    return Counter(lines_of(text_of(content) or ""))


def _alike(one: Counter[str], other: Counter[str]) -> float:
    """Dice's coefficient of two files' lines, 0–1; nothing is like an empty file."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if one and other else 0.0
