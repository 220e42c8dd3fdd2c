"""ε-greedy: the best known agent, and now and then any."""

from collections.abc import Hashable
from typing import Literal

from msgspec import Struct

from flywheel.arbiter.routing.strategy import Distribution, Pool, distribution_of, evenly, standing_in
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy


class EpsilonGreedy(Struct, frozen=True, kw_only=True):
    """With probability ε = max(lowest, first · decayⁿ) any candidate, otherwise the one with the highest estimate.

    n are the tasks that the candidates did in the task type; the numbers are SPEC section 7's.
    """

    first: float = 0.2
    decay: float = 0.995
    lowest: float = 0.01

    @property
    def kind(self) -> Literal[Strategy.MULTI_ARMED_BANDIT]:
        """What the log calls it."""
        return Strategy.MULTI_ARMED_BANDIT

    def reuse_key(self, task: RoutedTask) -> Hashable | None:  # noqa: ARG002 - of the protocol
        """Belief and candidates say everything."""
        return "epsilon-greedy"

    def epsilon(self, tasks: float) -> float:
        """The probability of exploring after this many tasks."""
        return max(self.lowest, self.first * float(self.decay**tasks))

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """ε in equal parts for all, the rest for the highest estimate."""
        belief, members = pool.belief, pool.members
        utility, done = belief.utility[members], belief.tasks[members]
        epsilon = self.epsilon(float(done.sum()))
        greedy = (1.0 - epsilon) * evenly(utility == utility.max())
        propensities = greedy + epsilon / len(members)

        def why_score(i: int) -> str:
            return f"estimated utility {utility[i]:.3f} after {done[i]:.0f} {task.task_type} tasks"

        def why_chosen(i: int) -> str:
            explored = f"{epsilon / len(members):.3f} by exploring (ε = {epsilon:.3f})"
            parts = f"{greedy[i]:.3f} as the highest estimate and {explored}" if greedy[i] > 0 else explored
            return f"{pool.profiles[i].id} was drawn with probability {propensities[i]:.3f}: {parts}; {why_score(i)}"

        return distribution_of(
            propensities,
            scores=utility,
            estimates=utility,
            standing=standing_in(pool),
            why_score=why_score,
            why_chosen=why_chosen,
        )
