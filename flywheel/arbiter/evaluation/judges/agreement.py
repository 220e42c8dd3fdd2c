"""How well scores agree with labels, per criterion: pure, on scores that are there. Abstentions are counted apart.

A score says yes where it reaches the threshold. Intervals hold for rows in groups (several answers to one task): the
bootstrap draws whole groups. Only where every row is a group of its own has accuracy Wilson's interval.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.training.intervals import Interval, wilson

BINS = 10
RESAMPLES = 1_000
Floats = NDArray[np.float64]
Measure = Callable[[Floats, Floats, Floats], float]
"""Of scores, labels (0 or 1) and weights; NaN where it is not defined."""


class Scored(Struct, frozen=True, kw_only=True):
    """One labelled answer. ``score`` is None where the judges abstained; ``group`` is what it is not independent of."""

    score: float | None
    label: bool
    group: str
    abstention: str | None = None


class Bin(Struct, frozen=True, kw_only=True):
    """A row of the reliability table: scores in a range, their mean, and the share of them that are labelled yes."""

    low: float
    high: float
    count: int
    mean_score: float
    share: float


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure with its interval. The interval is absent where too few resamples define the figure."""

    value: float
    low: float | None
    high: float | None
    method: str


class Agreement(Struct, frozen=True, kw_only=True, rename="camel"):
    """How scores agree with labels. What is not defined, with labels of one kind or no score, is None.

    Attributes:
        rows: labelled.
        scored: of these.
        abstentions: the rest, by kind.
        base_rate: share of scored rows labelled yes.
        accuracy: of the scored rows.
        accuracy_bounds: over all rows, were every abstention wrong, and were every one right.
        kappa: Cohen's: agreement beyond what the two rates of yes give by chance.
        brier: mean squared difference of score and label.
        calibration_error: mean difference of score and share of yes over ten ranges, weighted by rows.
        auc: chance that of a yes and a no the yes has the higher score.
        confusion: rows by what judges and labels say.
    """

    criterion: str
    threshold: float
    rows: int
    groups: int
    scored: int
    abstentions: dict[str, int]
    base_rate: float | None
    accuracy: Estimate | None
    accuracy_bounds: tuple[float, float] | None
    kappa: Estimate | None
    brier: Estimate | None
    calibration_error: Estimate | None
    auc: Estimate | None
    reliability: tuple[Bin, ...]
    confusion: dict[str, int]


def agreement(
    rows: Sequence[Scored], *, criterion: str, threshold: float, confidence: float = 0.95, seed: int = 0
) -> Agreement:
    """The figures of one criterion."""
    there = [(row.score, row.label) for row in rows if row.score is not None]
    scores = np.array([score for score, _ in there], dtype=np.float64)
    labels = np.array([label for _, label in there], dtype=np.float64)
    groups = [row.group for row in rows if row.score is not None]
    said = scores >= threshold
    right = int((said == (labels > 0)).sum())
    draws = _draws(groups, seed)

    def estimate(measure: Measure) -> Estimate | None:
        return _bootstrapped(measure, scores, labels, draws, confidence=confidence)

    def accuracy(scores: Floats, labels: Floats, weights: Floats) -> float:
        return float(weights @ ((scores >= threshold) == (labels > 0)) / weights.sum())

    independent = len(set(groups)) == len(groups)
    return Agreement(
        criterion=criterion,
        threshold=threshold,
        rows=len(rows),
        groups=len({row.group for row in rows}),
        scored=len(there),
        abstentions=_kinds(rows),
        base_rate=float(labels.mean()) if there else None,
        accuracy=_wilson(right, len(there), confidence) if there and independent else estimate(accuracy),
        accuracy_bounds=(right / len(rows), (right + len(rows) - len(there)) / len(rows)) if rows else None,
        kappa=estimate(lambda s, y, w: kappa((s >= threshold).astype(np.float64), y, w)),
        brier=estimate(brier),
        calibration_error=estimate(calibration_error),
        auc=estimate(auc),
        reliability=reliability(scores, labels),
        confusion=_confusion(said, labels > 0),
    )


