"""What each term of a rubric does to the rewards of answers that were scored: the rubric without it, beside the whole.

The question is a trainer's. Group-relative learning sees only differences within a group, the answers to one task: a
term that is the same for all of them teaches nothing however much it weighs, and one that differs while nothing else
does is all that is learned, however little it weighs.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.evaluation.rubrics.rubric import SCORES, TERMS, Rubric
from flywheel.records import RubricScores

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[np.float64]]

How = Literal["drop", "zero"]
EQUAL = 1e-9
MOST_OF_A_GROUP = 1_000
"""Answers of a group whose order is compared pair by pair; of a larger group the first ones are."""


class ScoredAnswer(Struct, frozen=True, kw_only=True):
    """An answer as it was scored.

    Attributes:
        task_type: sets its weights.
        group: what answers to the same task share.
        scores: the six.
        reward: the overall score that was logged.
        success: how the task ended.
        rubric: what scored it; None where nothing is known of that.
    """

    task_type: str
    group: str
    scores: RubricScores
    reward: float
    success: bool
    rubric: str | None = None


class TermEffect(Struct, frozen=True, kw_only=True, rename="camel"):
    """The rubric without one term, beside the whole one. Correlations are −1–1, None where one side never varies.

    Attributes:
        term: which; ``safety`` is the gate, left open.
        weight: None for the gate.
        mean_reward_change: of all answers.
        rank_correlation: Spearman's, of the rewards without it with the whole rubric's.
        spread_share: how much of the difference of rewards within groups this term makes; the terms' sum up to 1, and
            one that works against the others is negative. None where no group differs.
        orderings: pairs of answers to one task that the whole rubric orders.
        orderings_reversed: of them, ordered the other way without the term.
        orderings_lost: of them, equal without the term.
        silent_groups: of all groups those without any difference, once the term is gone: nothing is learned from them.
        decisions_changed: answers that are above the threshold with the term and not without it, or the other way.
        outcome_correlation: of the rewards without it with success; compare it with the whole rubric's.
    """

    term: str
    weight: float | None
    mean_reward_change: float
    rank_correlation: float | None
    spread_share: float | None
    orderings: int
    orderings_reversed: int
    orderings_lost: int
    silent_groups: int
    decisions_changed: int
    outcome_correlation: float | None


class TypeAblation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The ablation over the answers of one task type.

    Attributes:
        task_type: which.
        answers: how many.
        groups: tasks with at least two answers.
        silent_groups: of them, those whose answers all have the same reward.
        mean_reward: by the whole rubric.
        outcome_correlation: of the rewards with success.
        scored_otherwise: answers whose logged reward is not this rubric's: another one, or another version, gave it.
        terms: the five, and the gate.
    """

    task_type: str
    answers: int
    groups: int
    silent_groups: int
    mean_reward: float
    outcome_correlation: float | None
    scored_otherwise: int
    terms: tuple[TermEffect, ...]


def ablate(
    answers: Sequence[ScoredAnswer], rubric: Rubric, *, how: How = "drop", threshold: float = 0.8
) -> tuple[TypeAblation, ...]:
    """The ablation of each task type, the one with most answers first.

    Args:
        answers: as scored; their rewards are computed anew from their scores.
        rubric: the whole one.
        how: ``drop`` shares the term's weight out among the others; ``zero`` leaves them as they are.
        threshold: of rewards, for decisions; SFT takes answers from 0.8 on (SPEC section 6).
    """
    by_type: defaultdict[str, list[ScoredAnswer]] = defaultdict(list)
    for answer in answers:
        by_type[answer.task_type].append(answer)
    ordered = sorted(by_type.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_of_type(task_type, some, rubric, how, threshold) for task_type, some in ordered)


