"""How findings become one, and when a second judge is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.judges.combining import combined, why_unsure
from flywheel.arbiter.evaluation.judges.opinions import Abstention, Finding, Score

SILENT = Abstention(kind="no-answer", reason="no answer within 5 s")


def said(value: float, confidence: float = 0.9, reason: str = "so") -> Score:
    return Score(value=value, confidence=confidence, reason=reason)


FINDINGS = st.lists(
    st.one_of(st.builds(said, st.floats(0, 1), st.floats(0, 1)), st.just(SILENT)), min_size=1, max_size=5
)


def test_scores_that_are_near_are_their_mean_and_the_gap_takes_confidence() -> None:
    found = combined([said(0.8, 0.9, "good"), said(0.6, 0.7, "fair")], max_gap=0.3)
    assert isinstance(found, Score)
    assert found.value == pytest.approx(0.7)
    assert found.confidence == pytest.approx(0.8 - 0.2)
    assert found.reason == "good | fair"


def test_scores_that_are_far_apart_are_a_disagreement_and_neither_is_taken() -> None:
    found = combined([said(0.9), said(0.2)], max_gap=0.3)
    assert isinstance(found, Abstention)
    assert found.kind == "disagreement"
    assert "0.9 and 0.2" in found.reason


def test_who_abstains_adds_nothing() -> None:
    assert combined([SILENT, said(0.4)], max_gap=0.3) == said(0.4)
    assert combined([said(0.4), SILENT], max_gap=0.3) == said(0.4)


def test_where_all_abstain_so_does_the_whole_with_their_reasons() -> None:
    refused = Abstention(kind="refused", reason="the model refuses")
    found = combined([SILENT, refused], max_gap=0.3)
    assert found == Abstention(kind="refused", reason="no-answer: no answer within 5 s; refused: the model refuses")
    assert combined([SILENT], max_gap=0.3) is SILENT


@given(FINDINGS, st.floats(0, 1))
def test_a_combined_score_is_never_above_or_below_what_was_said(findings: list[Finding], max_gap: float) -> None:
    found = combined(findings, max_gap=max_gap)
    values = [finding.value for finding in findings if isinstance(finding, Score)]
    if isinstance(found, Score):
        assert min(values) - 1e-12 <= found.value <= max(values) + 1e-12
        assert 0 <= found.confidence <= 1
    else:
        assert not values or max(values) - min(values) > max_gap


@given(FINDINGS)
def test_the_order_of_judges_makes_no_difference_to_the_score(findings: list[Finding]) -> None:
    forward, backward = combined(findings, max_gap=0.3), combined(findings[::-1], max_gap=0.3)
    assert type(forward) is type(backward)
    if isinstance(forward, Score) and isinstance(backward, Score):
        assert forward.value == pytest.approx(backward.value)


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (said(0.95), None),
        (said(0.2), None),
        (said(0.75), "the score is 0.75, within 0.1 of the threshold 0.7"),
        (said(0.61), "the score is 0.61, within 0.1 of the threshold 0.7"),
        (said(0.95, 0.5), "the confidence is 0.50, below 0.6"),
        (SILENT, "no-answer: no answer within 5 s"),
    ],
)
def test_a_judge_is_unsure_near_the_threshold_without_confidence_and_without_a_score(
    finding: Finding, why: str | None
) -> None:
    assert why_unsure(finding, threshold=0.7, band=0.1, least_confidence=0.6) == why
