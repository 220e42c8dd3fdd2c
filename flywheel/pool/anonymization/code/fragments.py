"""Where a text has code: fenced blocks, unified diffs, numbered lines of a file, and texts that are code as a whole."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

import msgspec
from msgspec import Struct

from flywheel.languages import BY_NAME, Language, LanguageName, language_of_fence, parser
from flywheel.languages import language_of_path as by_path
from flywheel.pool.anonymization.code.diffs import diff_fragments, looks_like_diff
from flywheel.pool.anonymization.code.pieces import Fragment, Piece, lines_of

FENCE = re.compile(rb"[ \t>]*(?:[-*+]|\d+[.)])?[ \t]*(`{3,}|~{3,})[ \t]*([^`\r\n]*)\r?\n?\Z")
NUMBERED = re.compile(rb"[ \t]*\d+(?:\t|\xe2\x86\x92|[ \t]?\|[ \t]?|:[ \t])")
COMMENTED = re.compile(rb"[ \t]*(?://|/\*|\*|#(?![!\[ ]?\s*(?:\[|include|define|ifndef|ifdef|pragma|if\b)))")
CPP_ONLY = re.compile(
    rb"\bstd::|\bclass \w|\btemplate ?<|\bnamespace\b|#include <(?:iostream|string|vector|map|memory)>"
)
SNIFFED: tuple[tuple[LanguageName, re.Pattern[bytes]], ...] = (
    ("go", re.compile(rb"package \w+\s*\Z")),
    (
        "java",
        re.compile(
            rb"package [\w.]+;|import (?:static )?[\w.*]+;"
            rb"|(?:(?:public|abstract|final|sealed) )+(?:class|interface|enum|record) \w"
        ),
    ),
    (
        "rust",
        re.compile(rb"use [\w:{}*, ]+;|pub (?:\(|fn|struct|enum|mod|use|trait|const)|fn \w+|mod \w+;|#!?\[|impl[ <]"),
    ),
    ("cpp", re.compile(rb"#\s*(?:include|define|ifndef|ifdef|pragma)\b")),
    (
        "python",
        re.compile(
            rb"(?:async )?def \w+\(|class \w+[(:]|import \w[\w.]*|from [\w.]+ import |@\w[\w.]*|#!.*python"
            rb"|if __name__|\"\"\""
        ),
    ),
    (
        "typescript",
        re.compile(
            rb"import .*['\"]|export |(?:const|let|var) [\w{\[]|(?:async )?function\b|interface \w|type \w+ ="
            rb"|class \w+|['\"]use strict"
        ),
    ),
)


class Found(Struct):
    """What was found in a text: its fragments, fences without a known language, and the bytes of all of those."""

    fragments: list[Fragment] = msgspec.field(default_factory=list)
    unlabelled: list[list[Piece]] = msgspec.field(default_factory=list)
    covered: list[Piece] = msgspec.field(default_factory=list)

    def add(self, fragments: list[Fragment], start: int, end: int) -> None:
        """Fragments within these bytes."""
        self.fragments += fragments
        if fragments:
            self.covered.append((start, end))


def find_code(data: bytes, *, hint: Language | None = None, certain: bool = False) -> Found:
    """The code in a text.

    Args:
        data: the text in UTF-8.
        hint: the language that the text's surroundings name.
        certain: whether they say so of the whole text; if not, it is believed where the text parses.
    """
    found = Found()
    if looks_like_diff(data, strict=True):
        found.add(diff_fragments(data, lines_of(data, 0, len(data)), hint), 0, len(data))
        return found
    blocks = list(fenced_blocks(data))
    if blocks:
        position = 0
        for tag, start, end, after in blocks:
            outside(data, position, start, found)
            in_fence(data, tag, start, end, found)
            position = after
        outside(data, position, len(data), found)
        return found
    numbered = numbered_pieces(data) if hint else []
    if hint and numbered:
        found.add([Fragment(hint, numbered)], numbered[0][0], numbered[-1][1])
    elif hint and (certain or parses(data, hint)):
        found.add([Fragment(hint, [(0, len(data))])], 0, len(data))
    else:
        outside(data, 0, len(data), found)
        language = None if found.fragments else sniffed(data)
        if language:
            found.add([Fragment(language, [(0, len(data))])], 0, len(data))
    return found


def outside(data: bytes, start: int, end: int, found: Found) -> None:
    """Diffs that stand in prose."""
    if looks_like_diff(data[start:end]):
        lines = lines_of(data, start, end)
        fragments = diff_fragments(data, lines, None)
        found.fragments += fragments
        found.covered += [piece for fragment in fragments for piece in fragment.pieces]


def in_fence(data: bytes, tag: str, start: int, end: int, found: Found) -> None:
    """What a fence holds."""
    language = language_of_tag(tag)
    if looks_like_diff(data[start:end]) or tag in {"diff", "patch", "udiff"}:
        found.add(diff_fragments(data, lines_of(data, start, end), language), start, end)
        found.covered.append((start, end))
        return
    if language is None and not tag.strip():
        language = sniffed(data[start:end])
        if language is None and end > start:
            found.unlabelled.append([(start, end)])
    found.covered.append((start, end))
    if language is not None:
        found.fragments.append(Fragment(language, numbered_pieces(data, start, end) or [(start, end)]))


def language_of_tag(tag: str) -> Language | None:
    """The language behind the backticks: ``python``, ``ts title="cart.ts"``, ``{.rust}``, ``12:40:src/cart.go``."""
    for word in re.split(r"[\s,{}=;]+", tag):
        language = language_of_fence(word.lstrip(".")) or language_of_fence(word.partition(":")[0]) or by_path(word)
        if language is not None:
            return language
    return None


def fenced_blocks(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Tag, start and end of every fenced block's content, and where the text goes on; one that is cut off counts."""
    if b"```" not in data and b"~~~" not in data:
        return
    opening: tuple[bytes, str, int] | None = None
    for start, end in lines_of(data, 0, len(data)):
        match = FENCE.match(data, start, end) if data[start:end].strip(b" \t>-*+.)0123456789")[:1] in b"`~" else None
        if match is None:
            continue
        if opening is None:
            opening = (match[1], match[2].decode("utf-8", "replace").strip(), end)
        elif match[1].startswith(opening[0]) and not match[2].strip():
            yield opening[1], opening[2], start, end
            opening = None
    if opening is not None:
        yield opening[1], opening[2], len(data), len(data)


