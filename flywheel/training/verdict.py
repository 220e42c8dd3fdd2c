"""Is the candidate better? A pure rule over paired answers to held-out tasks (SPEC section 9).

Registered if its exact accuracy is at least 10 % (relative) above the baseline's, the difference is significant, and
no task type is significantly worse. Both models answered the same tasks, so the test is paired: McNemar's exact test
(McNemar 1947; the conditional binomial form) on the tasks that only one of them got right.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, stdev

from msgspec import Struct


class TaskOutcome(Struct, frozen=True, kw_only=True):
    """One task's answer: right or not."""

    task_id: str
    task_type: str
    exact: bool


class Comparison(Struct, frozen=True, kw_only=True):
    """Candidate against baseline on the same tasks.

    Attributes:
        tasks: number of tasks.
        baseline: exact accuracy, 0–1.
        candidate: exact accuracy, 0–1.
        low: lower end of the difference's interval (normal approximation over paired differences).
        high: its upper end.
        only_candidate: tasks that only the candidate got right.
        only_baseline: tasks that only the baseline got right.
        p_value: two-sided, of McNemar's exact test.
    """

    tasks: int
    baseline: float
    candidate: float
    low: float
    high: float
    only_candidate: int
    only_baseline: int
    p_value: float

    @property
    def difference(self) -> float:
        """Candidate minus baseline, in accuracy."""
        return self.candidate - self.baseline


class Judgement(Struct, frozen=True, kw_only=True):
    """The rule's outcome, with the numbers that decided it."""

    is_better: bool
    reason: str
    overall: Comparison
    by_task_type: dict[str, Comparison]


def judge(
    baseline: Sequence[TaskOutcome],
    candidate: Sequence[TaskOutcome],
    *,
    min_improvement: float = 0.1,
    confidence: float = 0.95,
) -> Judgement:
    """Apply the rule.

    Args:
        baseline: the baseline's outcomes.
        candidate: the candidate's outcomes on the same tasks, in any order.
        min_improvement: relative improvement of accuracy that is asked for.
        confidence: of the tests and intervals, 0–1.

    Raises:
        ValueError: the two did not answer the same tasks, or none.
    """
    before = {outcome.task_id: outcome for outcome in baseline}
    after = {outcome.task_id: outcome for outcome in candidate}
    if not before or before.keys() != after.keys():
        raise ValueError(f"{len(before.keys() ^ after.keys())} of {len(before)} tasks were not answered by both models")
    pairs = [(before[task_id], after[task_id]) for task_id in sorted(before)]
    by_type: dict[str, list[tuple[TaskOutcome, TaskOutcome]]] = defaultdict(list)
    for pair in pairs:
        by_type[pair[0].task_type].append(pair)
    overall = compare(pairs, confidence=confidence)
    types = {name: compare(members, confidence=confidence) for name, members in sorted(by_type.items())}
    problems = problems_of(overall, types, min_improvement=min_improvement, alpha=1 - confidence)
    return Judgement(
        is_better=not problems,
        reason="; ".join(problems) or f"{described(overall)}, and no task type is significantly worse",
        overall=overall,
        by_task_type=types,
    )


def problems_of(
    overall: Comparison, types: Mapping[str, Comparison], *, min_improvement: float, alpha: float
) -> list[str]:
    """Why the candidate is not registered, a sentence each."""
    problems = []
    needed = overall.baseline * (1 + min_improvement)
    if overall.candidate < needed or overall.difference <= 0:
        wanted = f"at least {needed:.1%} was needed" if needed else "nothing was learned"
        problems.append(f"{described(overall)}: {wanted}")
    elif overall.p_value > alpha:
        problems.append(f"{described(overall)}: not significant (p = {overall.p_value:.2f})")
    for name, comparison in types.items():
        if comparison.difference < 0 and comparison.p_value <= alpha:
            problems.append(f"{name} is significantly worse: {described(comparison)}")
    return problems


def compare(pairs: Sequence[tuple[TaskOutcome, TaskOutcome]], *, confidence: float) -> Comparison:
    """Compare paired outcomes (baseline, candidate)."""
    differences = [int(after.exact) - int(before.exact) for before, after in pairs]
    mean = fmean(differences)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    margin = z * stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 1.0
    gained, lost = differences.count(1), differences.count(-1)
    return Comparison(
        tasks=len(pairs),
        baseline=fmean(before.exact for before, _ in pairs),
        candidate=fmean(after.exact for _, after in pairs),
        low=max(-1.0, mean - margin),
        high=min(1.0, mean + margin),
        only_candidate=gained,
        only_baseline=lost,
        p_value=mcnemar_exact(gained, lost),
    )


def mcnemar_exact(gained: int, lost: int) -> float:
    """Two-sided p-value that gains and losses are equally likely, from their counts."""
    discordant = gained + lost
    tail: float = sum(math.comb(discordant, k) for k in range(min(gained, lost) + 1)) / 2**discordant
    return min(1.0, 2 * tail)


def described(comparison: Comparison) -> str:
    """The comparison in words."""
    return (
        f"{comparison.candidate:.1%} exact against {comparison.baseline:.1%} "
        f"on {comparison.tasks} held-out tasks ({comparison.difference:+.1%}, "
        f"{comparison.low:+.1%} to {comparison.high:+.1%})"
    )
