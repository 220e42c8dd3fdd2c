"""A reply is read strictly, or it is a problem: nothing is guessed out of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.judges.opinions import Score
from flywheel.arbiter.evaluation.judges.replies import Choice, Unusable, read_choice, read_score

GOOD = '{"reason": "it answers all", "score": 0.8, "confidence": 1}'


@pytest.mark.parametrize("text", [GOOD, f"  {GOOD}\n", f"```json\n{GOOD}\n```", f"<think>9 or 0.9?</think>\n{GOOD}"])
def test_one_object_is_a_score_also_in_a_fence_and_after_reasoning(text: str) -> None:
    assert read_score(text) == Score(value=0.8, confidence=1.0, reason="it answers all")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("I can't help with that.", "unreadable"),
        (f"Sure! {GOOD}", "unreadable"),
        (f"{GOOD}\n{GOOD}", "unreadable"),
        (f"The answer says:\n```json\n{GOOD}\n```", "unreadable"),
        ("0.8", "unreadable"),
        (f"[{GOOD}]", "unreadable"),
        ('{"score": 0.8, "confidence": 1}', "unreadable"),
        ('{"reason": "", "score": 0.8}', "unreadable"),
        ('{"reason": "", "score": "0.8", "confidence": 1}', "unreadable"),
        ('{"reason": "", "score": true, "confidence": 1}', "unreadable"),
        ('{"reason": "", "score": null, "confidence": 1}', "unreadable"),
        ('{"reason": "", "score": 0.1, "confidence": 1, "score": 1.0}', "unreadable"),
        ('{"reason": "", "score": NaN, "confidence": 1}', "unreadable"),
        ('{"reason": "", "score": 85, "confidence": 1}', "out-of-range"),
        ('{"reason": "", "score": -0.1, "confidence": 1}', "out-of-range"),
        ('{"reason": "", "score": 1e999, "confidence": 1}', "out-of-range"),
        ('{"reason": "", "score": 0.5, "confidence": 90}', "out-of-range"),
        ("[" * 100_000, "unreadable"),
    ],
)
def test_anything_else_is_a_problem_of_its_kind(text: str, kind: str) -> None:
    found = read_score(text)
    assert isinstance(found, Unusable)
    assert found.kind == kind


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert isinstance(read_score(text), Score | Unusable)
    assert isinstance(read_choice(text), Choice | Unusable)


@given(st.floats(0, 1), st.floats(0, 1), st.text(st.characters(codec=None)))
def test_what_was_written_is_what_is_read(value: float, confidence: float, reason: str) -> None:
    found = read_score(json.dumps({"reason": reason, "score": value, "confidence": confidence}))
    assert isinstance(found, Score)
    assert (found.value, found.confidence) == (value, confidence)
    assert found.reason.isprintable() or not found.reason.isascii()
    assert found.reason.encode() is not None


def test_a_choice_names_one_of_three() -> None:
    assert read_choice('{"reason": "", "better": "tie", "confidence": 0.5}') == Choice(
        better="tie", confidence=0.5, reason=""
    )
    for better in ('"A"', "1", "null", '["first"]'):
        found = read_choice(f'{{"reason": "", "better": {better}, "confidence": 0.5}}')
        assert isinstance(found, Unusable)
        assert found.kind == "unreadable"
