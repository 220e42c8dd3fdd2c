"""What is believed of every agent in a task type: posteriors of mean quality, and who is how likely the best.

Rewards that are all 0 or 1 have a Beta posterior, graded ones a normal one with the variance they showed. Where cost
and latency count, a posterior is moved down by what the agent's means of them take from quality.

The probability of being the best is P_i = ∫ f_i Π_{j≠i} F_j = ∫ (f_i / F_i) exp Σ_j log F_j. Each agent contributes one
row of f/F and one of log F on a common grid; when one agent's evidence changes only its rows do, and all P are one
product of a matrix and a vector. The grid is even in θ for utility = sin² θ, where a Beta posterior has a width of
about 1/(2√n) anywhere; its error is below 0.005 up to 10,000 tasks an agent (tests hold it against fine quadrature).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flywheel.arbiter.routing.evidence import (
    COST,
    COST_WEIGHT,
    LATENCY,
    LATENCY_WEIGHT,
    QUALITY,
    SQUARES,
    TASKS,
    WEIGHT,
    EvidenceTable,
)
from flywheel.arbiter.routing.objective import Objective
from flywheel.arbiter.routing.priors import Prior, expectations

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

GRID_POINTS = 1_024
VARIANCE_TASKS = 2.0
"""Tasks that the prior's own variance m(1 − m), the largest possible one, counts for in a normal posterior."""
GRADED = 1e-9
SMALLEST = 1e-300
NEVER = 1e-15
"""A probability below this is rounding, and is 0."""
RESHAPE = 0.25
"""α of posterior reshaping (Chapelle and Li 2011, section 3): agents are chosen by Beta(a/α, b/α), whose variance is
about α times the posterior's. Of 1, ½, ¼ and ⅒ this left the least regret on outcomes of nine language models."""


class Grid:
    """Utilities at the midpoints of cells that are even in θ, and the density's Jacobian there."""

    def __init__(self, *, priced: bool) -> None:
        points = GRID_POINTS * (2 if priced else 1)
        theta = (np.arange(points) + 0.5) * (np.pi / 2 / points)
        quality: Array = np.sin(theta) ** 2
        self.utility = 2.0 * quality - 1.0 if priced else quality
        self.log_jacobian: Array = np.log(np.sin(2.0 * theta))


