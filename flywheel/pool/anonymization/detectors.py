"""Finding closed forms: a table of them compiled into one automaton, and a check of each match in its text."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.checks import PLACEHOLDER
from flywheel.pool.anonymization.forms import EDGE_FORMS, FORMS, Form

RUN = re.compile(rb"[0-9](?:[0-9.:-]*[0-9])?|[0-9A-Za-z_\x80-\xff]*")
"""What is left out where every check refused: nothing else begins within a word or a number."""
LONGEST = 256  # bytes that a form may need to be told apart; what is longer is one match of the automaton
BETWEEN = frozenset(bytes([code]) for code in b" \t\n\r\"'`()[]{}<>,;:=*|")
"""What no form reaches back over: where one stands before a match, the first form that matches is the one."""
MEMORY = 256 << 20  # for the automaton's states; too little makes it start over and over


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
    """Finds the forms of a table. Compiled at first use, which takes half a second."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = tuple(forms)

    def detect(self, text: str) -> Iterator[Span]:
        """Every value of a closed form in a text, from left to right, without overlaps."""
        data = text.encode("utf-8", "surrogatepass")
        wide = len(data) != len(text)
        position: int | None = 0
        counted = characters = 0  # bytes counted, characters in those
        while position is not None:
            matches = self._any.finditer(data, position)
            position = None
            for match in matches:
                first, last = match.span()
                characters += len(data[counted:first].decode("utf-8", "surrogatepass")) if wide else first - counted
                counted = first
                found = self._found_at(text, data, first, last, start=characters)
                if found is None:
                    skipped = RUN.match(data, first)
                    position = max(first + 1, skipped.end() if skipped else 0)
                    break
                yield found
                taken = found.end - characters
                if wide:
                    taken = len(text[characters : found.end].encode("utf-8", "surrogatepass"))
                if first + taken != last:
                    position = first + taken
                    break

    def _found_at(self, text: str, data: bytes, first: int, last: int, *, start: int) -> Span | None:
        """What the first form says that matches at this byte and whose check does not refuse it."""
        # None where a form takes what stands before it, as the end of a word: then each is asked in its place
        numbers = self._which.Match(data[first : max(last, first + LONGEST)])
        is_sure = bool(numbers) and last < first + LONGEST and (first == 0 or data[first - 1 : first] in BETWEEN)
        for number in sorted(numbers or range(len(self.forms))):
            if not is_sure:
                match = self._each[number].match(data, first)
                if match is None:  # it would begin within a word
                    continue
                last = match.end()
            is_sure = False
            form = self.forms[number]
            end = start + len(data[first:last].decode("utf-8", "surrogatepass"))
            place = (start, end) if form.check is None else form.check(text, start, end)
            if place is not None and not is_no_value(text, *place):
                return Span(place[0], place[1], form.type, form.reason)
        return None

    @cached_property
    def _any(self) -> Any:
        """All patterns as one alternation, without groups: which one matched is cheaper to ask afterwards."""
        import re2

        return re2.compile("|".join(f"(?:{form.pattern})" for form in self.forms), options())

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
    def _each(self) -> tuple[Any, ...]:
        """Each pattern by itself."""
        import re2

        return tuple(re2.compile(form.pattern) for form in self.forms)


def is_no_value(text: str, start: int, end: int) -> bool:
    """Whether a place is that of a placeholder, or the digits of a negative number."""
    before = text[max(0, start - 2) : start]
    if before[-1:] == "-" and not before[:-1].isalnum() and text[start:end].isdigit():
        return True
    return PLACEHOLDER.match(text, start - 1 if start else 0) is not None


def options() -> Any:
    """How the automata are compiled."""
    import re2

    chosen = re2.Options()
    chosen.max_mem = MEMORY
    chosen.log_errors = False
    return chosen


EVERYTHING, EDGE = Detector(FORMS), Detector(EDGE_FORMS)
"""The built-in forms, which no setting changes (``flywheel.pool.anonymization.detection`` adds to them)."""
