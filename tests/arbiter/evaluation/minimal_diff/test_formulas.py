"""SPEC's formulas: its points are met, nothing rises with more lines or more scaffolding, and bounds hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.minimal_diff.formulas import base_score, line_score, multiplier

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("lines", "score"),
    [(0, 1.0), (1, 1.0), (9, 1.0), (10, 1.0), (50, 0.8), (100, 0.5), (500, 0.3), (1_000, 0.1), (10**9, 0.1)],
)
def test_the_line_score_meets_its_points(lines: int, score: float) -> None:
    assert line_score(lines) == pytest.approx(score)


@given(st.integers(0, 1_200), st.integers(1, 100))
def test_the_line_score_falls_with_every_line_from_ten_to_a_thousand(lines: int, more: int) -> None:
    assert line_score(lines + more) <= line_score(lines)
    if 10 <= lines < 1_000:
        assert line_score(lines + 1) < line_score(lines)
    assert 0.1 <= line_score(lines) <= 1.0


@given(similarity=SHARE, lines=SHARE, penalty=SHARE, more=SHARE)
def test_the_multiplier_stays_within_its_bounds_and_falls_with_scaffolding(
    similarity: float, lines: float, penalty: float, more: float
) -> None:
    base = base_score(similarity=similarity, lines=lines)
    assert 0.1 <= base <= 1.0
    low, high = sorted((penalty, more))
    assert 0.1 <= multiplier(base=base, scaffolding_penalty=high) <= multiplier(base=base, scaffolding_penalty=low) <= 1


@given(similarity=SHARE, other=SHARE, lines=SHARE)
def test_the_base_rises_with_similarity(similarity: float, other: float, lines: float) -> None:
    low, high = sorted((similarity, other))
    assert base_score(similarity=low, lines=lines) <= base_score(similarity=high, lines=lines)


def test_the_formula_is_specs() -> None:
    assert base_score(similarity=0.5, lines=0.8) == pytest.approx(0.7 * 0.5 + 0.3 * 0.8)
    assert multiplier(base=0.8, scaffolding_penalty=0.5) == pytest.approx(0.8 * 0.75)
    assert multiplier(base=0.1, scaffolding_penalty=1.0) == 0.1
