"""Finding closed forms: a table of them compiled into automata, and a check of each match in its text."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from heapq import heapreplace
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.automata import Automaton, any_of, options
from flywheel.pool.anonymization.checks import PLACEHOLDER
from flywheel.pool.anonymization.form import Family, Form
from flywheel.pool.anonymization.forms import EDGE_FORMS, FAMILIES, FORMS

RUN = re.compile(
    rb"(?:[0-9A-Fa-f]{1,4}:){7,}[0-9A-Fa-f]{1,4}(?=:(?![\\/]))|[0-9](?:[0-9.:-]*[0-9])?|[0-9A-Za-z_\x80-\xff]*"
)
"""What is left out where every check refused: nothing else begins within a word, a number, or more groups than an
address has, each of which would be asked for one.
"""
BETWEEN = frozenset(bytes([code]) for code in b" \t\n\r\"'`()[]{}<>,;:=*|")
"""What no form reaches back over: where one stands before a match, the first form that matches is the one."""
OPENING = frozenset({b"/", b"~"})
"""What a path begins with, whose forms take the character before it too: it may be the last one of another value."""
LONGEST = 256  # bytes that a form may need to be told apart; what is longer is one match of the automaton
FARTHEST = 4_096
"""Bytes of a value that no scout saw the end of: letters without a space may all stand before one ``@``, and each value
among them would be followed to their end.
"""
PATIENCE = 16
"""Bytes of matches that are none once bounds count, for each byte of a text; then bounds count at once: linear time."""
BOUNDED = re.compile(r"\{(\d+),\d+\}")
OPEN = {"0": "*", "1": "+"}
PIECE = re.compile(r"\\p(?:\{\w+\}|\w)|\\.|\[(?:\\.|[^\]\\])+\]|[^\x00-\x7f]|.")
"""A part of a pattern: an escape, a class, a character."""
LETTERS = {r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z", r"\pL": "A-Za-z", r"\pN": "0-9"}
HIGH = r"[\x80-\xff]+"  # bytes of characters outside ASCII
FOLDED = (b"\xc5\xbf", b"\xe2\x84\xaa")
"""Long s and the Kelvin sign: where case does not matter they alone, of all outside ASCII, are ASCII letters too."""


class Span(Struct, frozen=True):
    """A detected value: ``text[start:end]``, offsets in characters; ``reason`` says why it was taken.

    ``value`` is how it reads, without escapes and disguises, where that is known.
    """

    start: int
    end: int
    type: str
    reason: str
    value: str = ""


class Detector:
    """Finds the forms of a table: the leftmost one, of those that begin at one place the first of the table.

    ``families`` say which of them one automaton looks for (all of them, where there are none). Compiled at first use,
    which takes half a second.
    """

    def __init__(self, forms: Sequence[Form], families: Sequence[Family] = ()) -> None:
        self.forms = tuple(forms)
        own = set(self.forms)
        parts = [(family, tuple(form for form in family.forms if form in own)) for family in families]
        self._scouts = tuple(Scout(some, family) for family, some in parts if some) or (Scout(self.forms, Family(())),)

    def detect(self, text: str) -> Iterator[Span]:
        """Every value of a closed form in a text, from left to right, without overlaps."""
        data = text.encode("utf-8", "surrogatepass")
        wide = len(data) != len(text)
        position = counted = characters = 0  # bytes counted, characters in those
        ahead = [  # a heap of where the next match of each scout may be
            (-1, number, -1) for number, scout in enumerate(self._scouts) if scout.may_find_in(data)
        ]
        patience = -1 if wide and has_folded(data) else PATIENCE * len(data)
        while ahead:
            while ahead[0][0] < position:
                number = ahead[0][1]
                begin, end = self._scouts[number].search(data, position, exactly=patience < 0)
                heapreplace(ahead, (begin, number, end))
            first, number, last = ahead[0]
            if first == len(data):
                return
            if self._scouts[number].is_loosened or any(begin == first for begin, *_ in ahead[1:3]):
                confirmed = self._any.match(data, first, max(last, first + FARTHEST))
                patience -= last - (confirmed or first)
                if confirmed is None:
                    position = first + 1
                    continue
                last = confirmed
            characters += len(data[counted:first].decode("utf-8", "surrogatepass")) if wide else first - counted
            counted = first
            found = self._found_at(text, data, first, last, start=characters)
            if found is None:
                skipped = RUN.match(data, first)
                behind = skipped.end() if skipped else 0
            else:
                yield found
                taken = text[characters : found.end]
                behind = first + (len(taken.encode("utf-8", "surrogatepass")) if wide else len(taken))
            if data[behind : behind + 1] in OPENING:
                behind = one_before(data, behind)
            position = max(first + 1, behind)

    def _found_at(self, text: str, data: bytes, first: int, last: int, *, start: int) -> Span | None:
        """What the first form says that matches at this byte and whose check does not refuse it."""
        # None where a form takes what stands before it, as the end of a word: then each is asked in its place
        numbers = self._which.Match(data[first : max(last, first + LONGEST)])
        is_sure = bool(numbers) and last < first + LONGEST and (first == 0 or data[first - 1 : first] in BETWEEN)
        for number in sorted(numbers or range(len(self.forms))):
            # ``^`` matches where what was asked begins, which is not where the text does
            if not is_sure or (first and "^|" in self.forms[number].pattern):
                end_here = self._each(number).match(data, first)
                if end_here is None:  # it would begin within a word
                    continue
                last = end_here
            is_sure = False
            form = self.forms[number]
            end = start + len(data[first:last].decode("utf-8", "surrogatepass"))
            place = (start, end) if form.check is None else form.check(text, start, end)
            if place is not None and not is_no_value(text, *place):
                return Span(place[0], place[1], form.type, form.reason)
        return None

    @cached_property
    def _any(self) -> Automaton:
        """All patterns as one alternation, to ask at one place."""
        return any_of(form.pattern for form in self.forms)

    @cached_property
    def _which(self) -> Any:
        """All patterns as a set that tells which of them match where a text begins."""
        import re2

        patterns = re2.Set.MatchSet(options())
        for form in self.forms:
            patterns.Add(form.pattern)
        patterns.Compile()
        return patterns

    @cached_property
    def _each(self) -> Callable[[int], Automaton]:
        """Each pattern by itself, by its number; most texts ask for few of them."""
        return cache(lambda number: Automaton(self.forms[number].pattern))


class Scout:
    """Looks for the next place where a form of a family may begin."""

    def __init__(self, forms: tuple[Form, ...], family: Family) -> None:
        self._patterns = tuple(form.pattern for form in forms)
        self._needs = tuple(bytes([code]) for code in family.needs)
        self.is_loosened = family.is_loosened

    def may_find_in(self, data: bytes) -> bool:
        """Whether the data has any of what each match of the family has one of."""
        return not self._needs or any(need in data for need in self._needs)

    def search(self, data: bytes, position: int, *, exactly: bool) -> tuple[int, int]:
        """Start and end of the next match; behind the end of the data where there is none.

        Where the family is loosened and not ``exactly`` looked for, there may be no match after all.
        """
        automaton = self._exact if exactly or not self.is_loosened else self._loosened
        return automaton.search(data, position) or (len(data), len(data))

    @cached_property
    def _exact(self) -> Automaton:
        return any_of(self._patterns)

    @cached_property
    def _loosened(self) -> Automaton:
        return roughly(self._patterns)


class FirstLook:
    """Tells of most texts, at a tenth of what detecting costs, that none of the patterns is in them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._automaton = roughly(patterns)

    def may_find_in(self, text: str) -> bool:
        """Whether one may be in the text; the patterns as they are written say whether it is."""
        data = text.encode("utf-8", "surrogatepass")
        return self._automaton.search(data) is not None or (len(data) != len(text) and has_folded(data))


