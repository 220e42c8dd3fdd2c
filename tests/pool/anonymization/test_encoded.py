"""Runs of base64's letters are found as the pattern that says what they are finds them."""

import re2
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization.encoded import runs

PATTERN = re2.compile(rb"\b[A-Za-z0-9][A-Za-z0-9+/_-]{15,}={0,2}")


@given(st.text(alphabet="aZ09+/-_= ?.", max_size=120).map(str.encode))
@example(b"-" * 16)
@example(b"/aaaaaaaaaaaaaaaa==a_bbbbbbbbbbbbbbbb===")
@example(b"_aaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaa=")
def test_runs_are_those_that_the_pattern_matches(data: bytes) -> None:
    assert list(runs(data)) == [match.span() for match in PATTERN.finditer(data)]


@given(
    st.lists(st.sampled_from([b"aB3+" * 4, b"-" * 15, b"a-" * 9, b"=", b" ", b"_", b"b" * 15]), max_size=12).map(
        b"".join
    )
)
def test_long_runs_are_found_beside_short_ones(data: bytes) -> None:
    assert list(runs(data)) == [match.span() for match in PATTERN.finditer(data)]