class TypeBelief:
    """What is believed in one task type; arrays by the agents' positions in the evidence.

    Attributes:
        mean: posterior mean of quality, 0–1.
        deviation: its standard deviation.
        variance: of single rewards.
        penalty: what cost and latency take, 0–1.
        weight: aged tasks behind it.
        strength: tasks that the prior is worth.
        tasks: tasks done in this type.
        tasks_overall: tasks done in all types; one array for all beliefs.
        version: another number whenever anything is different.
    """

    def __init__(self, grid: Grid, sums: Array, overall: Array, expected: Array, strength: Array) -> None:
        self._grid = grid
        self.expected, self.strength, self.tasks_overall = expected, strength, overall
        self.version = 0
        self._best: dict[bytes, Array] = {}
        self._asked: Indices | None = None
        shape = (len(sums), len(grid.utility))
        # Single precision halves the memory that a decision reads; it rounds a probability by less than the grid does.
        self._ratio, self._log_cumulative = np.empty(shape, dtype=np.float32), np.zeros(shape)
        self._total = np.zeros(len(grid.utility))
        self.mean, self.deviation, self.variance, self.penalty, self.weight, self.tasks = (
            np.empty(len(sums)) for _ in range(6)
        )
        self.graded = bool(np.any(sums[:, QUALITY] - sums[:, SQUARES] > GRADED * (1.0 + sums[:, WEIGHT])))

    @property
    def utility(self) -> Array:
        """Mean quality less the penalty."""
        return self.mean - self.penalty

    def update(self, positions: Indices, sums: Array, penalty: Array) -> None:
        """Take in the sums of the agents at these positions, shape (positions, 8)."""
        weight, quality, squares = sums[:, WEIGHT], sums[:, QUALITY], sums[:, SQUARES]
        strength = self.strength[positions]
        mean = (strength * self.expected[positions] + quality) / (strength + weight)
        spread = squares - 2.0 * mean * quality + mean * mean * weight
        variance = (VARIANCE_TASKS * mean * (1.0 - mean) + np.maximum(spread, 0.0)) / (VARIANCE_TASKS + weight)
        self.variance[positions] = variance
        total = strength + weight
        deviation = np.sqrt(variance / total if self.graded else mean * (1.0 - mean) / (total + 1.0))
        self.mean[positions], self.deviation[positions], self.penalty[positions] = mean, deviation, penalty
        self.weight[positions], self.tasks[positions] = weight, sums[:, TASKS]
        self._write_rows(positions, mean, total, deviation, penalty)
        self.version += 1
        self._best.clear()
        if self._asked is not None:
            # Whoever was decided among will be again: it is worked out here, where nobody waits for it.
            self.best(self._asked)

    def best(self, members: Indices) -> Array:
        """For each of these agents the probability that its draw is the largest of them, summing to 1."""
        key = members.tobytes()
        self._asked = members
        if key not in self._best:
            if len(members) == len(self.mean):
                best = (self._ratio @ np.exp(self._total).astype(np.float32))[members]
            else:
                total = self._log_cumulative[members].sum(axis=0)
                best = self._ratio[members] @ np.exp(total).astype(np.float32)
            best = best.astype(np.float64)
            best = np.where(best < NEVER * best.sum(), 0.0, best)
            self._best[key] = best / best.sum()
        return self._best[key]

    def _write_rows(self, positions: Indices, mean: Array, total: Array, deviation: Array, penalty: Array) -> None:
        grid = self._grid
        total, deviation = total / RESHAPE, deviation * np.sqrt(RESHAPE)
        quality = grid.utility + penalty[:, None]
        inside = (quality > 0.0) & (quality < 1.0)
        quality = np.where(inside, quality, 0.5)
        if self.graded:
            log_density = -0.5 * ((quality - mean[:, None]) / deviation[:, None]) ** 2
        else:
            successes, failures = mean * total, (1.0 - mean) * total
            log_density = (successes - 1.0)[:, None] * np.log(quality) + (failures - 1.0)[:, None] * np.log1p(-quality)
        log_density = np.where(inside, log_density + grid.log_jacobian, -np.inf)
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        density /= density.sum(axis=1, keepdims=True)
        # Half of a cell's own mass: two draws from one cell are as likely to be in either order.
        cumulative = np.maximum(np.cumsum(density, axis=1) - density / 2.0, SMALLEST)
        self._ratio[positions] = density / cumulative
        logs = np.log(cumulative)
        self._total += (logs - self._log_cumulative[positions]).sum(axis=0)
        self._log_cumulative[positions] = logs


