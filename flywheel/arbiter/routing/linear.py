"""Contextual Thompson sampling: how good each agent is follows linearly from the features of the task.

Each agent has a Bayesian linear regression of its rewards on the features (Agrawal and Goyal 2013). Its prior is the
regression of all agents together, so that an agent that is new to a kind of task is expected to do as all do there. The
agents' estimates for one task are independent normal ones, of which ``best_of_normals`` says which is the largest.
"""

import math
from collections.abc import Hashable, Mapping
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.routing.belief import RESHAPE, Indices
from flywheel.arbiter.routing.normals import best_of_normals
from flywheel.arbiter.routing.strategy import Distribution, Pool, Standing, distribution_of
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.records import Strategy

Array = NDArray[np.float64]


class Regression(Struct, frozen=True, kw_only=True):
    """The sums of one agent's regression: X'X, X'r, Σr² and the weight, as of a moment in days."""

    precision: Array
    moment: Array
    squares: float
    weight: float
    at: float


class LinearEvidence:
    """The regressions of all agents on features by name. It grows when an agent or a feature is new.

    Weights decay with age as those of ``EvidenceTable``, so that here too the order of outcomes makes no difference.
    An outcome changes its own agent's regression, and every twentieth part of all evidence the prior of all. That is
    worked out where it is learned, and nobody who asks for an estimate waits for it.
    """

    def __init__(self, *, half_life: float | None = None, ridge: float = 4.0) -> None:
        """Nothing known.

        Args:
            half_life: age at which an outcome counts half, in days; None: it never ages.
            ridge: tasks that the prior is worth in each direction.
        """
        self.half_life, self.ridge = half_life, ridge
        self.features: dict[str, int] = {}
        self.agents: dict[str, int] = {}
        self._precision: Array = np.zeros((0, 0, 0))
        self._moment: Array = np.zeros((0, 0))
        # Agents are last: of the few features that a task has, those of all agents lie side by side.
        self._covariance: Array = np.zeros((0, 0, 0))
        self._coefficients: Array = np.zeros((0, 0))
        self._weight, self._squares, self._at = np.zeros(0), np.zeros(0), np.zeros(0)
        self._prior: Array = np.zeros(0)
        self._noise = 0.25
        self._since_fit = 0
        self._stale = True
        self._asked: tuple[tuple[str, ...], Indices] = (), np.zeros(0, dtype=np.intp)

    def learn(self, agent_id: str, features: Mapping[str, float], reward: float, *, at: float = 0.0) -> None:
        """Add one outcome of a task with these features."""
        self._know((agent_id,), features)
        i, x = self.agents[agent_id], np.zeros(len(self.features))
        x[[self.features[name] for name in features]] = list(features.values())
        before = float(self._at[i])
        weight = self._age(i, at)
        self._precision[i] += weight * np.outer(x, x)
        self._moment[i] += weight * reward * x
        self._weight[i] += weight
        self._squares[i] += weight * reward * reward
        self._since_fit += 1
        if self._stale:
            return
        if self._at[i] == before:
            self._add(i, x, weight)
        else:
            self._covariance[:, :, i] = np.linalg.inv(self._precision[i] + self.ridge * np.eye(len(x)))
        if self._since_fit > max(10.0, self._weight.sum() / 20.0):
            self._fit_prior()
        else:
            self._coefficients[:, i] = self._covariance[:, :, i] @ (self._moment[i] + self.ridge * self._prior)

    def estimate(self, agent_ids: tuple[str, ...], features: Mapping[str, float]) -> tuple[Array, Array, Array]:
        """What is expected of each agent for a task with these features.

        Returns:
            Mean and deviation of its expected reward, and how many tasks that is from, each counted by its age.
        """
        if agent_ids != self._asked[0] or not features.keys() <= self.features.keys():
            self._know(agent_ids, features)
            self._asked = agent_ids, np.array([self.agents[agent_id] for agent_id in agent_ids], dtype=np.intp)
        if self._stale:
            self._fit()
        rows, columns = self._asked[1], np.array([self.features[name] for name in features])
        x = np.array(list(features.values()))
        mean = x @ self._coefficients[columns]
        spread = x @ (x @ self._covariance[columns[:, None], columns])
        return mean[rows], np.sqrt(self._noise * np.maximum(spread[rows], 1e-12)), self._weight[rows]

    def put(self, agent_id: str, names: tuple[str, ...], known: Regression) -> None:
        """Set an agent's regression, with its features in the order of the names."""
        self._know((agent_id,), dict.fromkeys(names, 0.0))
        i, columns = self.agents[agent_id], [self.features[name] for name in names]
        self._precision[i], self._moment[i] = 0.0, 0.0
        self._precision[i][np.ix_(columns, columns)] = known.precision
        self._moment[i][columns] = known.moment
        self._weight[i], self._squares[i], self._at[i] = known.weight, known.squares, known.at
        self._stale = True

    def get(self, agent_id: str) -> Regression:
        """An agent's regression, with the features in the order of ``features``."""
        i = self.agents[agent_id]
        return Regression(
            precision=self._precision[i].copy(),
            moment=self._moment[i].copy(),
            squares=float(self._squares[i]),
            weight=float(self._weight[i]),
            at=float(self._at[i]),
        )

    def _age(self, i: int, at: float) -> float:
        """Move an agent's sums on to a moment; the weight of an outcome of that moment."""
        if self.half_life is None:
            return 1.0
        if self._weight[i] == 0.0:
            self._at[i] = at
        age = at - float(self._at[i])
        if age <= 0.0:
            return float(2.0 ** (age / self.half_life))
        factor = 2.0 ** (-age / self.half_life)
        for sums in (self._precision, self._moment, self._weight, self._squares):
            sums[i] *= factor
        self._at[i] = at
        return 1.0

    def _fit(self) -> None:
        """Every agent's regression, from the sums alone."""
        precision = self._precision + self.ridge * np.eye(len(self.features))
        self._covariance = np.ascontiguousarray(np.linalg.inv(precision).transpose(1, 2, 0))
        self._fit_prior()
        self._stale = False

    def _fit_prior(self) -> None:
        """The regression of all, the noise it leaves, and what every agent's regression expects from there."""
        precision, moment = self._precision.sum(axis=0), self._moment.sum(axis=0)
        right = moment + self.ridge * self._stated()
        prior: Array = np.linalg.solve(precision + self.ridge * np.eye(len(right)), right)
        self._prior = prior
        residual = float(self._squares.sum() - 2.0 * prior @ moment + prior @ precision @ prior)
        self._noise = (0.25 * 2.0 + max(residual, 0.0)) / (2.0 + float(self._weight.sum()))
        self._coefficients = np.einsum("ija,aj->ia", self._covariance, self._moment + self.ridge * prior)
        self._since_fit = 0

    def _add(self, i: int, x: Array, weight: float) -> None:
        """An agent's covariance after one outcome more (Sherman and Morrison 1950)."""
        covariance = self._covariance[:, :, i]
        along = covariance @ x
        covariance -= weight / (1.0 + weight * float(x @ along)) * np.outer(along, along)

    def _stated(self) -> Array:
        """Before anything is known every reward is expected to be a half."""
        stated = np.zeros(len(self.features))
        if "always" in self.features:
            stated[self.features["always"]] = 0.5
        return stated

    def _know(self, agent_ids: tuple[str, ...], features: Mapping[str, float]) -> None:
        """Make room for agents and features that are new."""
        before = len(self.agents), len(self.features)
        for agent_id in agent_ids:
            self.agents.setdefault(agent_id, len(self.agents))
        for name in features:
            self.features.setdefault(name, len(self.features))
        after = len(self.agents), len(self.features)
        if after == before:
            return
        agents, count = after[0] - before[0], after[1] - before[1]
        self._precision = np.pad(self._precision, ((0, agents), (0, count), (0, count)))
        self._moment = np.pad(self._moment, ((0, agents), (0, count)))
        self._weight, self._squares, self._at = (
            np.pad(sums, (0, agents)) for sums in (self._weight, self._squares, self._at)
        )
        self._stale = True


