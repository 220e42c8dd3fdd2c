"""What is asked of google-re2 directly is what its own functions say."""

import re2
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.automata import Automaton, any_of

PATTERNS = (r"\b[a-z]+@[a-z]+", r"\d{2,3}", r"(?i)é|ab?", r"x(y)z", r"(?:^|[^\pL])/\pL+")


@given(st.text(alphabet="ab@1 23éÉxyz/ö\n"), st.integers(0, 8))
def test_places_are_those_of_its_own_functions(text: str, position: int) -> None:
    data = text.encode()
    position = min(position, len(data))
    for pattern in PATTERNS:
        asked, own = Automaton(pattern), re2.compile(pattern)
        found, matched = own.search(data, position), own.match(data, position)
        assert asked.search(data, position) == (found.span() if found else None)
        assert asked.match(data, position) == (matched.end() if matched else None)
        assert list(asked.places(data)) == [match.span() for match in own.finditer(data)]


def test_one_of_several_patterns_is_the_first_that_matches_leftmost() -> None:
    assert any_of(["b+", "ab"]).search(b"xabb") == (1, 3)
    assert any_of(["AB", "x"], ignore_case=True).search(b"--ab") == (2, 4)


def test_in_bytes_any_byte_is_a_character() -> None:
    assert any_of([r"[\x80-\xff]"], in_bytes=True).search("é".encode()) == (0, 1)
    assert Automaton("é").search("é".encode()) == (0, 2)
