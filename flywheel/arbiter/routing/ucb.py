"""Upper confidence bounds: the agent that would be the best if all went as well as it plausibly may."""

from collections.abc import Hashable
from typing import Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.routing.strategy import Distribution, Pool, distribution_of, evenly, standing_in
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy


class UpperConfidenceBound(Struct, frozen=True, kw_only=True):
    """UCB-tuned (Auer, Cesa-Bianchi and Fischer 2002, section 4), with what the prior is worth counted as tasks.

    The bound is mean + √(ln N / n · min(¼, s² + √(2 ln N / n))) less the penalty, with n the agent's tasks in the type,
    N those of all candidates, and s² the variance of the agent's rewards. Of equal bounds one is drawn.
    """

    @property
    def kind(self) -> Literal[Strategy.MULTI_ARMED_BANDIT]:
        """What the log calls it."""
        return Strategy.MULTI_ARMED_BANDIT

    def reuse_key(self, task: RoutedTask) -> Hashable | None:  # noqa: ARG002 - of the protocol
        """Belief and candidates say everything."""
        return "ucb"

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """All probability to the highest bound."""
        belief, members = pool.belief, pool.members
        tasks = belief.weight[members] + belief.strength[members]
        mean, penalty, done = belief.mean[members], belief.penalty[members], belief.tasks[members]
        rate = np.log(max(np.e, tasks.sum())) / tasks
        bonus = np.sqrt(rate * np.minimum(0.25, belief.variance[members] + np.sqrt(2.0 * rate)))
        bound = mean + bonus - penalty

        def why_score(i: int) -> str:
            cost = f" − {penalty[i]:.3f} for cost and time" if penalty[i] > 0 else ""
            sums = f"{mean[i]:.3f} + {bonus[i]:.3f}{cost}"
            return f"bound {bound[i]:.3f} = {sums} after {done[i]:.0f} {task.task_type} tasks"

        top = bound == bound.max()
        ties = int(top.sum())

        def why_chosen(i: int) -> str:
            drawn = f"drawn among {ties} with the highest bound" if ties > 1 else "the highest bound"
            return f"{pool.profiles[i].id}: {drawn}; {why_score(i)}"

        return distribution_of(
            evenly(top),
            scores=bound,
            estimates=mean - penalty,
            standing=standing_in(pool),
            why_score=why_score,
            why_chosen=why_chosen,
        )