class Beliefs:
    """Beliefs about all agents in all task types, kept up with the evidence.

    The prior expectations are fitted again after every twentieth part of all evidence, or when age has taken a
    fiftieth of a half-life; in between an outcome changes its own agent's belief in its own task type.
    """

    def __init__(
        self,
        evidence: EvidenceTable,
        *,
        families: dict[str, str] | None = None,
        prior: Prior | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.evidence = evidence
        self.objective = objective or Objective()
        self._families = families or {}
        self._prior = prior or Prior()
        self._grid = Grid(priced=self.objective.priced)
        self._types: dict[str, TypeBelief] = {}
        self._since_fit = 0
        self._shape = (-1, -1)
        self._now = -np.inf
        self._fitted_at = -np.inf

    def positions(self, agent_ids: Sequence[str]) -> Indices:
        """Where these agents are in the arrays; new ones are added."""
        return np.array([self.evidence.agent(agent_id) for agent_id in agent_ids], dtype=np.intp)

    def learn(
        self,
        agent_id: str,
        task_type: str,
        reward: float,
        *,
        at: float = 0.0,
        latency_ms: float | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Add one outcome. Rewards are 0–1, ``at`` is in days."""
        self.evidence.add(agent_id, task_type, reward, at=at, latency_ms=latency_ms, cost_usd=cost_usd)
        self._now = max(self._now, at)
        self._since_fit += 1
        if self.evidence.at.shape != self._shape or self._since_fit > max(20.0, self._fitted_tasks / 20):
            self._fit(self._now)
            return
        position = self.evidence.agents[agent_id]
        self._overall[position] += 1.0
        belief = self._types.get(task_type)
        if belief is None:
            return
        if not belief.graded and reward not in {0.0, 1.0}:
            self._fit(self._now)
            return
        sums = self._sums(task_type, np.array([position]))
        belief.update(np.array([position]), sums, self._penalty(sums, np.array([position])))

    def of(self, task_type: str, now: float = -np.inf) -> TypeBelief:
        """What is believed in a task type at a moment, in days. A type that is new has its agents' overall records."""
        self._now = max(self._now, now)
        self.evidence.task_type(task_type)
        aged = self.evidence.half_life is not None and self._now - self._fitted_at > self.evidence.half_life / 50
        if self.evidence.at.shape != self._shape or aged:
            self._fit(self._now)
        if task_type not in self._types:
            self._types[task_type] = self._believe(task_type)
        return self._types[task_type]

    def _fit(self, now: float) -> None:
        """Expectations from all evidence, and from them every belief that was asked for before."""
        known = self.evidence.of(now)
        ids = list(self.evidence.agents)
        families = [self._families.get(agent_id, "") for agent_id in ids]
        self._expected, self._strength = expectations(
            self._prior, ids, families, known[:, :, WEIGHT], known[:, :, QUALITY]
        )
        self._fitted_tasks = float(known[:, :, TASKS].sum())
        overall = known.sum(axis=1)
        self._usd = _mean_by_agent(overall[:, COST], overall[:, COST_WEIGHT])
        self._latency_ms = _mean_by_agent(overall[:, LATENCY], overall[:, LATENCY_WEIGHT])
        self._overall = overall[:, TASKS].copy()
        self._since_fit, self._fitted_at, self._shape = 0, now, self.evidence.at.shape
        versions = {task_type: belief.version for task_type, belief in self._types.items()}
        for task_type, version in versions.items():
            self._types[task_type] = self._believe(task_type)
            self._types[task_type].version += version

    def _believe(self, task_type: str) -> TypeBelief:
        column = self.evidence.task_types[task_type]
        everybody = np.arange(len(self.evidence.agents))
        sums = self._sums(task_type, everybody)
        belief = TypeBelief(self._grid, sums, self._overall, self._expected[:, column], self._strength[:, column])
        belief.update(everybody, sums, self._penalty(sums, everybody))
        return belief

    def _sums(self, task_type: str, positions: Indices) -> Array:
        column, half_life = self.evidence.task_types[task_type], self.evidence.half_life
        sums: Array = self.evidence.sums[positions, column]
        if half_life is not None:
            age = np.maximum(self._now - self.evidence.at[positions, column], 0.0)
            sums[:, WEIGHT:] *= np.exp2(-age / half_life)[:, None]
        return sums

    def _penalty(self, sums: Array, positions: Indices) -> Array:
        """From the means in the task type, shrunk to the agent's over all types, as strong as two tasks."""
        usd = (2.0 * self._usd[positions] + sums[:, COST]) / (2.0 + sums[:, COST_WEIGHT])
        latency = (2.0 * self._latency_ms[positions] + sums[:, LATENCY]) / (2.0 + sums[:, LATENCY_WEIGHT])
        return self.objective.penalty(usd, latency)


def _mean_by_agent(sums: Array, weights: Array) -> Array:
    """Each agent's mean; where it has none, that of all; 0 where nobody has."""
    mean = sums.sum() / weights.sum() if weights.sum() > 0.0 else 0.0
    means: Array = np.where(weights > 0.0, sums / np.where(weights > 0.0, weights, 1.0), mean)
    return means
