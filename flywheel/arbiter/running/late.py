"""Evaluations that come after a task's result: what users, tests or a reviewer say of an answer nobody judged."""

from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec import UNSET
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.outcomes import Outcome, outcome_of
from flywheel.arbiter.running.claims import Claims
from flywheel.arbiter.running.recording import with_verdict
from flywheel.arbiter.settling import settle
from flywheel.arbiter.task import Failure, TaskResult
from flywheel.collection.collector import Collector
from flywheel.errors import FlywheelError
from flywheel.records import Evaluation, Execution
from flywheel.settings import RoutingSettings


class NotJudgeableError(FlywheelError):
    """Raised when an evaluation comes for a task that has no stored answer without one. The message says why."""


def record_evaluation(
    engine: Engine,
    claims: Claims,
    collector: Collector,
    evaluation: Evaluation,
    *,
    tenant_id: str,
    task_id: str,
    label: str,
    routing: RoutingSettings,
    clock: Callable[[], datetime],
    notary: Notary | None = None,
) -> TaskResult:
    """Log an evaluation, signed, learn from it and put it into the stored result; once: of several the first holds.

    Raises:
        NotJudgeableError: there is no such result any more, or no answer in it.
        DatabaseError: PostgreSQL cannot be used.
    """
    with engine.begin() as connection:
        result = claims.result(connection, tenant_id, task_id)
        if result is None:
            raise NotJudgeableError(f"task {task_id!r} of {tenant_id!r} has no stored result; it runs, or is too old")
        if result.evaluation is not None:
            return msgspec.structs.replace(result, replayed=True)
        if result.unjudged is None:
            raise NotJudgeableError(f"task {task_id!r} has no answer to be judged: it is {result.status}")
        executed, evaluated = _logs(result.unjudged, evaluation, now=clock())
        evaluated = with_verdict(evaluated, notary)
        logged = executed is result.unjudged or collector.log_execution(executed)
        logged = collector.log_evaluation(evaluated) and logged
        settled = _outcome(result, executed, evaluated, label=label)
        settle(connection, [settled], routing)
        result = _amended(result, evaluated, logged=logged and result.logged)
        claims.amend(connection, result)
    return result


def _logs(unjudged: Execution, evaluation: Evaluation, *, now: datetime) -> tuple[Execution, Evaluation]:
    """The logs as they now are. The execution is another one only where what counted as a success is none."""
    executed = unjudged
    if not evaluation.passed_all_mandatory:
        executed = msgspec.structs.replace(
            unjudged,
            success=False,
            failure_reason="a later evaluation rejects it",
            not_evaluated=UNSET,
            timestamp=max(now, unjudged.timestamp),
        )
    evaluated = msgspec.structs.replace(
        evaluation,
        task_id=executed.task_id,
        agent_id=executed.agent_id,
        tenant_id=executed.tenant_id,
        timestamp=max(now, executed.timestamp),
    )
    return executed, evaluated


def _outcome(result: TaskResult, executed: Execution, evaluated: Evaluation, *, label: str) -> Outcome:
    usd = result.attempts[-1].spent.usd
    return outcome_of(result.decision, executed, evaluated, label=label, cost_usd=usd)


def _amended(result: TaskResult, evaluated: Evaluation, *, logged: bool) -> TaskResult:
    rejected = Failure(kind="rejected", reason="a later evaluation rejects it")
    passed = evaluated.passed_all_mandatory
    return msgspec.structs.replace(
        result,
        status="succeeded" if passed else "failed",
        failure=None if passed else rejected,
        evaluation=evaluated,
        not_evaluated=None,
        unjudged=None,
        logged=logged,
    )
