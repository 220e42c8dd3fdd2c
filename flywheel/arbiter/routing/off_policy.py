"""Off-policy evaluation: how a policy would have done on the decisions of a log, from the probabilities it logged.

With w = π(agent | task) / logged propensity of the chosen agent and r its reward:

- IPS: the mean of w r; unbiased (Horvitz and Thompson 1952);
- SNIPS: Σ w r / Σ w; less variance for a little bias (Swaminathan and Joachims 2015);
- DR: the mean of Σ_a π(a) q̂(a) + w (r − q̂(chosen)), with q̂ from the other folds of the log (Dudík et al. 2011).

Intervals are normal ones from the estimates' influence functions. What a policy does where the log has next to no
support is left out of the weights, and since rewards are 0–1 its share bounds the bias: intervals are wider by it on
the side where it may lie. Where that share is large the evaluation is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.build import build_strategy
from flywheel.arbiter.routing.evidence import EvidenceTable
from flywheel.arbiter.routing.linear import LinearEvidence
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.errors import ConfigurationError, InputError, UnsupportedPolicyError
from flywheel.records import DataPoint
from flywheel.settings import StrategyName

Array = NDArray[np.float64]
Policy = Callable[["Logged"], Mapping[str, float]]
"""From a decision to each of its candidates' probability; who is absent has 0."""

LEAST_PROPENSITY = 1e-3
"""Below this a decision supports nothing: one outcome would count for more than a thousand."""
MOST_UNSUPPORTED = 0.05
"""Share of a policy's choices without support with which it is still evaluated, intervals widened."""
FOLDS = 5
LEAST_DECISIONS = 30


class Logged(Struct, frozen=True, kw_only=True, rename="camel"):
    """One decision with its outcome: a line of a log. ``reward`` is 0–1; ``propensities`` by agent sum to 1."""

    task_id: str
    task_type: str
    agent_id: str
    reward: float
    propensities: dict[str, float]
    features: tuple[float, ...] = ()

    @property
    def task(self) -> RoutedTask:
        """What is known of the task."""
        return RoutedTask(task_type=self.task_type, embedding=self.features)


class Estimate(Struct, frozen=True, kw_only=True):
    """An estimated mean reward, 0–1, with its interval."""

    value: float
    low: float
    high: float


class OffPolicyReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a policy would have done.

    Attributes:
        decisions: logged ones.
        logged: mean reward of the log's own policy.
        effective_decisions: (Σw)² / Σw², how many decisions of the policy's own the log is worth.
        largest_weight: of one decision.
        unsupported: share of the policy's choices on which the log says nothing.
        confidence: of the intervals.
    """

    policy: str
    decisions: int
    logged: float
    ips: Estimate
    snips: Estimate
    dr: Estimate
    effective_decisions: float
    largest_weight: float
    unsupported: float
    confidence: float


def read_log(path: Path) -> list[Logged]:
    """Decisions from JSON lines: either data points as the pool exports them, or the fields of ``Logged``.

    Points of tasks for which nobody was chosen among candidates (an agent that was named, a cache, an imported log)
    say nothing of a policy and are left out.

    Raises:
        InputError: the file cannot be read, a line is neither, or its probabilities cannot be right.
    """
    logged: list[Logged] = []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        found = _decode(line)
                        logged += [] if found is None else [_checked(found)]
                    except (msgspec.MsgspecError, ValueError) as error:
                        raise InputError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return logged


def evaluate_policy(log: Sequence[Logged], policy: Policy, *, name: str, confidence: float = 0.95) -> OffPolicyReport:
    """What the policy's mean reward would have been.

    Args:
        log: decisions with their propensities.
        policy: what to evaluate; it must not have learned from the very decisions it is asked about.
        name: what the report calls it.
        confidence: of the intervals, 0–1.

    Raises:
        UnsupportedPolicyError: there are too few decisions, or too many of the policy's choices have no support.
    """
    if len(log) < LEAST_DECISIONS:
        raise UnsupportedPolicyError(f"{len(log)} decisions are too few to evaluate a policy; {LEAST_DECISIONS} needed")
    wanted = [policy(one) for one in log]
    unsupported = _unsupported(log, wanted, name)
    rewards = np.array([one.reward for one in log])
    weights = np.array([_weight(one, chances) for one, chances in zip(log, wanted, strict=True)])
    if not weights.any():
        raise UnsupportedPolicyError(f"{name} never does what the log did; it cannot be evaluated from this log")
    model = _rewards_by_fold(log)
    direct = np.array([sum(p * q.get(a, 0.5) for a, p in c.items()) for c, q in zip(wanted, model, strict=True)])
    of_chosen = np.array([q.get(one.agent_id, 0.5) for one, q in zip(log, model, strict=True)])
    mean_weight = float(weights.mean())
    snips = float(weights @ rewards) / float(weights.sum())
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    ips = weights * rewards
    dr = direct + weights * (rewards - of_chosen)
    return OffPolicyReport(
        policy=name,
        decisions=len(log),
        logged=float(rewards.mean()),
        ips=_estimate(float(ips.mean()), ips, z, above=unsupported),
        snips=_estimate(snips, weights * (rewards - snips) / mean_weight, z, above=unsupported, below=unsupported),
        dr=_estimate(float(dr.mean()), dr, z, above=unsupported, below=unsupported),
        effective_decisions=float(weights.sum() ** 2 / (weights**2).sum()),
        largest_weight=float(weights.max()),
        unsupported=unsupported,
        confidence=confidence,
    )


def policy_named(name: str, log: Sequence[Logged]) -> Policy:
    """A policy by its name.

    ``uniform``; ``agent:ID``; a file of JSON, ``{task type: {agent: probability}}`` with ``*`` for all other types; or
    a strategy, which for each decision knows what the other folds of the log tell it.

    Raises:
        ConfigurationError: there is no such policy.
        InputError: the file is not as said.
    """
    if name == "uniform":
        return lambda one: dict.fromkeys(one.propensities, 1.0 / len(one.propensities))
    if name.startswith("agent:"):
        agent_id = name.removeprefix("agent:")
        if not any(agent_id in one.propensities for one in log):
            raise ConfigurationError(f"{agent_id} is no candidate of any decision of the log")
        return lambda one: {agent_id: 1.0}  # noqa: ARG005 - the same for all
    if name in {"thompson", "ucb", "epsilon-greedy", "contextual"}:
        return _by_strategy(name, log)  # type: ignore[arg-type]
    if Path(name).is_file():
        return _by_table(Path(name))
    raise ConfigurationError(
        f"policy {name!r} is unknown; use uniform, agent:ID, thompson, ucb, epsilon-greedy, contextual or a JSON file"
    )


def _estimate(value: float, influence: Array, z: float, *, above: float, below: float = 0.0) -> Estimate:
    half = z * float(influence.std(ddof=1)) / float(np.sqrt(len(influence)))
    return Estimate(value=value, low=value - half - below, high=value + half + above)


def _unsupported(log: Sequence[Logged], wanted: Sequence[Mapping[str, float]], name: str) -> float:
    shares: dict[str, float] = {}
    for one, chances in zip(log, wanted, strict=True):
        for agent_id, chance in chances.items():
            if one.propensities.get(agent_id, 0.0) < LEAST_PROPENSITY:
                shares[agent_id] = shares.get(agent_id, 0.0) + chance / len(log)
    total = sum(shares.values())
    if total > MOST_UNSUPPORTED:
        most = sorted(shares, key=lambda agent_id: -shares[agent_id])[:3]
        raise UnsupportedPolicyError(
            f"{total:.1%} of the choices of {name} are of agents that the log gave a probability below "
            f"{LEAST_PROPENSITY:g} (mostly {', '.join(most)}); at most {MOST_UNSUPPORTED:.0%} can be. "
            "Log decisions of a policy that explores them"
        )
    return total


def _weight(one: Logged, chances: Mapping[str, float]) -> float:
    logged = one.propensities[one.agent_id]
    return chances.get(one.agent_id, 0.0) / logged if logged >= LEAST_PROPENSITY else 0.0


def _fold(one: Logged) -> int:
    """Decisions on one task are in one fold."""
    return crc32(one.task_id.encode()) % FOLDS


def _beliefs_without(log: Sequence[Logged], fold: int) -> Beliefs:
    beliefs = Beliefs(EvidenceTable())
    for one in log:
        if _fold(one) != fold:
            beliefs.evidence.add(one.agent_id, one.task_type, one.reward)
    beliefs.positions(sorted({agent_id for one in log for agent_id in one.propensities}))
    return beliefs


def _rewards_by_fold(log: Sequence[Logged]) -> list[dict[str, float]]:
    """Each decision's expected reward by agent, from what the other folds say of its task type."""
    known: dict[tuple[int, str], dict[str, float]] = {}
    beliefs = [_beliefs_without(log, fold) for fold in range(FOLDS)]
    model = []
    for one in log:
        key = (_fold(one), one.task_type)
        if key not in known:
            mean = beliefs[key[0]].of(one.task_type).mean
            known[key] = {name: float(mean[i]) for name, i in beliefs[key[0]].evidence.agents.items()}
        model.append(known[key])
    return model


