"""Thompson sampling: each agent is chosen as often as it is likely to be the best one for this task type."""

from collections.abc import Hashable
from typing import Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.routing.strategy import Distribution, Pool, distribution_of, standing_in
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy


class ThompsonSampling(Struct, frozen=True, kw_only=True):
    """Thompson sampling over mean utility, with a trial share for newcomers.

    To sample from every posterior and take the largest is to choose each agent with the probability that it is the best
    (Thompson 1933). That probability is computed (``TypeBelief.best``) and drawn by.

    Attributes:
        trial_share: share of tasks that goes to newcomers whatever their chances, so that a new agent is measured even
            beside a nearly perfect one; 10 % is the first step of a rollout (SPEC section 10).
        trial_tasks: an agent is a newcomer until it has done this many tasks, of whatever types.
    """

    trial_share: float = 0.1
    trial_tasks: int = 20

    @property
    def kind(self) -> Literal[Strategy.MULTI_ARMED_BANDIT]:
        """What the log calls it."""
        return Strategy.MULTI_ARMED_BANDIT

    def reuse_key(self, task: RoutedTask) -> Hashable | None:  # noqa: ARG002 - of the protocol
        """Belief and candidates say everything."""
        return "thompson"

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """The probabilities of being the best, and of the trial share an equal part for each newcomer."""
        belief, members = pool.belief, pool.members
        best = belief.best(members)
        tasks = belief.tasks_overall[members]
        new = tasks < self.trial_tasks
        newcomers = int(new.sum())
        share = self.trial_share if 0 < newcomers < len(members) else 0.0
        trial = np.where(new, share / max(1, newcomers), 0.0)
        mean, deviation, penalty = belief.mean[members], belief.deviation[members], belief.penalty[members]
        done = belief.tasks[members]
        propensities = (1.0 - share) * best + trial

        def why_score(i: int) -> str:
            cost = f", less {penalty[i]:.3f} for cost and time" if penalty[i] > 0 else ""
            return f"mean quality {mean[i]:.3f} ± {deviation[i]:.3f} after {done[i]:.0f} {task.task_type} tasks{cost}"

        def why_chosen(i: int) -> str:
            parts = f"{(1.0 - share) * best[i]:.3f} as the likely best"
            if trial[i] > 0:
                parts += f" and {trial[i]:.3f} on trial, with {tasks[i]:.0f} of {self.trial_tasks} tasks done"
            return f"{pool.profiles[i].id} was drawn with probability {propensities[i]:.3f}: {parts}; {why_score(i)}"

        return distribution_of(
            propensities,
            scores=best,
            estimates=mean - penalty,
            standing=standing_in(pool),
            why_score=why_score,
            why_chosen=why_chosen,
        )