def numbered_pieces(data: bytes, start: int = 0, end: int | None = None) -> list[Piece]:
    """The lines of a file shown with their numbers, without those; empty where fewer than two in a row have one."""
    pieces: list[Piece] = []
    in_a_row = longest = 0
    for first, last in lines_of(data, start, len(data) if end is None else end):
        match = NUMBERED.match(data, first, last)
        bare = data[first:last].strip()
        if match is None and not bare.isdigit():
            in_a_row = 0
            continue
        in_a_row += 1
        longest = max(longest, in_a_row)
        pieces.append((match.end() if match else last - 1, last))
    return pieces if longest >= 2 else []


def sniffed(data: bytes) -> Language | None:
    """The language of a text that is code as a whole by its first line, and parses."""
    line = next((data[s:e] for s, e in lines_of(data, 0, min(len(data), 4096)) if is_code_line(data[s:e])), b"")
    for name, pattern in SNIFFED:
        if not pattern.match(line):
            continue
        names: tuple[LanguageName, ...] = (name,)
        if name == "cpp" and not CPP_ONLY.search(data):
            names = ("c", "cpp")
        elif name == "typescript":
            names = ("typescript", "tsx")
        for candidate in names:
            if parses(data, BY_NAME[candidate]):
                return BY_NAME[candidate]
    return None


def is_code_line(line: bytes) -> bool:
    """Whether the line is neither blank nor a comment."""
    return bool(line.strip()) and not COMMENTED.match(line)


def parses(data: bytes, language: Language) -> bool:
    """Whether the text is the language's without an error."""
    root = parser(language.name).parse(data).root_node
    return not root.has_error and root.named_child_count > 0


class Offsets:
    """From a fragment's bytes back to its text's."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._ends = list(accumulate(end - start for start, end in pieces))

    def within_text(self, start: int, end: int) -> Piece | None:
        """The same bytes in the text; None where they are not in one piece."""
        number = bisect_right(self._ends, start)
        if number == len(self._ends) or end > self._ends[number]:
            return None
        first, last = self._pieces[number]
        shift = first - (self._ends[number] - (last - first))
        return start + shift, end + shift