def _by_strategy(name: StrategyName, log: Sequence[Logged]) -> Policy:
    agents = sorted({agent_id for one in log for agent_id in one.propensities})
    profiles = [AgentProfile(id=agent_id, kind="reference") for agent_id in agents]
    routers = []
    for fold in range(FOLDS):
        linear = LinearEvidence()
        if name == "contextual":
            for one in log:
                if _fold(one) != fold:
                    linear.learn(one.agent_id, features_of(one.task), one.reward)
        routers.append(Router(profiles, _beliefs_without(log, fold), strategy=build_strategy(name, linear)))
    everybody, rng = frozenset(agents), np.random.default_rng(0)

    def chances(one: Logged) -> dict[str, float]:
        # Only the probabilities are used, so that what is drawn makes no difference.
        choice = routers[_fold(one)].decide(one.task, rng, without=everybody.difference(one.propensities))
        return {scored.profile.id: scored.propensity for scored in choice.scored}

    return chances


def _by_table(path: Path) -> Policy:
    try:
        table = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
    except msgspec.MsgspecError as error:
        raise InputError(f"{path} is no policy, {{task type: {{agent: probability}}}}: {error}") from None
    for task_type, shares in table.items():
        if abs(sum(shares.values()) - 1.0) > 1e-6 or min(shares.values(), default=0.0) < 0.0:
            raise InputError(f"{path}: the probabilities of {task_type} do not sum to 1")

    def chances(one: Logged) -> Mapping[str, float]:
        found = table.get(one.task_type, table.get("*"))
        if found is None:
            raise InputError(f"{path} says nothing of task type {one.task_type}, nor of all others by *")
        return found

    return chances


def _decode(line: bytes) -> Logged | None:
    raw: Any = msgspec.json.decode(line)
    if not (isinstance(raw, dict) and "routing" in raw and "evaluation" in raw):
        return msgspec.convert(raw, Logged)
    point = msgspec.convert(raw, DataPoint)
    if not point.routing.candidate_agents:
        return None
    return Logged(
        task_id=point.task.id,
        task_type=point.task.type,
        agent_id=point.routing.selected_agent_id,
        reward=point.evaluation.overall_score,
        propensities={one.agent_id: one.propensity for one in point.routing.candidate_agents},
    )


def _checked(one: Logged) -> Logged:
    if not 0.0 <= one.reward <= 1.0:
        raise ValueError(f"reward {one.reward} is not between 0 and 1")
    if abs(sum(one.propensities.values()) - 1.0) > 1e-3:
        raise ValueError(f"propensities sum to {sum(one.propensities.values()):.4f} and not to 1")
    if one.propensities.get(one.agent_id, 0.0) <= 0.0:
        raise ValueError(f"{one.agent_id} was chosen, and its propensity is 0 or missing")
    return one
