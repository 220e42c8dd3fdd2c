"""A router for single tasks of many threads, which knows what every router on the database has learned."""

import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.build import router_from
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.strategy import Choice, Loads
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.settings import RoutingSettings


class Snapshot(Struct, frozen=True):
    """A router as of one moment, and the agents it chooses among."""

    router: Router
    profiles: Mapping[str, AgentProfile]


class LiveRouter:
    """Reads agents and evidence again when they are older than ``refresh_s``. Safe for threads.

    Nothing is learned in memory: what this process learns it reads back like what all others do, so nothing counts
    twice.
    """

    def __init__(
        self,
        engine: Engine,
        settings: RoutingSettings,
        rng: np.random.Generator,
        *,
        refresh_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._rng = rng
        self._refresh_s = refresh_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._snapshot: tuple[float, Snapshot] | None = None

    def read(self) -> Snapshot:
        """What the database knows at this moment.

        Raises:
            ConfigurationError: no agent is active.
        """
        profiles = AgentRegistry(self._engine).list(status="active")
        router = router_from(self._engine, profiles, self._settings)
        return Snapshot(router, {profile.id: profile for profile in profiles})

    def decide(
        self, task: RoutedTask, *, loads: Loads, now: float, without: frozenset[str] = frozenset()
    ) -> tuple[Choice, AgentProfile]:
        """Choose an agent; see ``Router.decide``.

        Raises:
            ConfigurationError: no agent is active.
            NoAgentError: the hard limits leave nobody.
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._lock:
            snapshot = self._fresh()
            choice = snapshot.router.decide(task, self._rng, loads=loads, now=now, without=without)
        return choice, snapshot.profiles[choice.selected]

    def named(self, task: RoutedTask, agent_id: str) -> AgentProfile:
        """The agent that somebody wants to do the task; see ``Router.named``.

        Raises:
            NoAgentError: it may not have it.
            ConfigurationError: no agent is active.
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._lock:
            snapshot = self._fresh()
        snapshot.router.named(task, agent_id)
        return snapshot.profiles[agent_id]

    def profiles(self) -> Mapping[str, AgentProfile]:
        """The agents that are active.

        Raises:
            ConfigurationError: there is none.
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._lock:
            return self._fresh().profiles

    def draw(self, snapshot: Snapshot, task: RoutedTask, *, loads: Loads, now: float) -> Choice:
        """The same by a snapshot that the caller alone has: many tasks are decided on the same evidence."""
        with self._lock:
            return snapshot.router.decide(task, self._rng, loads=loads, now=now)

    def check(self) -> None:
        """See that there is anybody to choose.

        Raises:
            ConfigurationError: no agent is active.
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._lock:
            self._fresh()

    def _fresh(self) -> Snapshot:
        now = self._monotonic()
        if self._snapshot is None or now - self._snapshot[0] >= self._refresh_s:
            self._snapshot = now, self.read()
        return self._snapshot[1]