class ContextualThompson(Struct, frozen=True, kw_only=True):
    """Thompson sampling over what a linear regression expects of each agent for this very task.

    ``evidence`` is taught by whoever has the outcomes. Cost and latency count as the belief's means of them do; the
    posterior is reshaped as the belief's.
    """

    evidence: LinearEvidence

    @property
    def kind(self) -> Literal[Strategy.MULTI_ARMED_BANDIT]:
        """What the log calls it."""
        return Strategy.MULTI_ARMED_BANDIT

    def reuse_key(self, task: RoutedTask) -> Hashable | None:  # noqa: ARG002 - of the protocol
        """Every task has features of its own."""
        return None

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """The probabilities of being the best for this task."""
        mean, deviation, weights = self.evidence.estimate(pool.agent_ids, features_of(task))
        utility = mean - pool.belief.penalty[pool.members]
        best = best_of_normals(utility, math.sqrt(RESHAPE) * deviation)

        def why_score(i: int) -> str:
            return (
                f"expected utility {utility[i]:.3f} ± {deviation[i]:.3f} for this task, from its features and "
                f"{weights[i]:.0f} tasks done"
            )

        def why_chosen(i: int) -> str:
            return f"{pool.agent_ids[i]} was drawn with probability {best[i]:.3f}, as the likely best; {why_score(i)}"

        return distribution_of(
            best,
            scores=best,
            estimates=utility,
            standing=Standing(utility, deviation),
            why_score=why_score,
            why_chosen=why_chosen,
        )