def one_before(data: bytes, position: int) -> int:
    """Where the character before a position begins."""
    position -= 1
    while position > 0 and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def has_folded(data: bytes) -> bool:
    """Whether there is a letter outside ASCII that is also an ASCII one where case does not matter."""
    return any(letter in data for letter in FOLDED)


def roughly(patterns: Iterable[str]) -> Automaton:
    """The patterns without upper bounds, of bytes, as one: it matches wherever one of them does, and seldom else.

    An automaton that counts has a state for each count and whatever else has begun meanwhile, one that knows letters
    outside ASCII a state for each byte of them. It would spend its time on making them with each text that it has not
    seen.
    """
    return any_of((bytewise(loosened(pattern)) for pattern in patterns), in_bytes=True)


def loosened(pattern: str) -> str:
    """The pattern without upper bounds of repetitions; it matches wherever the pattern does."""
    return BOUNDED.sub(lambda bounds: OPEN.get(bounds[1], f"{{{bounds[1]},}}"), pattern)


def bytewise(pattern: str) -> str:
    """The pattern for bytes, of which any outside ASCII may be a letter; it matches wherever the pattern does."""
    return PIECE.sub(lambda piece: piece_of_bytes(piece.group()), pattern)


def piece_of_bytes(piece: str) -> str:
    """A part of a pattern as such a one of bytes."""
    if piece == ".":
        return f"(?:.|{HIGH})"
    if len(piece) == 1:
        return piece if piece.isascii() else "".join(f"\\x{code:02x}" for code in piece.encode())
    if piece in LETTERS:
        return f"(?:[{LETTERS[piece]}]|{HIGH})"
    if piece[0] != "[" or (piece.isascii() and r"\p" not in piece):
        return piece
    for letters, ascii_letters in LETTERS.items():
        piece = piece.replace(letters, ascii_letters)
    return f"(?:{''.join(filter(str.isascii, piece))}|{HIGH})"


def is_no_value(text: str, start: int, end: int) -> bool:
    """Whether a place is that of a placeholder, or the digits of a negative number."""
    before = text[max(0, start - 2) : start]
    if before[-1:] == "-" and not before[:-1].isalnum() and text[start:end].isdigit():
        return True
    return PLACEHOLDER.match(text, start - 1 if start else 0) is not None


EVERYTHING, EDGE = Detector(FORMS, FAMILIES), Detector(EDGE_FORMS, FAMILIES)
"""The built-in forms, which no setting changes (``flywheel.pool.anonymization.detection`` adds to them)."""
