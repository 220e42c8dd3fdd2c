"""The shape of a routing strategy: who could take the task and what is believed of them in, probabilities out.

A strategy does not draw. It says with which probability each candidate is to be chosen, and one place (``draw``) draws
by them: so logged propensities are what was done, whatever the strategy, and not an estimate of it.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Indices, TypeBelief
from flywheel.arbiter.routing.normals import best_of_normals
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy

Vector = NDArray[np.float64]


class Load(Struct, frozen=True, kw_only=True):
    """What an agent is busy with: tasks it works on, and tasks that wait for it.

    ``resting``: whether it is left alone for now since it kept failing.
    """

    active: int = 0
    queued: int = 0
    resting: bool = False

    @property
    def total(self) -> float:
        """A waiting task counts half (SPEC section 7)."""
        return self.active + 0.5 * self.queued


IDLE = Load()
Loads = Mapping[str, Load]


class Pool(Struct, frozen=True, kw_only=True):
    """The agents among whom one decision is made.

    Attributes:
        profiles: at least one.
        agent_ids: theirs.
        members: their positions in the belief.
        belief: of the task's type.
        loads: by agent id; who is absent is idle.
        capable: whether they take tasks of this type; otherwise they are the general pool.
    """

    profiles: tuple[AgentProfile, ...]
    agent_ids: tuple[str, ...]
    members: Indices
    belief: TypeBelief
    loads: Loads
    capable: bool = True


class Standing:
    """How the candidates compare by what is known of them; the strategy has no part in it."""

    def __init__(self, utility: Vector, deviation: Vector) -> None:
        self.utility, self.deviation = utility, deviation

    @cached_property
    def best(self) -> Vector:
        """Each one's probability of being the best, by normal approximations of the posteriors as they are."""
        return best_of_normals(self.utility, self.deviation)


def standing_in(pool: Pool) -> Standing:
    """How the candidates stand by the belief, as it is at this moment."""
    return Standing(pool.belief.utility[pool.members], pool.belief.deviation[pool.members])


class Distribution(Struct, frozen=True, kw_only=True):
    """What a strategy makes of a pool; arrays by the pool's order.

    Attributes:
        propensities: with which probability each is to be chosen, summing to 1.
        scores: what that follows from, in the strategy's own unit.
        estimates: expected utility, 0–1 where nothing but quality counts.
        standing: what confidence follows from.
        cumulative: running sum of the propensities.
        why_score: a candidate's score in words.
        why_chosen: in words why a candidate was chosen, if it was.
    """

    propensities: Vector
    scores: Vector
    estimates: Vector
    standing: Standing
    cumulative: Vector
    why_score: Callable[[int], str]
    why_chosen: Callable[[int], str]


class RoutingStrategy(Protocol):
    """Says how likely each candidate is to be chosen. Pure: belief and task come in, nothing is drawn."""

    @property
    def kind(self) -> Strategy:
        """What the log calls it."""
        ...

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """The candidates' probabilities, of at least one candidate."""
        ...

    def reuse_key(self, task: RoutedTask) -> Hashable | None:
        """What a distribution depends on besides belief and candidates; None where it is new for every task."""
        ...


class Scored(Struct, frozen=True, kw_only=True):
    """One candidate as the strategy saw it.

    Attributes:
        profile: who.
        capability: 1 where it takes tasks of this type, otherwise 0.
        load: its load as a share of the largest allowed one, 0–1.
        estimate: expected utility; 0–1 where nothing but quality counts.
        score: what the choice follows from.
        propensity: probability with which it was to be chosen.
        reason: its score in words.
    """

    profile: AgentProfile
    capability: float
    load: float
    estimate: float
    score: float
    propensity: float
    reason: str


class Choice:
    """A decision. What the log needs besides who was chosen is worked out when it is asked for."""

    def __init__(
        self,
        index: int,
        pool: Pool,
        distribution: Distribution,
        *,
        strategy: Strategy,
        because: str = "",
        max_active: int = 10,
    ) -> None:
        self.index = index
        self.strategy = strategy
        self._pool, self._distribution, self._because, self._max_active = pool, distribution, because, max_active

    @property
    def selected(self) -> str:
        """Id of the agent that gets the task."""
        return self._pool.profiles[self.index].id

    @property
    def confidence(self) -> float:
        """Probability that no other candidate is better, given the evidence."""
        return float(self._distribution.standing.best[self.index])

    @property
    def propensity(self) -> float:
        """Probability with which this agent was to be chosen."""
        return float(self._distribution.propensities[self.index])

    @property
    def primary_reason(self) -> str:
        """Why, in one sentence."""
        return self._because + self._distribution.why_chosen(self.index)

    @property
    def secondary_factors(self) -> tuple[str, ...]:
        """What else there is to know."""
        count = len(self._pool.profiles)
        return (f"best of {count} candidates with probability {self.confidence:.3f}",)

    @cached_property
    def scored(self) -> tuple[Scored, ...]:
        """All candidates, the chosen one among them."""
        found, pool = self._distribution, self._pool
        return tuple(
            Scored(
                profile=profile,
                capability=float(pool.capable),
                load=min(1.0, pool.loads.get(profile.id, IDLE).total / self._max_active),
                estimate=float(found.estimates[position]),
                score=float(found.scores[position]),
                propensity=float(found.propensities[position]),
                reason=found.why_score(position),
            )
            for position, profile in enumerate(pool.profiles)
        )


def distribution_of(
    propensities: Vector,
    *,
    scores: Vector,
    estimates: Vector,
    standing: Standing,
    why_score: Callable[[int], str],
    why_chosen: Callable[[int], str],
) -> Distribution:
    """A distribution with its running sums."""
    cumulative = propensities.cumsum()
    return Distribution(
        propensities=propensities / cumulative[-1],
        scores=scores,
        estimates=estimates,
        standing=standing,
        cumulative=cumulative / cumulative[-1],
        why_score=why_score,
        why_chosen=why_chosen,
    )


def draw(distribution: Distribution, rng: np.random.Generator) -> int:
    """Draw one candidate by the propensities."""
    # Right of all that are not larger, so that a candidate of probability 0 is never drawn.
    return int(distribution.cumulative.searchsorted(rng.random(), side="right"))


def evenly(chosen: NDArray[np.bool_]) -> Vector:
    """The same probability for each that is marked: how ties are broken."""
    shares: Vector = chosen / chosen.sum()
    return shares
