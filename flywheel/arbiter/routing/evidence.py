"""What agents did, summed by agent and task type, with weights that decay with age.

A sum carries the moment it is of. An outcome that is later moves the sum on to its own moment, by which what was there
loses weight; one that is earlier (a delayed reward) is added with the weight that it has left by then. So the order in
which outcomes arrive makes no difference, and sums of several routers can be added up.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[np.float64]

TASKS, WEIGHT, QUALITY, SQUARES, LATENCY_WEIGHT, LATENCY, COST_WEIGHT, COST = range(8)
COLUMNS = 8


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of an agent in one task type.

    Attributes:
        tasks: how many it did, however long ago.
        weight: the same, each counted by what its age left of it; so are all sums that follow.
        quality_sum: of rewards, each 0–1.
        quality_squares: of their squares.
        latency_weight: of the tasks whose latency is known.
        latency_ms_sum: of their latencies.
        cost_weight: of the tasks whose cost is known.
        cost_usd_sum: of their costs.
        at: the moment that the weights are of, in days.
    """

    tasks: int = 0
    weight: float = 0.0
    quality_sum: float = 0.0
    quality_squares: float = 0.0
    latency_weight: float = 0.0
    latency_ms_sum: float = 0.0
    cost_weight: float = 0.0
    cost_usd_sum: float = 0.0
    at: float = 0.0


class EvidenceTable:
    """Evidence of all agents in all task types, as arrays. It grows when an agent or a task type is new."""

    def __init__(self, *, half_life: float | None = None) -> None:
        """An empty table.

        Args:
            half_life: age at which an outcome counts half, in the unit of ``at`` (days); None: it never ages.
        """
        self.half_life = half_life
        self.agents: dict[str, int] = {}
        self.task_types: dict[str, int] = {}
        self.sums: Array = np.zeros((0, 0, COLUMNS))
        self.at: Array = np.zeros((0, 0))

    def agent(self, agent_id: str) -> int:
        """The agent's position; a new one is added."""
        if agent_id not in self.agents:
            self.agents[agent_id] = len(self.agents)
            self._grow()
        return self.agents[agent_id]

    def task_type(self, task_type: str) -> int:
        """The task type's position; a new one is added."""
        if task_type not in self.task_types:
            self.task_types[task_type] = len(self.task_types)
            self._grow()
        return self.task_types[task_type]

    def add(
        self,
        agent_id: str,
        task_type: str,
        reward: float,
        *,
        at: float = 0.0,
        latency_ms: float | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Add one outcome of the moment ``at``, in any order."""
        position = self.agent(agent_id), self.task_type(task_type)
        sums, weight = self.sums[position], 1.0
        if self.half_life is not None:
            age = at - float(self.at[position])
            if sums[TASKS] == 0.0 or age > 0.0:
                sums[WEIGHT:] *= 0.0 if sums[TASKS] == 0.0 else 2.0 ** (-age / self.half_life)
                self.at[position] = at
            else:
                weight = 2.0 ** (age / self.half_life)
        known_latency, known_cost = float(latency_ms is not None), float(cost_usd is not None)
        sums += (
            *(1.0, weight, weight * reward, weight * reward * reward),
            *(weight * known_latency, weight * (latency_ms or 0.0)),
            *(weight * known_cost, weight * (cost_usd or 0.0)),
        )

    def put(self, rows: Iterable[tuple[str, str, Evidence]]) -> None:
        """Set what is known of (agent, task type) pairs."""
        for agent_id, task_type, evidence in rows:
            position = self.agent(agent_id), self.task_type(task_type)
            self.sums[position] = (
                *(evidence.tasks, evidence.weight, evidence.quality_sum, evidence.quality_squares),
                *(evidence.latency_weight, evidence.latency_ms_sum, evidence.cost_weight, evidence.cost_usd_sum),
            )
            self.at[position] = evidence.at

    def of(self, now: float) -> Array:
        """The sums with the weights of a moment, shape (agents, task types, 8). A later outcome counts whole."""
        if self.half_life is None:
            return self.sums
        aged = self.sums.copy()
        aged[:, :, WEIGHT:] *= np.exp2(-np.maximum(now - self.at, 0.0) / self.half_life)[:, :, None]
        return aged

    def _grow(self) -> None:
        shape = len(self.agents), len(self.task_types)
        sums, at = np.zeros((*shape, COLUMNS)), np.zeros(shape)
        old = self.at.shape
        sums[: old[0], : old[1]], at[: old[0], : old[1]] = self.sums, self.at
        self.sums, self.at = sums, at
