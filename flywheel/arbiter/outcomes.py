"""What became of each task the arbiter ran: the memory that makes a task count once."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.tables import task_outcomes
from flywheel.records import Evaluation, Execution, RoutingDecision


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of one task. ``quality`` is the overall score, 0–1; ``label`` names the stream of traffic."""

    task_id: str
    label: str
    source_id: str
    task_type: str
    agent_id: str
    success: bool
    quality: float
    latency_ms: float
    evaluated_at: datetime


def outcome_of(decision: RoutingDecision, execution: Execution, evaluation: Evaluation, *, label: str) -> Outcome:
    """The outcome that a task's three logs tell of."""
    assert execution.latency_ms is not None, "an arbiter measures; imported logs are no outcomes of its own"
    return Outcome(
        task_id=decision.task_id,
        label=label,
        source_id=decision.source or decision.task_id,
        task_type=decision.task_type,
        agent_id=execution.agent_id,
        success=execution.success,
        quality=evaluation.overall_score,
        latency_ms=execution.latency_ms,
        evaluated_at=evaluation.timestamp,
    )


def record_new(connection: Connection, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Store the outcomes whose tasks have none yet, and return just those."""
    if not outcomes:
        return []
    rows = [msgspec.structs.asdict(outcome) for outcome in sorted(outcomes, key=lambda outcome: outcome.task_id)]
    statement = insert(task_outcomes).values(rows).on_conflict_do_nothing().returning(task_outcomes.c.task_id)
    new = set(connection.execute(statement).scalars())
    return [outcome for outcome in outcomes if outcome.task_id in new]
