"""Contextual Thompson sampling: how good each agent is follows linearly from the features of the task.

Each agent has a Bayesian linear regression of its rewards on the features (Agrawal and Goyal 2013). Its prior is the
regression of all agents together, so that an agent that is new to a kind of task is expected to do as all do there. The
agents' estimates for one task are independent normal ones, of which ``best_of_normals`` says which is the largest.
"""

from collections.abc import Hashable, Mapping
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.routing.belief import RESHAPE
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
        self._covariance: Array = np.zeros((0, 0, 0))
        self._coefficients: Array = np.zeros((0, 0))
        self._weight, self._squares, self._at = np.zeros(0), np.zeros(0), np.zeros(0)
        self._prior: Array = np.zeros(0)
        self._noise = 0.25
        self._since_fit = 0
        self._stale = True

    def learn(self, agent_id: str, features: Mapping[str, float], reward: float, *, at: float = 0.0) -> None:
        """Add one outcome of a task with these features."""
        self._know((agent_id,), features)
        i, x = self.agents[agent_id], self._vector(features)
        weight = self._age(i, at)
        self._precision[i] += weight * np.outer(x, x)
        self._moment[i] += weight * reward * x
        self._weight[i] += weight
        self._squares[i] += weight * reward * reward
        self._since_fit += 1
        if self._since_fit > max(10.0, self._weight.sum() / 20.0):
            self._stale = True
        elif not self._stale:
            self._solve(i)

    def estimate(self, agent_ids: tuple[str, ...], features: Mapping[str, float]) -> tuple[Array, Array]:
        """Mean and standard deviation of each agent's expected reward for a task with these features."""
        self._know(agent_ids, features)
        if self._stale:
            self._fit()
        rows = [self.agents[agent_id] for agent_id in agent_ids]
        x = self._vector(features)
        mean = self._coefficients[rows] @ x
        spread = (self._covariance[rows] @ x) @ x
        return mean, np.sqrt(self._noise * np.maximum(spread, 1e-12))

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

    def weight(self, agent_id: str) -> float:
        """How many tasks an agent's regression is from, each counted by its age."""
        return float(self._weight[self.agents[agent_id]])

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
        """The regression of all, the noise it leaves, and every agent's regression from there."""
        identity = np.eye(len(self.features))
        precision, moment = self._precision.sum(axis=0), self._moment.sum(axis=0)
        right = moment + self.ridge * self._stated()
        prior: Array = np.asarray(np.linalg.solve(precision + self.ridge * identity, right), dtype=np.float64)
        self._prior = prior
        residual = float(self._squares.sum() - 2.0 * prior @ moment + prior @ precision @ prior)
        self._noise = (0.25 * 2.0 + max(residual, 0.0)) / (2.0 + float(self._weight.sum()))
        covariance: Array = np.asarray(np.linalg.inv(self._precision + self.ridge * identity), dtype=np.float64)
        self._covariance = covariance
        self._coefficients = np.einsum("aij,aj->ai", covariance, self._moment + self.ridge * prior)
        self._stale, self._since_fit = False, 0

    def _solve(self, i: int) -> None:
        self._covariance[i] = np.linalg.inv(self._precision[i] + self.ridge * np.eye(len(self.features)))
        self._coefficients[i] = self._covariance[i] @ (self._moment[i] + self.ridge * self._prior)

    def _stated(self) -> Array:
        """Before anything is known every reward is expected to be a half."""
        stated = np.zeros(len(self.features))
        if "always" in self.features:
            stated[self.features["always"]] = 0.5
        return stated

    def _vector(self, features: Mapping[str, float]) -> Array:
        x = np.zeros(len(self.features))
        for name, value in features.items():
            x[self.features[name]] = value
        return x

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
        agent_ids = tuple(profile.id for profile in pool.profiles)
        mean, deviation = self.evidence.estimate(agent_ids, features_of(task))
        utility = mean - pool.belief.penalty[pool.members]
        best = best_of_normals(utility, np.sqrt(RESHAPE) * deviation)
        weights = [self.evidence.weight(agent_id) for agent_id in agent_ids]

        def why_score(i: int) -> str:
            return (
                f"expected utility {utility[i]:.3f} ± {deviation[i]:.3f} for this task, from its features and "
                f"{weights[i]:.0f} tasks done"
            )

        def why_chosen(i: int) -> str:
            return f"{agent_ids[i]} was drawn with probability {best[i]:.3f}, as the likely best; {why_score(i)}"

        return distribution_of(
            best,
            scores=best,
            estimates=utility,
            standing=Standing(utility, deviation),
            why_score=why_score,
            why_chosen=why_chosen,
        )
