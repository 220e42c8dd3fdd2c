"""How deep a body nests is told from its brackets, in time that grows with its length alone."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.collection.receiver.bodies import is_deeper

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('[]{}"\\, aü\n'), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('[{"\\'), max_size=5), inner),
    max_leaves=40,
)
MEGABYTE = 2**20


def depth_of(value: object) -> int:
    """By the definition: how many lists and objects are around each other."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(JSON, st.integers(min_value=0, max_value=8), st.booleans())
def test_it_is_what_the_parsed_value_says_whatever_strings_hold(value: object, depth: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert is_deeper(text, depth) == (depth_of(value) > depth)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MEGABYTE,
        b"[]" * (MEGABYTE // 2),
        b"[[" + b"[],[]," * (MEGABYTE // 6) + b"0]]",
        b'[{},"' + b'\\"' * (MEGABYTE // 2) + b'"]',
        b"[" + b'"",{},' * (MEGABYTE // 6) + b"0]",
        b'[{},"' + b"x" * MEGABYTE,
        b'"' * MEGABYTE,
    ],
    ids=["deep", "pairs", "shallow", "escapes", "strings", "endless", "quotes"],
)
def test_a_megabyte_of_anything_takes_no_time_worth_speaking_of(text: bytes) -> None:
    began = time.process_time()
    is_deeper(text, 32)
    assert time.process_time() - began < 0.25
