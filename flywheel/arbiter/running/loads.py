"""What the agents are busy with, and the place around a call where a limit can hold it."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.strategy import Load, Loads


class Slots(Protocol):
    """Room for calls of agents. Safe for threads."""

    def loads(self) -> Loads:
        """What each agent is busy with, by its id; who is absent is idle. For routing."""
        ...

    def hold(self, profile: AgentProfile) -> AbstractContextManager[None]:
        """Room for one call, taken as long as the call really takes, also when nobody waits for it any more.

        Raises:
            AgentError: on entering, where there is no room; another agent gets the task then.
        """
        ...


class LocalSlots:
    """Counts the calls of this process and refuses none: routing leaves out who has none free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: Counter[str] = Counter()

    def loads(self) -> Loads:
        """The calls under way."""
        with self._lock:
            return {agent_id: Load(active=calls) for agent_id, calls in self._active.items()}

    @contextmanager
    def hold(self, profile: AgentProfile) -> Iterator[None]:
        """Count one call while it lasts."""
        with self._lock:
            self._active[profile.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._active[profile.id] -= 1
                if not self._active[profile.id]:
                    del self._active[profile.id]
