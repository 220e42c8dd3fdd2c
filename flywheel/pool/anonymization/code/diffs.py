"""Code in unified diffs and in the patches that agents write: each hunk's old and new side is a fragment."""

import re

import msgspec
from msgspec import Struct

from flywheel.languages import Language, language_of_path
from flywheel.pool.anonymization.code.pieces import Fragment, Piece

HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?([^\r\n]*)")
LOOSE_HUNK = re.compile(rb"@@(?:[^@\r\n]*@@)?[^\r\n]*\r?\n?\Z")
PATCHED_FILE = re.compile(rb"\*\*\* (?:Update|Add|Delete) File: (.+)")
HEADER = re.compile(
    rb"(?m)^(?:diff --git |--- [^\n]+\n\+\+\+ |\*\*\* (?:Update|Add|Delete) File: |@@ -\d+(?:,\d+)? \+\d)"
)
START = re.compile(rb"\s*(?:diff --git |Index: |--- [^\n]+\n\+\+\+ |\*\*\* Begin Patch|@@ -\d+(?:,\d+)? \+\d)")


def looks_like_diff(data: bytes, *, strict: bool = False) -> bool:
    """Whether the text has a diff; with ``strict``, whether it begins as one."""
    return (START.match(data) if strict else HEADER.search(data)) is not None


class Sides(Struct):
    """The pieces of one hunk's two sides so far, and how many lines of each are to come; None: nobody said."""

    language: Language | None
    old: list[Piece] = msgspec.field(default_factory=list)
    new: list[Piece] = msgspec.field(default_factory=list)
    old_left: int | None = None
    new_left: int | None = None
    removes: bool = False
    adds: bool = False

    def fragments(self) -> list[Fragment]:
        """Both sides; one where they are the same."""
        if self.language is None:
            return []
        sides = [self.old] if self.removes or not self.adds else []
        sides += [self.new] if self.adds else []
        return [Fragment(self.language, side) for side in sides if side]

    @property
    def is_full(self) -> bool:
        """Whether all lines that the hunk's head promised have come."""
        return self.old_left is not None and self.old_left <= 0 and (self.new_left or 0) <= 0

    def add(self, mark: bytes, piece: Piece) -> None:
        """One more line."""
        if mark != b"+":
            self.old.append(piece)
            self.old_left = None if self.old_left is None else self.old_left - 1
        if mark != b"-":
            self.new.append(piece)
            self.new_left = None if self.new_left is None else self.new_left - 1
        self.removes = self.removes or mark == b"-"
        self.adds = self.adds or mark == b"+"


def diff_fragments(data: bytes, lines: list[Piece], language: Language | None) -> list[Fragment]:
    """The code of a diff's hunks; ``language`` where no file's name says another."""
    fragments: list[Fragment] = []
    sides: Sides | None = None
    for number, (start, end) in enumerate(lines):
        line = data[start:end]
        mark = line[:1]
        if sides is not None and not sides.is_full and is_body(data, lines, number, sides):
            if mark != b"\\":
                sides.add(mark, (start + (mark not in b"\r\n"), end))
            continue
        fragments += sides.fragments() if sides else []
        sides = None
        head = HUNK.match(line)
        if head or LOOSE_HUNK.match(line):
            counts = [int(count or 1) for count in head.groups()[:2]] if head else [None, None]
            sides = Sides(language, old_left=counts[0], new_left=counts[1])
            if head and head[3].strip() and language:
                fragments.append(Fragment(language, [(start + head.start(3), start + head.end(3))]))
            continue
        path = path_of(line)
        if path is not None:
            language = language_of_path(path) or (None if path != "/dev/null" else language)
            sides = Sides(language) if line.startswith(b"*** ") else None
    return fragments + (sides.fragments() if sides else [])


def is_body(data: bytes, lines: list[Piece], number: int, sides: Sides) -> bool:
    """Whether a line belongs to the hunk: by its mark, and where nobody counted, if no head begins here."""
    start, _ = lines[number]
    mark = data[start : start + 1]
    if mark not in {b" ", b"+", b"-", b"\\", b"\n", b"\r"}:
        return False
    if sides.old_left is not None or mark != b"-" or not data.startswith(b"--- ", start):
        return True
    return not (number + 1 < len(lines) and data.startswith(b"+++ ", lines[number + 1][0]))


def path_of(line: bytes) -> str | None:
    """The file that a head names; None where the line is no head."""
    patched = PATCHED_FILE.match(line)
    if patched:
        return patched[1].decode("utf-8", "replace").strip()
    if line.startswith((b"--- ", b"+++ ")):
        return line[4:].decode("utf-8", "replace").split("\t")[0].strip()
    if line.startswith(b"diff --git "):
        return line.decode("utf-8", "replace").split(" ")[-1].strip()
    return None
