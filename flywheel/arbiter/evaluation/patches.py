"""Unified diffs as changes: with the folder that they were made from as whole files, without it as what they show.

Git's forms are read (new, deleted, renamed and binary files, quoted names, no line feed at the end), plain ones of
``diff -u``, and those of which a mail or a Windows editor changed all line ends. The reading is ``unidiff``'s.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from flywheel.arbiter.evaluation.change import Change, FileChange, Hunk, text_of
from flywheel.arbiter.evaluation.changed_lines import lines_of
from flywheel.errors import InputError

if TYPE_CHECKING:
    from unidiff.patch import Hunk as PatchHunk
    from unidiff.patch import PatchedFile, PatchSet

NOWHERE = "/dev/null"
PREFIX = re.compile(r"[abciow12]/")  # git's, also those of diff.mnemonicPrefix and --no-index
QUOTED = re.compile(r"\\([0-7]{3}|.)")
ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


def change_of_patch(text: str, *, name: str = "the patch", folder: Path | None = None) -> Change:
    """The change that a unified diff describes.

    With ``folder``, where the files before lie, they are read and the diff is applied to them in memory: hunks may
    have moved up or down, but every line of theirs must be there. Without it, of files that exist before and after
    only the hunks are known, and ``Change.is_partial`` says so.

    Raises:
        InputError: it is no diff, names a file outside of the folder, or does not fit the folder's files.
    """
    files = _parsed(text, name)
    found: dict[str, FileChange] = {}
    for patched in files:
        one = _whole(patched, name, folder) if folder is not None else _shown(patched, name)
        if one is None:
            continue
        if one.path in found:
            raise InputError(f"{name} changes {one.path} twice; make one diff of both")
        found[one.path] = one
    return Change(files=tuple(found[path] for path in sorted(found)))


def _parsed(text: str, name: str) -> "PatchSet":
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    head = next((line for line in lines_of(text) if line.startswith(("diff --git ", "--- "))), "")
    if head.endswith("\r\n"):
        text = text.replace("\r\n", "\n")
    try:
        files = PatchSet(text if text.endswith("\n") else text + "\n")
    except UnidiffParseError as error:
        raise InputError(f"{name} is no unified diff: {error}; write it with git diff") from error
    if not files and text.strip():
        raise InputError(f"{name} changes no file: it is no unified diff; write it with git diff")
    return files


def _names(patched: "PatchedFile", name: str) -> tuple[str | None, str | None]:
    """The file's path before and after; None: there is none then."""
    named = [_unquoted(one) for one in (patched.source_file, patched.target_file)]
    real = [one for one in named if one != NOWHERE]
    strip = all(PREFIX.match(one) for one in real)
    for at, one in enumerate(named):
        named[at] = one[2:] if strip and one != NOWHERE else one
        path = PurePosixPath(named[at])
        if one != NOWHERE and (path.is_absolute() or ".." in path.parts or not path.parts):
            raise InputError(f"{name} names {one}, which is outside of the workspace; leave it out")
    before, after = (None if one == NOWHERE else one for one in named)
    if before is None and after is None:
        raise InputError(f"{name} has a change from {NOWHERE} to {NOWHERE}; leave it out")
    return before, after


def _unquoted(path: str) -> str:
    """The path without the quotes and escapes that git writes around letters beyond ASCII."""
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path

    def byte(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape, 8) & 255 if len(escape) == 3 else ESCAPES.get(escape, ord(escape)))

    return QUOTED.sub(byte, path[1:-1]).encode("latin-1", "replace").decode("utf-8", "replace")


def _shown(patched: "PatchedFile", name: str) -> FileChange | None:
    """What the diff alone shows; None where it changes nothing but the file's mode."""
    before, after = _names(patched, name)
    if not _is_gits(patched):  # which alone says of an empty file whether it is one
        before = None if patched.is_added_file else before
        after = None if patched.is_removed_file else after
    hunks = tuple(_hunk(one) for one in patched)
    if before == after and not hunks and not patched.is_binary_file:
        return None
    old, new = "".join(hunk.before for hunk in hunks), "".join(hunk.after for hunk in hunks)
    return FileChange(
        path=after or before or "",
        before=None if before is None else old,
        after=None if after is None else new,
        old_path=before if before and after and before != after else None,
        hunks=hunks if before and after else (),
        binary=patched.is_binary_file,
    )


def _is_gits(patched: "PatchedFile") -> bool:
    return any(line.startswith("diff --git ") for line in patched.patch_info or ())


def _hunk(one: "PatchHunk") -> Hunk:
    sides = {"before": "", "after": ""}
    last: tuple[str, ...] = ()
    for line in one:
        if line.line_type == "\\":
            for side in last:
                sides[side] = sides[side].removesuffix("\n")
            continue
        last = {"-": ("before",), "+": ("after",)}.get(line.line_type, ("before", "after"))
        for side in last:
            sides[side] += line.value
    return Hunk(**sides, before_start=one.source_start, after_start=one.target_start)


def _whole(patched: "PatchedFile", name: str, folder: Path) -> FileChange | None:
    """The file of the folder, and what the diff makes of it."""
    before, after = _names(patched, name)
    if before == after and before is not None and patched.is_added_file and not (folder / before).exists():
        before = None  # a diff that names the new file on both sides
    content = None if before is None else _read(folder, before, name)
    if before is None and after is not None and (folder / after).exists():
        raise InputError(f"{name} adds {after}, which is in {folder} already; name the folder it was made from")
    path = after or before or ""
    old_path = before if before and after and before != after else None
    old = None if content is None else text_of(content)
    if patched.is_binary_file or (content is not None and old is None):
        known = [None if one is None else "" for one in (before, after)]
        return FileChange(path=path, before=known[0], after=known[1], old_path=old_path, binary=True)
    new = None if after is None else _applied(old or "", patched, f"{name} does not fit {folder / path}")
    if new == old and old_path is None:
        return None
    return FileChange(path=path, before=old, after=new, old_path=old_path)


def _read(folder: Path, path: str, name: str) -> bytes:
    """A file's bytes; of a link where it leads, as in git: no link is followed."""
    target = folder / path
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name} changes {path}, which leads out of {folder}; leave it out")
    if target.is_symlink():
        return os.fsencode(target.readlink())
    if not target.is_file():
        raise InputError(f"{name} changes {path}, which is not in {folder}; name the folder it was made from")
    return target.read_bytes()


def _applied(text: str, patched: "PatchedFile", blame: str) -> str:
    """The text with all hunks applied, each at the place nearest to its own where all its old lines are."""
    lines = lines_of(text)
    done: list[str] = []
    position = shift = 0
    for one in patched:
        hunk = _hunk(one)
        old = lines_of(hunk.before)
        wanted = hunk.before_start - (1 if old else 0) + shift
        at = _place(lines, old, wanted, first=position)
        if at is None:
            raise InputError(
                f"{blame}: the lines of its hunk @@ -{one.source_start},{one.source_length} are not there; "
                "name the folder it was made from"
            )
        shift += at - wanted
        done += [*lines[position:at], hunk.after]
        position = at + len(old)
    return "".join([*done, *lines[position:]])


def _place(lines: list[str], old: list[str], wanted: int, *, first: int) -> int | None:
    last = len(lines) - len(old)
    for away in range(max(last - first, abs(wanted - first), abs(wanted - last)) + 1):
        for at in (wanted - away, wanted + away):
            if first <= at <= last and lines[at : at + len(old)] == old:
                return at
    return None
