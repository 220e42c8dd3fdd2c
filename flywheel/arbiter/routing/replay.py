"""Replay: a strategy on tasks of which every agent's outcome is known, and how far it is from the best there was.

The strategy sees the outcome of the agent it chose, and no other. Regret is against three that know in advance what a
router has to find out: the best single agent, the best agent of each task type, and the best agent of each task.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.build import build_strategy
from flywheel.arbiter.routing.evidence import EvidenceTable
from flywheel.arbiter.routing.linear import LinearEvidence
from flywheel.arbiter.routing.objective import Objective
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.strategy import Load
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.errors import InputError
from flywheel.settings import StrategyName

CURVE_POINTS = 50


class Row(Struct, frozen=True, kw_only=True, rename="camel"):
    """One agent's outcome of one task: a line of a matrix of outcomes.

    ``reward`` is 0–1. ``features`` are numbers about the task for the contextual strategy, the same ones in each of the
    task's rows. ``at`` is when it was done, in days from any moment; where given, tasks are replayed in that order.
    """

    task_id: str
    task_type: str
    agent_id: str
    reward: float
    latency_ms: float | None = None
    cost_usd: float | None = None
    features: tuple[float, ...] = ()
    at: float | None = None


class Case(Struct, frozen=True):
    """One task with the outcomes of the agents that did it."""

    task: RoutedTask
    outcomes: dict[str, Row]
    at: float | None


class LastQuarter(Struct, frozen=True, kw_only=True, rename="camel"):
    """The last quarter of the tasks: what the strategy got, and what the agent that was the best one there got."""

    mean_reward: float
    best_single: float


class ReplayReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a strategy did. Rewards are means over tasks, 0–1; shares are of tasks, 0–1.

    Attributes:
        mean_reward: of the strategy.
        random: of choosing evenly among the agents, in expectation.
        best_single: of the one agent with the highest mean; agents with fewer than half of the tasks are left out.
        best_per_type: of the best agent of each task type, and ``oracle`` of each task, with hindsight.
        regret: by how much the strategy is below each of these three.
        first_quarter: the strategy's mean in the first quarter of the tasks.
        curve: the strategy's running mean after each of about fifty equal parts.
        best_curve: that of the best single agent.
    """

    strategy: str
    seed: int
    tasks: int
    agents: int
    mean_reward: float
    random: float
    best_single: float
    best_per_type: float
    oracle: float
    regret: dict[str, float]
    first_quarter: float
    last_quarter: LastQuarter
    best_agent: str
    share: dict[str, float]
    curve: tuple[float, ...]
    best_curve: tuple[float, ...]


def read_outcomes(path: Path) -> list[Row]:
    """The rows of a file of JSON lines.

    Raises:
        InputError: the file cannot be read, a line is no row, a reward is not 0–1, or there is no row.
    """
    decoder, rows = msgspec.json.Decoder(Row), []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    row = decoder.decode(line)
                except msgspec.MsgspecError as error:
                    raise InputError(f"{path}, line {number}: {error}") from None
                if not 0.0 <= row.reward <= 1.0:
                    raise InputError(f"{path}, line {number}: reward {row.reward} is not between 0 and 1")
                rows.append(row)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not rows:
        raise InputError(f"{path} has no outcomes")
    return rows


def cases_of(rows: Iterable[Row]) -> list[Case]:
    """The rows by task, in the order of their first one. Of an agent's several rows of a task the first counts."""
    grouped: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        grouped[row.task_id].setdefault(row.agent_id, row)
    cases = []
    for outcomes in grouped.values():
        first = next(iter(outcomes.values()))
        task = RoutedTask(task_type=first.task_type, embedding=first.features)
        moments = [row.at for row in outcomes.values() if row.at is not None]
        cases.append(Case(task, outcomes, min(moments) if moments else None))
    return cases


def replay(
    cases: Sequence[Case],
    strategy: StrategyName,
    *,
    seed: int,
    half_life: float | None = None,
    objective: Objective | None = None,
) -> ReplayReport:
    """Let a strategy route the tasks, in the order of their moments or, where they have none, shuffled by the seed.

    Args:
        cases: the tasks; a task is offered to the agents that have an outcome of it.
        strategy: its name.
        seed: of the order and of all drawing.
        half_life: age at which an outcome counts half: in days where the cases have moments, otherwise in tasks.
        objective: quality alone where None.
    """
    rng = np.random.default_rng(seed)
    ordered = ordered_cases(cases, rng)
    chosen = choices(ordered, strategy, rng, half_life=half_life, objective=objective)
    return _report(ordered, chosen, strategy=strategy, seed=seed)