class _Table:
    """The scores of one task type's answers as columns, and the groups as rows that belong together."""

    def __init__(self, task_type: str, answers: Sequence[ScoredAnswer], rubric: Rubric) -> None:
        self.scores = np.array([[getattr(answer.scores, name) for name in SCORES] for answer in answers])
        self.weights = np.array([rubric.weights_of(task_type).of(term) for term in TERMS])
        self.safe = self.scores[:, -1] >= rubric.safety_threshold
        self.success = np.array([float(answer.success) for answer in answers])
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, answer in enumerate(answers):
            rows[answer.group].append(row)
        self.groups = [np.array(members) for members in rows.values() if len(members) > 1]

    def rewards(self, weights: "Array", *, gated: bool = True) -> "Array":
        """The rewards under these weights, shape (answers,)."""
        total: Array = np.minimum(1.0, self.scores[:, :-1] @ weights)
        return np.where(self.safe, total, 0.0) if gated else total

    def silent(self, rewards: "Array") -> int:
        """Groups without a difference."""
        return sum(bool(np.ptp(rewards[group]) <= EQUAL) for group in self.groups)


def _of_type(
    task_type: str, answers: Sequence[ScoredAnswer], rubric: Rubric, how: How, threshold: float
) -> TypeAblation:
    table = _Table(task_type, answers, rubric)
    whole = table.rewards(table.weights)
    logged = np.array([answer.reward for answer in answers])
    effects = [
        _effect(table, whole, threshold, term, table.rewards(_without(table.weights, index, how)))
        for index, term in enumerate(TERMS)
    ]
    gate = _effect(table, whole, threshold, "safety", table.rewards(table.weights, gated=False))
    return TypeAblation(
        task_type=task_type,
        answers=len(answers),
        groups=len(table.groups),
        silent_groups=table.silent(whole),
        mean_reward=float(whole.mean()),
        outcome_correlation=correlation(whole, table.success),
        scored_otherwise=int((np.abs(whole - logged) > 1e-6).sum()),
        terms=(*effects, gate),
    )


def _without(weights: "Array", index: int, how: How) -> "Array":
    left = weights.copy()
    left[index] = 0.0
    return left / left.sum() if how == "drop" and left.sum() > 0 else left


def _effect(table: _Table, whole: "Array", threshold: float, term: str, without: "Array") -> TermEffect:
    pairs, turned, lost = _orderings(table.groups, whole, without)
    return TermEffect(
        term=term,
        weight=None if term == "safety" else float(table.weights[SCORES.index(term)]),
        mean_reward_change=float(without.mean() - whole.mean()),
        rank_correlation=correlation(ranks(whole), ranks(without)),
        spread_share=None if term == "safety" else _spread_share(table, whole, term),
        orderings=pairs,
        orderings_reversed=turned,
        orderings_lost=lost,
        silent_groups=table.silent(without),
        decisions_changed=int(((whole >= threshold) != (without >= threshold)).sum()),
        outcome_correlation=correlation(without, table.success),
    )


def _spread_share(table: _Table, whole: "Array", term: str) -> float | None:
    """Covariance of the term's contribution with the reward within groups / the reward's variance there."""
    index = SCORES.index(term)
    given = np.where(table.safe, table.weights[index] * table.scores[:, index], 0.0)
    shared = total = 0.0
    for group in table.groups:
        off = whole[group] - whole[group].mean()
        shared += float(off @ given[group])
        total += float(off @ off)
    return shared / total if total > EQUAL else None


def _orderings(groups: "Sequence[Array]", whole: "Array", without: "Array") -> tuple[int, int, int]:
    """Pairs that the whole rubric orders, those that are ordered the other way without the term, those made equal."""
    pairs = turned = lost = 0
    for group in groups:
        members = group[:MOST_OF_A_GROUP]
        old, new = _signs(whole[members]), _signs(without[members])
        ordered = old > 0  # each pair once, seen from its better answer
        pairs += int(ordered.sum())
        turned += int((ordered & (new < 0)).sum())
        lost += int((ordered & (new == 0)).sum())
    return pairs, turned, lost


def _signs(rewards: "Array") -> "Array":
    differences = rewards[:, None] - rewards[None, :]
    signs: Array = np.where(np.abs(differences) <= EQUAL, 0.0, np.sign(differences))
    return signs


def correlation(one: "Array", other: "Array") -> float | None:
    """Pearson's correlation; None where one of them never varies."""
    if len(one) < 2 or np.ptp(one) <= EQUAL or np.ptp(other) <= EQUAL:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: "Array") -> "Array":
    """The ranks of values, equal ones sharing the mean of theirs."""
    _, inverse, counts = np.unique(np.round(values / EQUAL), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Array = last - (counts - 1) / 2
    return shared[inverse]
