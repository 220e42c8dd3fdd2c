"""Relative ranking within a group: which of several answers to one task are better, as numbers for GRPO.

Every pair is shown to the judge twice, once in each order. Who is preferred in both orders wins; who is preferred only
where it comes first, or second, does not: that is the judge's bias for a place, and the pair is a tie. A pair of which
a comparison is an abstention counts for nobody.

The scores are Bradley and Terry's (1952): strengths π with P(i beats j) = πᵢ / (πᵢ + πⱼ), ties half a win for each,
fitted by the minorization of Hunter (2004) with one drawn game of each answer against an opponent of strength 1, which
keeps winners of everything finite. An answer's score is its expected share of wins against each other one,

    scoreᵢ = mean over j ≠ i of πᵢ / (πᵢ + πⱼ),

in 0–1, with mean ½ over the group. Where pairs are missing it does not depend on whom an answer happened to meet.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.evaluation.judges.criteria import Criterion
from flywheel.arbiter.evaluation.judges.judge import Judge
from flywheel.arbiter.evaluation.judges.material import digest_of
from flywheel.arbiter.evaluation.judges.opinions import Abstention
from flywheel.arbiter.evaluation.judges.prompts import compare_question
from flywheel.arbiter.evaluation.judges.replies import Better, Choice, read_choice

PRIOR_GAMES = 1.0
STEPS = 10_000
CLOSE = 1e-12
TIE = 0.5
Floats = NDArray[np.float64]
POINTS: dict[Better, float] = {"first": 1.0, "tie": TIE, "second": 0.0}


class Comparer(Protocol):
    """Anything that says which of two answers is better."""

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Choice | Abstention]:
        """The better of each pair, in their order; the order within a pair is the one they are shown in."""
        ...


class JudgeComparer:
    """A judge that compares answers to one task by one criterion."""

    def __init__(self, judge: Judge, *, criterion: Criterion, task: str, max_characters: int) -> None:
        """Nothing is asked yet; a task and two answers of more characters together are not compared."""
        self._judge = judge
        self._criterion = criterion
        self._task = task
        self._max_characters = max_characters

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Choice | Abstention]:
        """See ``Comparer``."""
        lengths = [len(self._task) + len(first) + len(second) for first, second in pairs]
        shown = [pair for pair, length in zip(pairs, lengths, strict=True) if length <= self._max_characters]
        replies = iter(
            self._judge.ask(
                [compare_question(self._criterion, self._task, first, second) for first, second in shown],
                read_choice,
                ids=[digest_of(self._criterion.label, self._task, first, second).hex() for first, second in shown],
            )
        )
        return [next(replies) if length <= self._max_characters else self._not_shown(length) for length in lengths]

    def _not_shown(self, length: int) -> Abstention:
        reason = f"task and answers have {length:,} characters, {self._max_characters:,} are shown"
        return Abstention(kind="too-long", reason=reason)


class Match(Struct, frozen=True, kw_only=True):
    """Two answers, by their places in the group, and what became of them.

    ``points`` are the first one's: 1 won, 0 lost, ½ tied; None: a comparison is missing. ``swayed``: the judge
    preferred a place instead of an answer.
    """

    first: int
    second: int
    points: float | None
    swayed: bool = False
    reasons: tuple[str, ...] = ()


class Ranking(Struct, frozen=True, kw_only=True):
    """A group of answers, ranked.

    Attributes:
        scores: of each answer, 0–1; None where it was compared with none.
        matches: the evidence.
    """

    scores: tuple[float | None, ...]
    matches: tuple[Match, ...]

    @property
    def abstained(self) -> int:
        """Pairs without a result."""
        return sum(match.points is None for match in self.matches)

    @property
    def swayed_fraction(self) -> float | None:
        """Share of the compared pairs in which the order decided; None where none was compared."""
        compared = [match.swayed for match in self.matches if match.points is not None]
        return sum(compared) / len(compared) if compared else None


def rank(answers: Sequence[str], comparer: Comparer) -> Ranking:
    """Rank the answers of a group. Those with the same words tie, and nobody is asked."""
    places = list(combinations(range(len(answers)), 2))
    different = [(i, j) for i, j in places if answers[i] != answers[j]]
    texts = {pair for i, j in different for pair in ((answers[i], answers[j]), (answers[j], answers[i]))}
    asked = sorted(texts)
    said = dict(zip(asked, comparer.compare(asked) if asked else [], strict=True))
    matches = []
    for i, j in places:
        if answers[i] == answers[j]:
            matches.append(Match(first=i, second=j, points=TIE, reasons=("the same words",)))
        else:
            matches.append(_match(i, j, said[answers[i], answers[j]], said[answers[j], answers[i]]))
    return Ranking(scores=strengths(len(answers), matches), matches=tuple(matches))


def strengths(count: int, matches: Iterable[Match]) -> tuple[float | None, ...]:
    """The scores of so many answers, by the formula above."""
    games, points = np.zeros((count, count)), np.zeros(count)
    for match in matches:
        if match.points is not None:
            games[match.first, match.second] += 1
            games[match.second, match.first] += 1
            points[match.first] += match.points
            points[match.second] += 1 - match.points
    met = games.sum(axis=1) > 0
    if not met.any():
        return (None,) * count
    strength = _fitted(games[np.ix_(met, met)], points[met])
    chances = strength[:, None] / (strength[:, None] + strength[None, :])
    np.fill_diagonal(chances, 0.0)
    scores = iter((chances.sum(axis=1) / (len(strength) - 1)).tolist())
    return tuple(next(scores) if one else None for one in met)


def _fitted(games: Floats, points: Floats) -> Floats:
    strength: Floats = np.ones(len(points))
    for _ in range(STEPS):
        pressure = (games / (strength[:, None] + strength[None, :])).sum(axis=1) + PRIOR_GAMES / (strength + 1)
        new: Floats = (points + PRIOR_GAMES / 2) / pressure
        if np.abs(np.log(new / strength)).max() < CLOSE:
            return new
        strength = new
    return strength


def _match(i: int, j: int, forward: Choice | Abstention, backward: Choice | Abstention) -> Match:
    reasons = (forward.reason, backward.reason)
    if isinstance(forward, Abstention) or isinstance(backward, Abstention):
        return Match(first=i, second=j, points=None, reasons=reasons)
    ahead, behind = POINTS[forward.better], 1 - POINTS[backward.better]
    if ahead == behind:
        return Match(first=i, second=j, points=ahead, reasons=reasons)
    return Match(first=i, second=j, points=TIE, swayed=True, reasons=reasons)
