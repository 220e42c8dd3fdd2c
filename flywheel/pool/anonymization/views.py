"""A text as it reads, and where each character of that comes from: nothing hides behind how it is written.

Escapes of JSON in strings (however often quoted), Markdown and URLs, full-width and other digits, letters of other
scripts that look like Latin ones, zero-width characters, combining marks and kinds of spaces, dashes and quotes read as
what they stand for. Detectors look at the view; what they find is replaced in the text.
"""

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import eq

from msgspec import Struct

SEPARATOR = "\n\0\n"
"""Between views that are scanned together; no pattern crosses NUL, which no view has."""
DEEPEST = 4  # JSON quoted in JSON quoted in JSON …
JSON_ENDS = {"{": "}", "[": "]", '"': '"'}
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WINDOWS = re.compile(r"[A-Za-z]:\\|\\\\\w")


def odd(escapes: str) -> re.Pattern[str]:
    """What does not read as it is written: no ASCII, percent signs of URLs, and these escapes behind a backslash.

    One class of characters comes first, and then what must have stood before: ``re`` looks for a class twice as fast
    as for alternatives.
    """
    return re.compile(rf"([^\x01-$&-\[\]-\x7f](?:(?<![%\\])|(?<=%)[2-7][0-9A-Fa-f]|(?<=\\)(?:{escapes})))")


ODD, ODD_IN_CODE, ODD_IN_JSON = (
    odd("_"),
    odd("[_nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}"),
    odd(r"u[0-9A-Fa-f]{4}|[\"\\/bfnrt]"),
)
LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһӏԛԝьАВЕКМНОРСТУХІЈЅԌαβεηικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡ",
    "aeopcyxijsdhlqwbABEKMHOPCTYXIJSGaBenikvoptuxABEZHIKMNOPTYXig",
)
"""Cyrillic and Greek letters that look like a Latin one (the letters of Unicode's confusables.txt that occur most)."""
LOOKALIKE_LETTERS = frozenset(map(chr, LOOKALIKES))
PUNCTUATION = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe58\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u2032\u02bc\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\uff02", '"'),
    **dict.fromkeys("\u2024\u3002\uff0e\uff61", "."),
    "\0": "\ufffd",
}
OPENING = re.compile(r'\{\s*"|\[\s*[{"\[]')
HEX = re.compile(r"(?:%|\\[ux])([0-9A-Fa-f]+)")
CODED = re.compile(r"\\u[0-9A-Fa-f]{4}")
LATIN = re.compile(r"[A-Za-z0-9]")
WORD = re.compile(r"[^\W_]+")


class Rewritten(Struct, frozen=True):
    """Where a text reads otherwise than it is written, piece by piece.

    ``begins`` and ``ends`` are where each piece is in what is read, ``first`` and ``last`` where it is in what is
    written. All else is a character for a character.
    """

    begins: Sequence[int]
    ends: Sequence[int]
    first: Sequence[int]
    last: Sequence[int]

    def written(self, start: int, end: int) -> tuple[int, int]:
        """Where ``[start:end]`` of what is read is written; a part of a piece is all of it."""
        return self._place(start, self.first, 0), self._place(end - 1, self.last, 1)

    def _place(self, position: int, edges: Sequence[int], beyond: int) -> int:
        piece = bisect_right(self.begins, position) - 1
        if piece < 0:
            return position + beyond
        behind = position - self.ends[piece]
        return edges[piece] if behind < 0 else self.last[piece] + behind + beyond


class View(Struct, frozen=True):
    """What a part of a text reads as, from ``offset`` on in the whole.

    ``rewritten`` says how the part is written otherwise than it reads, step by step from the last one to the first.
    ``quoted`` is how often JSON quoted it.
    """

    text: str
    offset: int = 0
    rewritten: tuple[Rewritten, ...] = ()
    quoted: int = 0

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """Where ``text[start:end]`` is in the whole."""
        for step in self.rewritten:
            start, end = step.written(start, end)
        return start + self.offset, end + self.offset


def views_of(text: str) -> list[View]:
    """The text as it reads, in as few views as there are ways to read it: JSON, or a line of it, is unquoted."""
    if text.isascii() and "%" not in text and "\\" not in text and "\0" not in text:
        return [View(text)]
    if "\\" not in text:
        return [view_of(text)]
    if is_json(text):
        return [unquoted(text)]
    views: list[View] = []
    for start, end, quoted in blocks(text):
        part = text[start:end]
        has_paths = (":\\" in part or "\\\\" in part) and WINDOWS.search(part) is not None
        written = ODD if has_paths else ODD_IN_CODE  # a path's folder may begin with n, r or t
        views.append(unquoted(part, offset=start) if quoted else view_of(part, offset=start, pattern=written))
    return views