def kappa(said: Floats, labels: Floats, weights: Floats) -> float:
    """Cohen's kappa (1960) of two yes-or-no judgements; NaN where chance alone gives full agreement."""
    total = weights.sum()
    observed = weights @ (said == labels) / total
    yes, truly = weights @ said / total, weights @ labels / total
    chance = yes * truly + (1 - yes) * (1 - truly)
    return float((observed - chance) / (1 - chance)) if chance < 1 else math.nan


def brier(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Brier's score (1950): 0 is perfect, ¼ is what ½ for everything gets."""
    return float(weights @ (scores - labels) ** 2 / weights.sum())


def calibration_error(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Expected calibration error over ``BINS`` equal ranges (Naeini et al. 2015)."""
    bins = _bin_of(scores)
    gaps = np.bincount(bins, weights=weights * (scores - labels), minlength=BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def auc(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Area under the ROC curve as Mann and Whitney's statistic, ties half; NaN where labels are of one kind."""
    values, index = np.unique(scores, return_inverse=True)
    yes = np.bincount(index, weights=weights * labels, minlength=len(values))
    no = np.bincount(index, weights=weights * (1 - labels), minlength=len(values))
    pairs = yes.sum() * no.sum()
    if pairs == 0:
        return math.nan
    below = np.cumsum(no) - no
    return float((yes @ (below + no / 2)) / pairs)


def reliability(scores: Floats, labels: Floats) -> tuple[Bin, ...]:
    """The reliability table; ranges without a score are left out."""
    bins = _bin_of(scores)
    return tuple(
        Bin(
            low=number / BINS,
            high=(number + 1) / BINS,
            count=int(inside.sum()),
            mean_score=float(scores[inside].mean()),
            share=float(labels[inside].mean()),
        )
        for number in range(BINS)
        if (inside := bins == number).any()
    )


def _bin_of(scores: Floats) -> NDArray[np.int64]:
    """The range of each score; the last one has its upper end too. Computed so that 0.3 is in the range from 0.3."""
    return np.minimum(np.floor(np.round(scores * BINS, 9)).astype(np.int64), BINS - 1)


def _draws(groups: Sequence[str], seed: int) -> Floats:
    """For each resample how often each row is in it: groups are drawn with replacement, as many as there are."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    count = len(numbers)
    if count < 2:
        return np.empty((0, len(groups)))
    index = np.array([numbers[group] for group in groups])
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    return drawn[:, index].astype(np.float64)


def _bootstrapped(
    measure: Measure, scores: Floats, labels: Floats, draws: Floats, *, confidence: float
) -> Estimate | None:
    if not len(scores):
        return None
    value = measure(scores, labels, np.ones_like(scores))
    if math.isnan(value):
        return None
    found = np.array([measure(scores, labels, weights) for weights in draws])
    found = found[~np.isnan(found)]
    if len(found) < RESAMPLES / 2:
        return Estimate(value=value, low=None, high=None, method="bootstrap")
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value=value, low=float(low), high=float(high), method="bootstrap")


def _wilson(right: int, rows: int, confidence: float) -> Estimate:
    found: Interval = wilson(right, rows, confidence=confidence)
    return Estimate(value=found.value, low=found.low, high=found.high, method="Wilson")


def _kinds(rows: Sequence[Scored]) -> dict[str, int]:
    kinds = [row.abstention or "unknown" for row in rows if row.score is None]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _confusion(said: NDArray[np.bool_], labels: NDArray[np.bool_]) -> dict[str, int]:
    return {
        "true_yes": int((said & labels).sum()),
        "false_yes": int((said & ~labels).sum()),
        "true_no": int((~said & ~labels).sum()),
        "false_no": int((~said & labels).sum()),
    }
