import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization import spans
from flywheel.pool.anonymization.spans import find_spans


def test_spans_say_where_what_and_why() -> None:
    text = "é😀 write to ann@example.org, card 4111 1111 1111 1111"
    found = find_spans(text)
    assert [(text[span.start : span.end], span.type) for span in found] == [
        ("ann@example.org", "EMAIL_ADDRESS"),
        ("4111 1111 1111 1111", "CREDIT_CARD"),
    ]
    assert all(span.reason for span in found)


def test_types_are_presidios_names() -> None:
    assert [span.type for span in find_spans("pay to GB33 BUKB 2020 1555 5555 55")] == ["IBAN_CODE"]


@pytest.mark.skipif(not hasattr(spans, "find_refused"), reason="the detectors do not tell what they looked at")
def test_what_a_check_refuses_is_told_with_its_reason() -> None:
    (refused,) = spans.find_refused("é order 4111 1111 1111 1112")
    assert (refused.start, refused.end, refused.type) == (8, 27, "CREDIT_CARD")
    assert refused.reason
    assert spans.find_refused("card 4111 1111 1111 1111") == []


VALUES = ["ann@example.org", "+1 415 555 2671", "4111111111111111", "10.0.0.7", "\n", "é", "😀", " ", "-"]


@given(st.lists(st.sampled_from(VALUES) | st.text(max_size=5), max_size=20).map("".join))
def test_spans_lie_in_the_text_in_order_without_overlaps(text: str) -> None:
    position = 0
    for span in find_spans(text):
        assert position <= span.start < span.end <= len(text)
        position = span.end
