"""The router: who may have the task, who can take it now, and by the strategy who gets it."""

from collections.abc import Hashable, Sequence

import numpy as np

from flywheel.arbiter.agents.honoured import not_honoured
from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Beliefs, Indices
from flywheel.arbiter.routing.load_balance import LoadBalance
from flywheel.arbiter.routing.strategy import Choice, Distribution, Loads, Pool, RoutingStrategy, draw
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.routing.thompson import ThompsonSampling
from flywheel.errors import ConfigurationError, NoAgentError, UnsupportedOptionError
from flywheel.records import Strategy

MAX_ACTIVE = 10
"""Tasks that an agent works on at once (SPEC section 7)."""
REMEMBERED = 1_000
"""Distributions and sets of candidates that are kept; more than there are task types times usual combinations."""


class _Candidates:
    """The agents that may have tasks of one kind, and whether they are capable of its type."""

    def __init__(self, profiles: tuple[AgentProfile, ...], members: Indices, *, capable: bool, because: str) -> None:
        self.profiles, self.members, self.capable, self.because = profiles, members, capable, because
        self.agent_ids = tuple(profile.id for profile in profiles)
        self.key = members.tobytes()


class Router:
    """Decides which agent gets a task. Not for several threads at once."""

    def __init__(
        self,
        profiles: Sequence[AgentProfile],
        beliefs: Beliefs,
        *,
        strategy: RoutingStrategy | None = None,
        max_active: int = MAX_ACTIVE,
    ) -> None:
        """A router over the agents that are there.

        Args:
            profiles: the agents, all of them active.
            beliefs: what is believed of them; its objective holds.
            strategy: Thompson sampling where none is given.
            max_active: tasks that an agent may work on at once, or its profile's ``max_concurrent`` where that is less;
                one that does gets no more while another has room.

        Raises:
            ConfigurationError: there is no agent.
        """
        if not profiles:
            raise ConfigurationError("no agent is active; add one under [[agents]] in flywheel.toml")
        self.beliefs = beliefs
        self.strategy: RoutingStrategy = strategy or ThompsonSampling()
        self._profiles = tuple(profiles)
        self._members = beliefs.positions([profile.id for profile in profiles])
        self._max_active = max_active
        self._room = {profile.id: min(max_active, profile.max_concurrent) for profile in profiles}
        self._candidates: dict[Hashable, _Candidates] = {}
        self._distributions: dict[Hashable, tuple[int, Distribution]] = {}

    def decide(
        self,
        task: RoutedTask,
        rng: np.random.Generator,
        *,
        loads: Loads | None = None,
        now: float = -np.inf,
        without: frozenset[str] = frozenset(),
    ) -> Choice:
        """Choose an agent.

        Args:
            task: for which.
            rng: all chance.
            loads: what agents are busy with; who is absent is idle.
            now: the moment, in days, by which evidence has aged.
            without: agents that cannot be had, for example since they just failed at this task.

        Raises:
            NoAgentError: the hard limits leave nobody.
            UnsupportedOptionError: since no agent can honour an option of the task.
        """
        loads = loads or {}
        candidates = self._awake(self._allowed(task, without), loads)
        belief = self.beliefs.of(task.task_type, now)
        strategy, because = self.strategy, candidates.because
        kind = strategy.kind if candidates.capable else Strategy.FALLBACK
        room, most = self._room, self._max_active
        busy = {agent_id for agent_id, load in loads.items() if load.active >= room.get(agent_id, most)}
        if busy:
            free = self._left_of(candidates, busy, "are busy")
            if free is None:
                strategy, kind = LoadBalance(), Strategy.FALLBACK
                because += f"all {len(candidates.profiles)} have all they may have; to wait for the least busy: "
            else:
                candidates, because = free, free.because
        pool = Pool(
            profiles=candidates.profiles,
            agent_ids=candidates.agent_ids,
            members=candidates.members,
            belief=belief,
            loads=loads,
            capable=candidates.capable,
        )
        distribution = self._distribution(strategy, task, pool, candidates.key)
        index = draw(distribution, rng)
        return Choice(index, pool, distribution, strategy=kind, because=because, max_active=self._max_active)

    def named(self, task: RoutedTask, agent_id: str) -> None:
        """Check that an agent may have the task that somebody wants it to do; nothing is chosen.

        Raises:
            NoAgentError: it is not active, or the hard limits keep the task from it.
        """
        profile = next((profile for profile in self._profiles if profile.id == agent_id), None)
        if profile is None:
            raise NoAgentError(f"no agent {agent_id!r} is active")
        refusal = self.beliefs.objective.refusal(profile, task)
        if refusal is not None:
            kind = UnsupportedOptionError if not_honoured(profile.kind, task.needs) else NoAgentError
            raise kind(f"the agent that was asked for may not have this {task.task_type} task: {refusal}")

    def _distribution(self, strategy: RoutingStrategy, task: RoutedTask, pool: Pool, members: bytes) -> Distribution:
        reuse = strategy.reuse_key(task)
        if reuse is None:
            return strategy.distribution(task, pool)
        key = (reuse, task.task_type, members)
        known = self._distributions.get(key)
        if known is not None and known[0] == pool.belief.version:
            return known[1]
        found = strategy.distribution(task, pool)
        if len(self._distributions) >= REMEMBERED:
            self._distributions.clear()
        self._distributions[key] = (pool.belief.version, found)
        return found

    def _allowed(self, task: RoutedTask, without: frozenset[str]) -> _Candidates:
        key = (task.task_type, task.must_have, task.needs, without)
        if key not in self._candidates:
            if len(self._candidates) >= REMEMBERED:
                self._candidates.clear()
            self._candidates[key] = self._find_allowed(task, without)
        return self._candidates[key]

    def _find_allowed(self, task: RoutedTask, without: frozenset[str]) -> _Candidates:
        refusals, allowed = [], []
        for position, profile in enumerate(self._profiles):
            refusal = self.beliefs.objective.refusal(profile, task)
            if refusal is None and profile.id in without:
                refusal = f"{profile.id} cannot be had"
            if refusal is None:
                allowed.append(position)
            else:
                refusals.append(refusal)
        if not allowed:
            unable = all(not_honoured(profile.kind, task.needs) for profile in self._profiles)
            kind = UnsupportedOptionError if unable else NoAgentError
            raise kind(f"no agent may have this {task.task_type} task: {'; '.join(refusals)}")
        capable = [position for position in allowed if self._profiles[position].can_do(task.task_type)]
        because = "" if capable else f"none of {len(allowed)} agents takes {task.task_type}; of all: "
        chosen = capable or allowed
        return _Candidates(
            tuple(self._profiles[position] for position in chosen),
            self._members[chosen],
            capable=bool(capable),
            because=because,
        )

    def _awake(self, candidates: _Candidates, loads: Loads) -> _Candidates:
        """Those that are not left alone at this moment; all of them where every one is."""
        resting = {agent_id for agent_id, load in loads.items() if load.resting}
        return candidates if not resting else self._left_of(candidates, resting, "keep failing") or candidates

    def _left_of(self, candidates: _Candidates, out: set[str], why: str) -> _Candidates | None:
        free = [position for position, profile in enumerate(candidates.profiles) if profile.id not in out]
        if len(free) == len(candidates.profiles):
            return candidates
        if not free:
            return None
        return _Candidates(
            tuple(candidates.profiles[position] for position in free),
            candidates.members[free],
            capable=candidates.capable,
            because=f"{len(candidates.profiles) - len(free)} that {why} left out; {candidates.because}",
        )
