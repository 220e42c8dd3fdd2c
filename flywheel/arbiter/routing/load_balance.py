"""Load balance: the agent with the least to do."""

from collections.abc import Hashable
from typing import Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.routing.strategy import IDLE, Distribution, Pool, distribution_of, evenly, standing_in
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy


class LoadBalance(Struct, frozen=True, kw_only=True):
    """The lowest active + 0.5 · queued (SPEC section 7); of equal ones one is drawn."""

    @property
    def kind(self) -> Literal[Strategy.LOAD_BALANCE]:
        """What the log calls it."""
        return Strategy.LOAD_BALANCE

    def reuse_key(self, task: RoutedTask) -> Hashable | None:  # noqa: ARG002 - of the protocol
        """Loads change with every decision."""
        return None

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:  # noqa: ARG002 - of the protocol
        """All probability to the lowest load."""
        loads = [pool.loads.get(profile.id, IDLE) for profile in pool.profiles]
        totals = np.array([load.total for load in loads])
        lowest = totals == totals.min()
        ties = int(lowest.sum())

        def why_score(i: int) -> str:
            return f"load {totals[i]:g} = {loads[i].active} active + 0.5 × {loads[i].queued} queued"

        def why_chosen(i: int) -> str:
            drawn = f"drawn among {ties} with the lowest load" if ties > 1 else "the lowest load"
            return f"{pool.profiles[i].id}: {drawn}; {why_score(i)}"

        return distribution_of(
            evenly(lowest),
            scores=1.0 / (1.0 + totals),
            estimates=pool.belief.utility[pool.members],
            standing=standing_in(pool),
            why_score=why_score,
            why_chosen=why_chosen,
        )
