"""Pools of candidates for tests of strategies."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.evidence import Evidence, EvidenceTable
from flywheel.arbiter.routing.objective import Objective
from flywheel.arbiter.routing.priors import Prior
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.strategy import Choice, Load, RoutingStrategy
from flywheel.arbiter.routing.task import RoutedTask

ADD = RoutedTask(task_type="add")
Done = tuple[int, float]
"""Tasks done and their mean quality."""


def agent(agent_id: str, **fields: object) -> AgentProfile:
    return AgentProfile(id=agent_id, kind="reference", **fields)  # type: ignore[arg-type]


def beliefs(
    known: Mapping[str, Done], *, task_type: str = "add", objective: Objective | None = None, prior: Prior | None = None
) -> Beliefs:
    """Agents that did so many tasks of a type with 0/1 rewards of this mean."""
    table = EvidenceTable()
    table.put(
        (name, task_type, Evidence(tasks=n, weight=n, quality_sum=n * mean, quality_squares=n * mean))
        for name, (n, mean) in known.items()
    )
    return Beliefs(table, objective=objective, prior=prior)


def router(known: Mapping[str, Done], strategy: RoutingStrategy | None = None, **options: object) -> Router:
    return Router([agent(name) for name in known], beliefs(known, **options), strategy=strategy)  # type: ignore[arg-type]


def shares(
    of: Router, task: RoutedTask = ADD, *, draws: int = 4_000, loads: Mapping[str, Load] | None = None, seed: int = 7
) -> Counter[str]:
    rng = np.random.default_rng(seed)
    return Counter(of.decide(task, rng, loads=loads).selected for _ in range(draws))


def propensities(choice: Choice) -> dict[str, float]:
    return {scored.profile.id: scored.propensity for scored in choice.scored}


def assert_consistent(choice: Choice, names: Sequence[str]) -> None:
    """What every decision has to fulfil."""
    assert [scored.profile.id for scored in choice.scored] == list(names)
    assert abs(sum(scored.propensity for scored in choice.scored) - 1.0) < 1e-9
    assert all(0.0 <= scored.propensity <= 1.0 for scored in choice.scored)
    [selected] = [scored for scored in choice.scored if scored.profile.id == choice.selected]
    assert selected.propensity == choice.propensity > 0.0
    assert 0.0 <= choice.confidence <= 1.0
    assert choice.selected in choice.primary_reason
    assert selected.reason in choice.primary_reason
