"""Automata of google-re2, asked for nothing but places.

google-re2's own functions make a generator and a match for each question, and count the groups again: 2 µs around one
that takes half a microsecond, dozens of times a record. So they are left out, down to what they call themselves.
"""

from collections.abc import Iterable, Iterator
from typing import Any

Place = tuple[int, int]
"""Start and end, the end is not included."""
NOWHERE = (-1, -1)  # where there is no match
MEMORY = 64 << 20  # for the states of an automaton; too little makes it start over and over


class Automaton:
    """A pattern of google-re2, in bytes of UTF-8 or, where it says ``in_bytes``, of any bytes. Groups are not told.

    Raises:
        re2.error: it does not compile.
    """

    def __init__(self, pattern: str, *, in_bytes: bool = False, ignore_case: bool = False) -> None:
        import re2

        chosen = options()
        chosen.case_sensitive = not ignore_case
        if in_bytes:
            chosen.encoding = re2.Options.Encoding.LATIN1
        compiled: Any = re2.compile(pattern.encode("ascii") if in_bytes else pattern, chosen)
        anchors = re2._re2.RE2.Anchor
        self._compiled = compiled  # it owns what is asked
        self._ask = compiled._regexp.Match
        self._anywhere, self._here = anchors.UNANCHORED, anchors.ANCHOR_START

    def search(self, data: bytes, position: int = 0) -> Place | None:
        """The first match from a position on."""
        place: Place = self._ask(self._anywhere, data, position, len(data))[0]
        return None if place == NOWHERE else place

    def match(self, data: bytes, position: int = 0, end: int | None = None) -> int | None:
        """The end of a match that begins at a position, of what is before an end."""
        behind = len(data) if end is None else min(end, len(data))
        place: Place = self._ask(self._here, data, position, behind)[0]
        return None if place == NOWHERE else place[1]

    def places(self, data: bytes) -> Iterator[Place]:
        """Every match, from left to right, without overlaps; the pattern does not match nothing."""
        position = 0
        while place := self.search(data, position):
            yield place
            position = place[1]


def any_of(patterns: Iterable[str], *, in_bytes: bool = False, ignore_case: bool = False) -> Automaton:
    """Patterns as one without groups: which one matched is cheaper to ask afterwards."""
    return Automaton("|".join(f"(?:{one})" for one in patterns), in_bytes=in_bytes, ignore_case=ignore_case)


def options() -> Any:
    """How the automata are compiled."""
    import re2

    chosen = re2.Options()
    chosen.max_mem = MEMORY
    chosen.log_errors = False
    return chosen
