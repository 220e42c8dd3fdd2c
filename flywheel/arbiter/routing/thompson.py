"""Thompson sampling: each agent is chosen as often as it is likely to be the best one for this task type."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.routing.strategy import Candidate, Choice, Evidence, Scored
from flywheel.records import Strategy

GRID_POINTS = 4_096
Vector = NDArray[np.float64]


class ThompsonSampling(Struct, frozen=True, kw_only=True):
    """Thompson sampling over the quality of answers, with a trial share for newcomers.

    The posterior of an agent's mean quality in a task type is Beta(1 + Σq, 1 + Σ(1 − q)): the prior is uniform, and
    an answer of quality q counts as q successes and 1 − q failures. For qualities strictly between 0 and 1 that is
    wider than the data warrant, which errs on the side of exploring (Agrawal and Goyal 2012, section 1, reach the
    same mean by tossing a coin of bias q).

    Attributes:
        trial_share: probability that a task goes to a newcomer whatever its chances, so that a new agent is measured
            even beside a nearly perfect one; 10 % is the first step of a rollout (SPEC section 10).
        trial_tasks: an agent is a newcomer in a task type until it has done this many tasks of it.
    """

    trial_share: float = 0.1
    trial_tasks: int = 20

    def choose(self, task_type: str, candidates: Sequence[Candidate], rng: np.random.Generator) -> Choice:
        """Choose one of at least one candidates; the logged propensities are exact, not estimated from samples."""
        parameters = [posterior(candidate.evidence) for candidate in candidates]
        best = best_probabilities(parameters)
        trials = self._trial_probabilities(candidates)
        samples = np.array([rng.beta(a, b) for a, b in parameters])
        on_trial = bool(trials.any()) and rng.random() < self.trial_share
        index = int(rng.choice(len(candidates), p=trials)) if on_trial else int(samples.argmax())
        share = self.trial_share if trials.any() else 0.0
        propensities = (1.0 - share) * best + share * trials
        scored = tuple(
            Scored(
                candidate=candidate,
                estimate=a / (a + b),
                score=float(sample),
                propensity=float(propensity),
                reason=f"sampled {sample:.3f} from Beta({a:.1f}, {b:.1f}): mean quality {a / (a + b):.3f} "
                f"after {candidate.evidence.tasks} {task_type} tasks",
            )
            for candidate, (a, b), sample, propensity in zip(candidates, parameters, samples, propensities, strict=True)
        )
        return Choice(
            selected=candidates[index].profile.id,
            strategy=Strategy.MULTI_ARMED_BANDIT,
            confidence=float(best[index]),
            scored=scored,
            primary_reason=self._on_trial(scored[index], task_type) if on_trial else _won(scored, index),
            secondary_factors=(f"best of {len(candidates)} candidates with probability {best[index]:.3f}",),
        )

    def _trial_probabilities(self, candidates: Sequence[Candidate]) -> Vector:
        """Newcomers' shares of the trial tasks; all 0 where there is no newcomer."""
        newcomers = np.array([candidate.evidence.tasks < self.trial_tasks for candidate in candidates], dtype=float)
        shares: Vector = newcomers / max(1.0, newcomers.sum())
        return shares

    def _on_trial(self, scored: Scored, task_type: str) -> str:
        return (
            f"trial: {self.trial_share:.0%} of tasks go to agents with fewer than {self.trial_tasks} tasks of "
            f"type {task_type}, and {scored.candidate.profile.id} has {scored.candidate.evidence.tasks}"
        )


def posterior(evidence: Evidence) -> tuple[float, float]:
    """The parameters of the Beta posterior of mean quality, from a uniform prior."""
    return 1.0 + evidence.quality_sum, 1.0 + evidence.tasks - evidence.quality_sum


def best_probabilities(parameters: Sequence[tuple[float, float]]) -> Vector:
    """For each Beta distribution the probability that its draw is the largest, shape (n,), summing to 1.

    ∫ f_i(x) Π_{j≠i} F_j(x) dx by the midpoint rule: exact to 1e-3 up to tens of thousands of tasks per agent, where
    the peaks become as narrow as the grid.
    """
    x = (np.arange(GRID_POINTS) + 0.5) / GRID_POINTS
    log_density = np.array([(a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) for a, b in parameters])
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    density /= density.sum(axis=1, keepdims=True)
    # Half of a cell's own mass: two draws from one cell are as likely to be in either order.
    cumulative = np.cumsum(density, axis=1) - density / 2.0
    others = np.array([np.delete(cumulative, i, axis=0).prod(axis=0) for i in range(len(parameters))])
    best: Vector = (density * others).sum(axis=1)
    best /= best.sum()
    return best


def _won(scored: Sequence[Scored], index: int) -> str:
    winner = scored[index]
    others = [other for position, other in enumerate(scored) if position != index]
    if not others:
        return f"{winner.candidate.profile.id} is the only candidate; {winner.reason}"
    runner_up = max(others, key=lambda other: other.score)
    return (
        f"{winner.candidate.profile.id} {winner.reason}; "
        f"next was {runner_up.candidate.profile.id} with {runner_up.score:.3f}"
    )