def choices(
    ordered: Sequence[Case],
    strategy: StrategyName,
    rng: np.random.Generator,
    *,
    half_life: float | None = None,
    objective: Objective | None = None,
) -> list[Row]:
    """The outcome of the agent that the strategy chooses for each task, from those of its earlier choices alone."""
    agents = sorted({agent_id for case in ordered for agent_id in case.outcomes})
    profiles = [AgentProfile(id=agent_id, kind="reference") for agent_id in agents]
    beliefs = Beliefs(EvidenceTable(half_life=half_life), objective=objective)
    linear = LinearEvidence(half_life=half_life)
    router = Router(profiles, beliefs, strategy=build_strategy(strategy, linear))
    everybody = frozenset(agents)
    given: Counter[str] = Counter()
    chosen: list[Row] = []
    for number, case in enumerate(ordered):
        at = float(number) if case.at is None else case.at
        # Who was given more has more to do: in a replay nothing is ever finished.
        loads = {agent_id: Load(queued=count) for agent_id, count in given.items()}
        choice = router.decide(case.task, rng, loads=loads, now=at, without=everybody.difference(case.outcomes))
        row = case.outcomes[choice.selected]
        beliefs.learn(row.agent_id, row.task_type, row.reward, at=at, latency_ms=row.latency_ms, cost_usd=row.cost_usd)
        if strategy == "contextual":
            linear.learn(row.agent_id, features_of(case.task), row.reward, at=at)
        given[row.agent_id] += 1
        chosen.append(row)
    return chosen


def ordered_cases(cases: Sequence[Case], rng: np.random.Generator) -> list[Case]:
    """In the order of their moments or, where not all have one, in a random one."""
    if all(case.at is not None for case in cases):
        return sorted(cases, key=lambda case: case.at or 0.0)
    return [cases[position] for position in rng.permutation(len(cases))]


def _report(cases: Sequence[Case], chosen: Sequence[Row], *, strategy: str, seed: int) -> ReplayReport:
    agents = sorted({agent_id for case in cases for agent_id in case.outcomes})
    rewards = np.array([row.reward for row in chosen])
    matrix = np.array([[case.outcomes[a].reward if a in case.outcomes else np.nan for a in agents] for case in cases])
    types = np.array([case.task.task_type for case in cases])
    best = int(np.argmax(_means(matrix, least=len(cases) / 2)))
    per_type = sum(
        _highest(matrix[types == name]) * float((types == name).sum()) for name in dict.fromkeys(types.tolist())
    )
    found = {
        "best_single": float(np.nanmean(matrix[:, best])),
        "best_per_type": per_type / len(cases),
        "oracle": float(np.nanmax(matrix, axis=1).mean()),
    }
    quarter = max(1, len(cases) // 4)
    last = LastQuarter(mean_reward=float(rewards[-quarter:].mean()), best_single=_highest(matrix[-quarter:]))
    mean = float(rewards.mean())
    counts = Counter(row.agent_id for row in chosen)
    return ReplayReport(
        strategy=strategy,
        seed=seed,
        tasks=len(cases),
        agents=len(agents),
        mean_reward=mean,
        random=float(np.nanmean(matrix, axis=1).mean()),
        **found,
        regret={key: found[name] - mean for name, key in REGRETS.items()},
        first_quarter=float(rewards[:quarter].mean()),
        last_quarter=last,
        best_agent=agents[best],
        share={agent_id: counts[agent_id] / len(cases) for agent_id in agents},
        curve=_running_mean(rewards),
        best_curve=_running_mean(np.nan_to_num(matrix[:, best], nan=found["best_single"])),
    )


REGRETS = {"best_single": "bestSingle", "best_per_type": "bestPerType", "oracle": "oracle"}


def _means(matrix: NDArray[np.float64], *, least: float) -> NDArray[np.float64]:
    """Each agent's mean over the tasks it has; lowest of all where it has fewer than ``least``, if any has as many."""
    have = (~np.isnan(matrix)).sum(axis=0)
    means = np.where(have > 0, np.nansum(matrix, axis=0) / np.maximum(have, 1), -1.0)
    enough = have >= least
    return np.where(enough, means, -1.0) if enough.any() else means


def _highest(matrix: NDArray[np.float64]) -> float:
    return float(_means(matrix, least=len(matrix) / 2).max())


def _running_mean(rewards: NDArray[np.float64]) -> tuple[float, ...]:
    ends = np.unique(np.linspace(1, len(rewards), min(CURVE_POINTS, len(rewards))).astype(int))
    return tuple(float(value) for value in (np.cumsum(rewards)[ends - 1] / ends))
