"""What the arbiter has learned, in PostgreSQL: it survives a restart, and several arbiters add to it at once."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Double, Engine, cast, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.routing.evidence import Evidence, EvidenceTable
from flywheel.arbiter.routing.linear import LinearEvidence, Regression
from flywheel.arbiter.routing.task import RoutedTask, features_of
from flywheel.arbiter.tables import bandit_state, routing_regressions

SECONDS_A_DAY = 86_400.0
MOST_HALVINGS = 100.0
"""What is older counts 10⁻³⁰ and not less: PostgreSQL takes an underflow for an error."""
PLAIN = ("tasks", "successes", "quality_sum", "latency_ms_sum")
AGED = ("weight", "aged_quality", "aged_squares", "aged_latency_ms", "cost_weight", "aged_cost_usd")


def days(moment: datetime) -> float:
    """A moment as evidence has it: days since 1970."""
    return moment.timestamp() / SECONDS_A_DAY


class BanditState:
    """Evidence per agent and task type, and the agents' regressions."""

    def __init__(self, engine: Engine, *, half_life_days: float | None = None) -> None:
        self._engine = engine
        self._half_life_days = half_life_days

    def evidence(self) -> dict[tuple[str, str], Evidence]:
        """What is known, by (agent id, task type). Pairs without a task are absent."""
        with self._engine.connect() as connection:
            return {
                (row.agent_id, row.task_type): Evidence(
                    tasks=row.tasks,
                    weight=row.weight,
                    quality_sum=row.aged_quality,
                    quality_squares=row.aged_squares,
                    latency_weight=row.weight,
                    latency_ms_sum=row.aged_latency_ms,
                    cost_weight=row.cost_weight,
                    cost_usd_sum=row.aged_cost_usd,
                    at=days(row.weighed_at),
                )
                for row in connection.execute(select(bandit_state))
            }

    def table(self) -> EvidenceTable:
        """What is known, as arrays."""
        table = EvidenceTable(half_life=self._half_life_days)
        table.put((agent_id, task_type, evidence) for (agent_id, task_type), evidence in self.evidence().items())
        return table

    def regressions(self) -> LinearEvidence:
        """What the contextual strategy knows."""
        known = LinearEvidence(half_life=self._half_life_days)
        with self._engine.connect() as connection:
            for row in connection.execute(select(routing_regressions)):
                known.put(row.agent_id, tuple(row.features), _regression(row))
        return known


def learn(connection: Connection, outcomes: Iterable[Outcome], *, half_life_days: float | None = None) -> None:
    """Add outcomes to the evidence, by increments in the database: concurrent arbiters lose no update.

    The caller's transaction decides; rows are taken in one order, so that two of them cannot deadlock.

    Args:
        connection: in a transaction.
        outcomes: each of a task that was not learned from before.
        half_life_days: age at which an outcome counts half; None: it never ages.
    """
    in_order = sorted(outcomes, key=lambda outcome: (outcome.agent_id, outcome.task_type))
    for outcome in in_order:
        _add(connection, outcome, half_life_days)
    by_agent: defaultdict[str, list[tuple[RoutedTask, Outcome]]] = defaultdict(list)
    for outcome in in_order:
        if outcome.task is not None:
            by_agent[outcome.agent_id].append((outcome.task, outcome))
    for agent_id, done in by_agent.items():
        _regress(connection, agent_id, done, half_life_days)


def _add(connection: Connection, outcome: Outcome, half_life_days: float | None) -> None:
    known_cost = outcome.cost_usd is not None
    statement = insert(bandit_state).values(
        agent_id=outcome.agent_id,
        task_type=outcome.task_type,
        tasks=1,
        successes=int(outcome.success),
        quality_sum=outcome.quality,
        latency_ms_sum=outcome.latency_ms,
        weight=1.0,
        aged_quality=outcome.quality,
        aged_squares=outcome.quality**2,
        aged_latency_ms=outcome.latency_ms,
        cost_weight=float(known_cost),
        aged_cost_usd=outcome.cost_usd or 0.0,
        weighed_at=outcome.evaluated_at,
    )
    old, new = bandit_state.c, statement.excluded
    moment = func.greatest(old.weighed_at, new.weighed_at)
    kept = _left(moment, old.weighed_at, half_life_days)
    counted = _left(moment, new.weighed_at, half_life_days)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["agent_id", "task_type"],
            set_={
                **{name: old[name] + new[name] for name in PLAIN},
                **{name: old[name] * kept + new[name] * counted for name in AGED},
                "weighed_at": moment,
            },
        )
    )


def _left(
    moment: ColumnElement[datetime], since: ColumnElement[datetime], half_life_days: float | None
) -> ColumnElement[float]:
    """What age leaves of a weight, in SQL."""
    if half_life_days is None:
        return literal(1.0, Double)
    seconds = cast(func.extract("epoch", moment - since), Double)
    halvings = func.least(seconds / (half_life_days * SECONDS_A_DAY), MOST_HALVINGS)
    return func.power(literal(0.5, Double), halvings)


def _regress(
    connection: Connection, agent_id: str, done: list[tuple[RoutedTask, Outcome]], half_life_days: float | None
) -> None:
    """Add to an agent's regression, its row locked from reading to writing."""
    empty = {"features": [], "precision": [], "moment": [], "squares": 0.0, "weight": 0.0}
    first = insert(routing_regressions).values(agent_id=agent_id, weighed_at=done[0][1].evaluated_at, **empty)
    connection.execute(first.on_conflict_do_nothing())
    own = routing_regressions.c.agent_id == agent_id
    row = connection.execute(select(routing_regressions).where(own).with_for_update()).one()
    known = LinearEvidence(half_life=half_life_days)
    known.put(agent_id, tuple(row.features), _regression(row))
    for task, outcome in done:
        known.learn(agent_id, features_of(task), outcome.quality, at=days(outcome.evaluated_at))
    found = known.get(agent_id)
    connection.execute(
        routing_regressions.update()
        .where(own)
        .values(
            features=list(known.features),
            precision=found.precision.ravel().tolist(),
            moment=found.moment.tolist(),
            squares=found.squares,
            weight=found.weight,
            weighed_at=max([row.weighed_at, *(outcome.evaluated_at for _, outcome in done)]),
        )
    )


def _regression(row: Any) -> Regression:
    size = len(row.features)
    return Regression(
        precision=np.array(row.precision, dtype=float).reshape(size, size),
        moment=np.array(row.moment, dtype=float),
        squares=row.squares,
        weight=row.weight,
        at=days(row.weighed_at),
    )
