"""Figures of agreement: against a library's, against known truth, and where they are not defined."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.judges import agreement as measures
from flywheel.arbiter.evaluation.judges.agreement import Scored, agreement
from flywheel.arbiter.evaluation.judges.calibration import Curve, fit
from flywheel.training.intervals import wilson

sklearn = pytest.importorskip("sklearn", reason="the extra [platform] is not installed")
ROWS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=2, max_size=60)


def rows(pairs: Sequence[tuple[float | None, bool]], *, per_group: int = 1) -> list[Scored]:
    return [
        Scored(score=score, label=label, group=str(n // per_group), abstention=None if score is not None else "empty")
        for n, (score, label) in enumerate(pairs)
    ]


def arrays(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores = np.array([score / 20 for score, _ in pairs])
    return scores, np.array([float(label) for _, label in pairs]), np.ones(len(pairs))


@given(ROWS)
def test_kappa_brier_and_auc_are_those_of_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    from sklearn.metrics import brier_score_loss, cohen_kappa_score, roc_auc_score  # type: ignore[import-untyped]

    scores, labels, ones = arrays(pairs)
    assert measures.brier(scores, labels, ones) == pytest.approx(brier_score_loss(labels, scores, labels=[0, 1]))
    if len(set(labels)) == 2:
        assert measures.auc(scores, labels, ones) == pytest.approx(roc_auc_score(labels, scores))
        said = (scores >= 0.7).astype(float)
        assert measures.kappa(said, labels, ones) == pytest.approx(cohen_kappa_score(labels, said))


@given(ROWS)
def test_the_calibration_error_is_the_mean_gap_over_the_reliability_table(pairs: list[tuple[int, bool]]) -> None:
    scores, labels, ones = arrays(pairs)
    table = measures.reliability(scores, labels)
    assert sum(row.count for row in table) == len(pairs)
    expected = sum(row.count * abs(row.mean_score - row.share) for row in table) / len(pairs)
    assert measures.calibration_error(scores, labels, ones) == pytest.approx(expected)
    assert all(row.low - 1e-9 <= row.mean_score <= row.high + 1e-9 for row in table)


def test_weights_are_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 11, 40) / 10, rng.integers(0, 2, 40).astype(float)
    weights = rng.integers(0, 4, 40).astype(float)
    repeated = np.repeat(np.arange(40), weights.astype(int))
    ones = np.ones(len(repeated))
    for measure in (measures.brier, measures.auc, measures.calibration_error):
        assert measure(scores, labels, weights) == pytest.approx(measure(scores[repeated], labels[repeated], ones))


def test_accuracy_of_independent_rows_has_wilsons_interval() -> None:
    found = agreement(rows([(0.9, True)] * 80 + [(0.9, False)] * 20), criterion="c", threshold=0.7)
    assert found.accuracy is not None
    expected = wilson(80, 100, confidence=0.95)
    assert (found.accuracy.value, found.accuracy.low, found.accuracy.high) == (
        expected.value,
        expected.low,
        expected.high,
    )
    assert found.accuracy.method == "Wilson"
    assert found.confusion == {"true_yes": 80, "false_yes": 20, "true_no": 0, "false_no": 0}


def test_rows_of_few_groups_have_a_wider_interval() -> None:
    pairs = [(0.9, n % 2 == 0) for n in range(40) for _ in range(10)]
    grouped = agreement(rows(pairs, per_group=10), criterion="c", threshold=0.7).accuracy
    alone = agreement(rows(pairs), criterion="c", threshold=0.7).accuracy
    assert grouped is not None
    assert alone is not None
    assert grouped.low is not None
    assert alone.low is not None
    assert grouped.high is not None
    assert alone.high is not None
    assert (grouped.method, grouped.value) == ("bootstrap", alone.value)
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """60 files of 100 groups of 3 rows, of a judge that is right with 0.8: at least 51 of 60 (nominal 57)."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        right = rng.random(100) < 0.8
        pairs = [(0.9 if ok else 0.1, True) for ok in right for _ in range(3)]
        found = agreement(rows(pairs, per_group=3), criterion="c", threshold=0.5).accuracy
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.8 <= found.high
    assert held >= 51


def test_abstentions_are_counted_by_kind_and_bound_the_accuracy() -> None:
    found = agreement(rows([(0.9, True)] * 6 + [(0.1, True)] * 2 + [(None, True)] * 2), criterion="c", threshold=0.7)
    assert (found.rows, found.scored, found.abstentions) == (10, 8, {"empty": 2})
    assert found.accuracy is not None
    assert found.accuracy.value == pytest.approx(6 / 8)
    assert found.accuracy_bounds == pytest.approx((0.6, 0.8))


def test_what_is_not_defined_is_none_and_no_number() -> None:
    silent = agreement(rows([(None, True), (None, False)]), criterion="c", threshold=0.7)
    assert (silent.accuracy, silent.kappa, silent.brier, silent.auc, silent.base_rate) == (None,) * 5
    assert silent.accuracy_bounds == (0.0, 1.0)
    one_kind = agreement(rows([(0.9, True), (0.8, True)]), criterion="c", threshold=0.7)
    assert (one_kind.auc, one_kind.kappa) == (None, None)
    assert one_kind.brier is not None


def test_the_same_rows_have_the_same_intervals() -> None:
    pairs: list[tuple[float | None, bool]] = [(n / 50, n % 3 == 0) for n in range(50)]
    assert agreement(rows(pairs), criterion="c", threshold=0.7) == agreement(rows(pairs), criterion="c", threshold=0.7)


# --- calibration ----------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=20, max_size=80))
def test_isotonic_is_that_of_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    from sklearn.isotonic import IsotonicRegression  # type: ignore[import-untyped]

    scores, labels = [score / 10 for score, _ in pairs], [label for _, label in pairs]
    curve = fit("isotonic", scores, labels)
    if len(set(labels)) < 2:
        assert curve is None
        return
    assert curve is not None
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, [float(label) for label in labels])
    asked = [n / 40 for n in range(41)]
    assert [curve(value) for value in asked] == pytest.approx(list(theirs.predict(asked)))


@given(st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=20, max_size=80))
def test_platts_curve_is_the_best_logistic_one(pairs: list[tuple[int, bool]]) -> None:
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    scores, labels = np.array([score / 10 for score, _ in pairs]), [label for _, label in pairs]
    curve = fit("platt", list(scores), labels)
    if len(set(labels)) < 2:
        assert curve is None
        return
    assert curve is not None
    yes = sum(labels)
    targets = np.where(labels, (yes + 1) / (yes + 2), 1 / (len(labels) - yes + 2))

    def loss(shares: np.ndarray) -> float:
        return float(-(targets * np.log(shares) + (1 - targets) * np.log(1 - shares)).sum())

    best = minimize(lambda w: loss(1 / (1 + np.exp(-np.clip(w[0] * scores + w[1], -500, 500)))), [0.0, 0.0])
    ours = np.array([curve(value) for value in scores])
    assert loss(ours) <= best.fun + 1e-3


def test_too_few_labels_make_no_curve() -> None:
    assert fit("isotonic", [0.1] * 19, [True, *[False] * 18]) is None


def test_a_curve_needs_rising_scores_and_as_many_shares() -> None:
    with pytest.raises(ValueError, match="rising"):
        Curve(scores=(0.5, 0.1), shares=(0.1, 0.2))
    with pytest.raises(ValueError, match="each score"):
        Curve(scores=(0.1, 0.5), shares=(0.1,))
