"""Calibration: what a judge's score is worth, learned from labels and kept as a file of a judge, criterion and version.

A calibrated score is the share of answers with such a score that people accept. It is fitted on one part of the labels
and reported on the rest (``measuring``); the judge's own number stays in the evidence.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from flywheel.arbiter.evaluation.judges import prompts
from flywheel.arbiter.evaluation.judges.criteria import Criterion, criteria_of
from flywheel.arbiter.evaluation.judges.judge import Judge
from flywheel.arbiter.evaluation.judges.panel import Calibrate
from flywheel.arbiter.evaluation.judges.settings import JudgesSettings
from flywheel.errors import ConfigurationError

FEWEST = 20
"""Labels below which nothing is fitted."""
STEPS = 100
FLAT = 1e-12

Method = Literal["isotonic", "platt"]
Share = Annotated[float, Meta(ge=0, le=1)]
Floats = NDArray[np.float64]


class Curve(Struct, frozen=True, kw_only=True):
    """From score to share accepted: straight lines between knots, level beyond the outer ones."""

    scores: Annotated[tuple[Share, ...], Meta(min_length=1)]
    shares: Annotated[tuple[Share, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.shares) or list(self.scores) != sorted(set(self.scores)):
            raise ValueError("a curve needs a share for each score, and rising scores")

    def __call__(self, value: float) -> float:
        """The calibrated score."""
        return float(np.interp(value, self.scores, self.shares))


class Calibration(Struct, frozen=True, kw_only=True, rename="camel"):
    """One judge's curve for one criterion, with what it was fitted on.

    ``prompts`` is the prompts' version, ``labels`` the digest of the labelled file, ``fitted_on`` how many of its lines
    were used.
    """

    judge: str
    model: str
    criterion: str
    version: int
    prompts: int
    method: Method
    curve: Curve
    fitted_on: int
    labels: str
    made_at: datetime
    format: Literal[1] = 1


def fit(method: Method, scores: Sequence[float], labels: Sequence[bool]) -> Curve | None:
    """The curve; None where there are fewer than ``FEWEST`` labels, or none of one kind."""
    if len(labels) < FEWEST or all(labels) or not any(labels):
        return None
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    return _isotonic(x, y) if method == "isotonic" else _platt(x, y)


def save(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Write them as one JSON document; a file that is there is replaced as a whole."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(calibrations)) + b"\n")
    draft.replace(path)


def load(path: Path) -> list[Calibration]:
    """Read a file of calibrations.

    Raises:
        ConfigurationError: it cannot be read, or is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Calibration])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the calibration {path} cannot be used: {error}") from error


def calibrating(settings: JudgesSettings, judges: Sequence[Judge]) -> Calibrate:
    """The configured calibrations as one function; scores without one count as they are.

    Raises:
        ConfigurationError: a calibration is of another model, criterion or version than is used now.
    """
    curves: dict[tuple[str, str], Curve] = {}
    versions = {criterion.name: criterion.version for criterion in criteria_of(settings)}
    models = {judge.id: judge.model for judge in judges}
    configured = {model.id for model in settings.models}
    for path in settings.calibration:
        for one in load(path):
            if one.judge in configured and one.judge not in models:
                continue  # of the judge that is left out this time
            _refuse_others(one, path, models=models, versions=versions)
            curves[one.judge, one.criterion] = one.curve

    def calibrate(judge: str, criterion: Criterion, value: float) -> float:
        curve = curves.get((judge, criterion.name))
        return value if curve is None else curve(value)

    return calibrate


def _refuse_others(one: Calibration, path: Path, *, models: dict[str, str], versions: dict[str, int]) -> None:
    used = (models.get(one.judge), versions.get(one.criterion), prompts.VERSION)
    if used != (one.model, one.version, one.prompts):
        raise ConfigurationError(
            f"the calibration {path} is of {one.judge} ({one.model}), {one.criterion}@{one.version} and prompts "
            f"{one.prompts}; configured are {used[0] or 'no such judge'}, version {used[1] or 'none'} and prompts "
            f"{used[2]}. Fit it anew with `flywheel judge evaluate --calibrate`, or take it out of judges.calibration"
        )


def _isotonic(x: Floats, y: Floats) -> Curve:
    """The nondecreasing shares with the least squared error, by pooling adjacent violators (Ayer et al. 1955)."""
    knots, index = np.unique(x, return_inverse=True)
    weights = np.bincount(index).astype(np.float64)
    means = np.bincount(index, weights=y) / weights
    blocks: list[tuple[float, float, int]] = []  # mean, weight, knots
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        blocks.append((mean, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (upper, more, right), (lower, some, left) = blocks.pop(), blocks.pop()
            blocks.append(((upper * more + lower * some) / (more + some), more + some, left + right))
    shares = [mean for mean, _, count in blocks for _ in range(count)]
    return Curve(scores=tuple(knots.tolist()), shares=tuple(shares))


def _platt(x: Floats, y: Floats) -> Curve:
    """A logistic curve by Newton's method, with targets drawn in as by Platt (1999); as knots at each hundredth."""
    positive = float(y.sum())
    high, low = (positive + 1) / (positive + 2), 1 / (len(y) - positive + 2)
    target = np.where(y > 0, high, low)
    design = np.stack([x, np.ones_like(x)], axis=1)
    weights = np.zeros(2)
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-np.clip(design @ weights, -500, 500)))
        slope = design.T @ (target - share)
        curvature = (design * (share * (1 - share))[:, None]).T @ design + FLAT * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-10:
            break
    knots = np.linspace(0, 1, 101)
    shares = 1 / (1 + np.exp(-np.clip(knots * weights[0] + weights[1], -500, 500)))
    return Curve(scores=tuple(knots.tolist()), shares=tuple(shares.tolist()))