def joined_views(texts: Sequence[str]) -> tuple[list[tuple[int, View]], str]:
    """The views of the texts, each with its text's number, and all of them as one."""
    views = [(number, view) for number, text in enumerate(texts) for view in views_of(text)]
    return views, SEPARATOR.join(view.text for _, view in views)


def blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Runs of lines that are JSON each, and runs of others: a key may span these."""
    begin = position = 0
    before: bool | None = None
    for line, quoted in pieces_of(text):
        if before is not None and quoted != before:
            yield begin, position, before
            begin = position
        before = quoted
        position += len(line)
    if before is not None:
        yield begin, position, before


def pieces_of(text: str) -> Iterator[tuple[str, bool]]:
    """Each line and whether it is JSON; one that is JSON behind a word (``data: {…}``) in two pieces."""
    for line in text.splitlines(keepends=True):
        if "\\" not in line or is_json(line):
            yield line, "\\" in line
            continue
        opening = OPENING.search(line)
        if opening is None or not is_json(line[opening.start() :]):
            yield line, False
            continue
        yield line[: opening.start()], False
        yield line[opening.start() :], True


def is_json(text: str) -> bool:
    """Whether the text looks like a JSON object, list or string, perhaps cut off at its end."""
    stripped = text.strip().rstrip(",")
    closing = JSON_ENDS.get(stripped[:1])
    if closing is None:
        return False
    return stripped.endswith(closing) or stripped[:2] in {'{"', '["', "[{"} or '\\"' in stripped


def unquoted(text: str, *, offset: int = 0) -> View:
    """JSON with its escapes resolved, as often as it is quoted."""
    view = view_of(text, offset=offset, pattern=ODD_IN_JSON, quoted=1)
    while ('\\"' in view.text or CODED.search(view.text)) and view.quoted < DEEPEST:
        inner = view_of(view.text, pattern=ODD_IN_JSON, quoted=view.quoted + 1)
        if not inner.rewritten:
            break
        view = View(inner.text, offset, inner.rewritten + view.rewritten, inner.quoted)
    return view


def view_of(text: str, *, offset: int = 0, pattern: re.Pattern[str] = ODD, quoted: int = 0) -> View:
    """The text with each match of the pattern, which is its one group, as what it reads as."""
    parts = pattern.split(text)  # what reads as it is written, and in between what does not
    written = parts[1::2]
    read = [read_as(part) for part in written]
    ends = array("I", accumulate(map(len, parts)))
    parts[1::2] = read
    seen = "".join(parts)
    if not LOOKALIKE_LETTERS.isdisjoint(read):
        seen = without_lookalikes(seen)
    if all(map(eq, map(len, written), map(len, read))):
        return View(seen, offset, quoted=quoted)
    ends_read = array("I", accumulate(map(len, parts)))
    return View(seen, offset, (Rewritten(ends_read[:-1:2], ends_read[1::2], ends[:-1:2], ends[1::2]),), quoted)


@lru_cache(maxsize=4_096)
def read_as(written: str) -> str:
    """What an escape or a character outside ASCII reads as; nothing for what cannot be seen."""
    if written[0] in "\\%":
        code = HEX.fullmatch(written)
        if code is None:
            return ESCAPES.get(written[1], written[1])
        character = chr(int(code.group(1), 16))
        return character if character.isascii() else read_as(character)
    category = unicodedata.category(written)
    if written in PUNCTUATION:
        seen = PUNCTUATION[written]
    elif category in {"Cf", "Mn", "Me"}:
        seen = ""
    elif category == "Zs":
        seen = " "
    elif category == "Nd":
        seen = str(unicodedata.digit(written))
    else:
        plain = unicodedata.normalize("NFKC", written)
        seen = plain if plain.isascii() or len(plain) == 1 else written
    return seen


def without_lookalikes(text: str) -> str:
    """The text where words that mix scripts are Latin; a word that is Cyrillic or Greek throughout stays."""
    if text.isascii() or text.translate(LOOKALIKES) == text:
        return text
    return WORD.sub(
        lambda match: match.group().translate(LOOKALIKES) if LATIN.search(match.group()) else match.group(), text
    )
