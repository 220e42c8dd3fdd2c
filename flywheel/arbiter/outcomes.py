"""What became of each task the arbiter ran: the memory that makes a task count once."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.tables import task_outcomes
from flywheel.records import Evaluation, Execution, RoutingDecision


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of one task. ``quality`` is the overall score, 0–1; ``label`` names the stream of traffic.

    ``task`` is what routing knew of it, which the contextual strategy learns by; of it languages and specializations
    are stored.
    """

    task_id: str
    tenant_id: str
    label: str
    source_id: str
    task_type: str
    agent_id: str
    success: bool
    quality: float
    latency_ms: float
    evaluated_at: datetime
    cost_usd: float | None = None
    task: RoutedTask | None = None


def routed_task(decision: RoutingDecision) -> RoutedTask:
    """What routing knew of the task that it decided on.

    A log names languages and specializations among its requirements: ``language:python``, ``specialization:law``.
    """
    return RoutedTask(
        task_type=decision.task_type,
        complexity=decision.complexity,
        requirements=decision.requirements,
        languages=_named(decision, "language:"),
        specializations=_named(decision, "specialization:"),
        length=len(decision.description),
    )


def _named(decision: RoutingDecision, prefix: str) -> tuple[str, ...]:
    return tuple(name.removeprefix(prefix) for name in decision.requirements if name.startswith(prefix))


def outcome_of(
    decision: RoutingDecision,
    execution: Execution,
    evaluation: Evaluation,
    *,
    label: str,
    cost_usd: float | None = None,
    task: RoutedTask | None = None,
) -> Outcome:
    """The outcome that a task's three logs tell of; its cost is None where it is not known.

    ``task`` is what routing knew of it, where that is more than the logs tell.
    """
    return outcome_from(
        decision,
        execution,
        label=label,
        quality=evaluation.overall_score,
        success=execution.success,
        at=evaluation.timestamp,
        cost_usd=cost_usd,
        task=task,
    )


def outcome_from(
    decision: RoutingDecision,
    execution: Execution,
    *,
    label: str,
    quality: float,
    success: bool,
    at: datetime,
    cost_usd: float | None = None,
    task: RoutedTask | None = None,
) -> Outcome:
    """The same where something else than an evaluation says what the task was worth."""
    assert execution.latency_ms is not None, "an arbiter measures; imported logs are no outcomes of its own"
    return Outcome(
        task_id=decision.task_id,
        tenant_id=decision.tenant_id,
        label=label,
        source_id=decision.source or decision.task_id,
        task_type=decision.task_type,
        agent_id=execution.agent_id,
        success=success,
        quality=quality,
        latency_ms=execution.latency_ms,
        evaluated_at=at,
        cost_usd=cost_usd,
        task=task or routed_task(decision),
    )


def record_new(connection: Connection, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Store the outcomes whose tasks have none yet, and return just those."""
    if not outcomes:
        return []
    in_order = sorted(outcomes, key=_key)
    rows = [_row(outcome) for outcome in in_order]
    statement = insert(task_outcomes).values(rows).on_conflict_do_nothing()
    key = task_outcomes.c.tenant_id, task_outcomes.c.task_id
    new = {(row.tenant_id, row.task_id) for row in connection.execute(statement.returning(*key))}
    return [outcome for outcome in outcomes if _key(outcome) in new]


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.tenant_id, outcome.task_id


def _row(outcome: Outcome) -> dict[str, object]:
    row = {name: value for name, value in msgspec.structs.asdict(outcome).items() if name != "task"}
    task = outcome.task
    return row | {
        "languages": list(task.languages) if task else [],
        "specializations": list(task.specializations) if task else [],
    }
