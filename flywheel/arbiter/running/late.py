"""What is said of a task after its result, or instead of it: evaluations, rewards, and runs of the caller's own.

Each part of a report is taken once: it is logged, and the first word on what an answer is worth is learned. The same
part again changes nothing, and another one is refused.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct
from sqlalchemy import Connection, Engine

from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.budgets import ThinkingBudget
from flywheel.arbiter.evaluation.evaluator import failed_evaluation
from flywheel.arbiter.outcomes import Outcome, outcome_from, outcome_of
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.running.claims import Claims, Known
from flywheel.arbiter.running.recording import with_verdict
from flywheel.arbiter.running.reports import NOT_YET, Report, ReportedExecution, Reward
from flywheel.arbiter.settling import settle
from flywheel.arbiter.task import AttemptReport, Failure, Spent, TaskResult
from flywheel.collection.collector import Collector
from flywheel.errors import FlywheelError
from flywheel.records import Evaluation, Execution, Feedback, RoutingDecision
from flywheel.settings import RoutingSettings

REJECTED = "a later evaluation rejects it"


class NotJudgeableError(FlywheelError):
    """Raised when something is said of a task that has no stored answer it could be about. The message says why."""


class UnknownTaskError(NotJudgeableError):
    """Raised when nothing is known of a task: it never came, or it was too long ago."""


class ConflictingReportError(FlywheelError):
    """Raised when a task has been reported otherwise before. What was said first holds."""


class Reported(Struct, frozen=True, kw_only=True):
    """A report that was taken.

    ``learned``: whether routing learned of it; ``replayed``: whether all of it had been said before.
    """

    result: TaskResult
    learned: bool = False
    replayed: bool = False


class LateWord(Struct, frozen=True, kw_only=True):
    """Takes what is said of one tenant's tasks."""

    engine: Engine
    claims: Claims
    collector: Collector
    tenant_id: str
    label: str
    routing: RoutingSettings
    clock: Callable[[], datetime]
    notary: Notary | None = None

    def record_evaluation(self, task_id: str, evaluation: Evaluation) -> TaskResult:
        """See ``Arbiter.record_evaluation``."""
        with self.engine.begin() as connection:
            known = self.claims.known(connection, self.tenant_id, task_id, lock=True)
            result = None if known is None else known.result
            if result is None:
                raise NotJudgeableError(
                    f"task {task_id!r} of {self.tenant_id!r} has no stored result; it runs, or is too old"
                )
            if result.evaluation is not None:
                return msgspec.structs.replace(result, replayed=True)
            if result.unjudged is None:
                raise NotJudgeableError(f"task {task_id!r} has no answer to be judged: it is {result.status}")
            result, _ = self._evaluated(connection, result, result.unjudged, evaluation)
            self.claims.amend(connection, result)
        return result

    def record(self, report: Report) -> Reported:
        """See ``Arbiter.record_report``."""
        with self.engine.begin() as connection:
            known = self.claims.known(connection, self.tenant_id, report.task_id, lock=True)
            if known is None:
                raise UnknownTaskError(
                    f"nothing is known of a task {report.task_id!r}: it never came, or its result is kept no more; "
                    f"logs of it can still be sent to /v1/logs/evaluation and /v1/logs/feedback"
                )
            before = {} if known.result is None else known.result.reports
            new = {part for part, digest in report.parts.items() if before.get(part) != digest}
            if known.result is not None and not new:
                return Reported(result=known.result, replayed=True)
            if other := new & before.keys():
                raise ConflictingReportError(
                    f"task {report.task_id!r} was reported with another {other.pop()} before, which holds"
                )
            result, learned = self._taken(connection, known, report, new)
            result = msgspec.structs.replace(result, reports={**before, **report.parts})
            self.claims.amend(connection, result)
        return Reported(result=result, learned=learned)

    def _taken(self, connection: Connection, known: Known, report: Report, new: set[str]) -> tuple[TaskResult, bool]:
        """The result with the new parts of the report, and whether anything was learned."""
        learned = [False]
        if known.result is not None:
            result = known.result
            _refuse_beside(result, new)
        else:
            result, first = self._done_by_caller(connection, known, report)
            learned.append(first)
        if report.evaluation is not None and "evaluation" in new:
            if result.unjudged is None:
                raise ConflictingReportError(f"task {report.task_id!r} failed, which is worth 0; it is not evaluated")
            evaluation = report.evaluation.logged(result.unjudged)
            result, first = self._evaluated(connection, result, result.unjudged, evaluation)
            learned.append(first)
        if report.reward is not None and "reward" in new:
            result, first = self._rewarded(connection, result, report.reward)
            learned.append(first)
        return result, any(learned)

    def _done_by_caller(self, connection: Connection, known: Known, report: Report) -> tuple[TaskResult, bool]:
        """The result of a task that its caller did; a failure is worth 0 whoever would judge it."""
        decision, told = known.routed, report.execution
        if decision is None:
            raise NotJudgeableError(f"task {report.task_id!r} has not ended; report when it has its result")
        if told is None:
            raise NotJudgeableError(f"task {report.task_id!r} was routed for you to do: tell its `execution` first")
        if told.agent_id not in {None, decision.selected_agent_id}:
            raise ConflictingReportError(
                f"task {report.task_id!r} was routed to {decision.selected_agent_id}, and {told.agent_id} is said to "
                f"have done it; what another agent does has an id of its own"
            )
        at = max(self.clock(), decision.timestamp)
        judged_too = report.evaluation is not None
        executed = told.logged(decision, at=at, not_evaluated=None if judged_too else NOT_YET)
        logged = self.collector.log_execution(executed)
        result = _result_of(decision, told, executed, usd=self._usd(told, decision.selected_agent_id), logged=logged)
        if told.success:
            return result, False
        failed = failed_evaluation(task_id=result.task_id, agent_id=result.agent_id, tenant_id=result.tenant_id, at=at)
        evaluation = with_verdict(failed, self.notary)
        logged = self.collector.log_evaluation(evaluation) and logged
        learned = self._settle(connection, result, self._outcome(result, executed, evaluation))
        return msgspec.structs.replace(result, evaluation=evaluation, logged=logged), learned

    def _evaluated(
        self, connection: Connection, result: TaskResult, unjudged: Execution, evaluation: Evaluation
    ) -> tuple[TaskResult, bool]:
        executed, evaluated = _logs(unjudged, evaluation, now=self.clock())
        evaluated = with_verdict(evaluated, self.notary)
        logged = executed is unjudged or self.collector.log_execution(executed)
        logged = self.collector.log_evaluation(evaluated) and logged
        learned = self._settle(connection, result, self._outcome(result, executed, evaluated))
        return _amended(result, evaluated, logged=logged and result.logged), learned

    def _rewarded(self, connection: Connection, result: TaskResult, reward: Reward) -> tuple[TaskResult, bool]:
        """The result with a reward, which is a log of feedback; learned where nobody has judged the answer."""
        now = self.clock()
        feedback = Feedback(
            task_id=result.task_id,
            tenant_id=result.tenant_id,
            timestamp=now,
            source=reward.source,
            name=reward.name,
            value=reward.value,
        )
        logged = self.collector.log_feedback(feedback)
        learned = False
        if result.unjudged is not None:
            outcome = outcome_from(
                result.decision,
                result.unjudged,
                label=self.label,
                quality=reward.value,
                success=reward.succeeded,
                at=now,
                cost_usd=_cost_of(result),
            )
            learned = self._settle(connection, result, outcome)
        return msgspec.structs.replace(result, reward=reward.value, logged=logged and result.logged), learned

    def _outcome(self, result: TaskResult, executed: Execution, evaluated: Evaluation) -> Outcome:
        return outcome_of(result.decision, executed, evaluated, label=self.label, cost_usd=_cost_of(result))

    def _settle(self, connection: Connection, result: TaskResult, outcome: Outcome) -> bool:
        """Whether it was learned: not what was learned before, nor of an agent that was named and not chosen."""
        return bool(result.decision.candidate_agents and settle(connection, [outcome], self.routing))

    def _usd(self, told: ReportedExecution, agent_id: str) -> float:
        if told.cost_usd is not None:
            return told.cost_usd
        profile = AgentRegistry(self.engine).get(agent_id)
        return profile.cost_usd(input_tokens=told.prompt_tokens, output_tokens=told.output_tokens)


def _refuse_beside(result: TaskResult, new: set[str]) -> None:
    """Refuse what cannot be said any more of a task that has a result."""
    if "execution" in new:
        raise ConflictingReportError(f"task {result.task_id!r} was run by the arbiter, which logged it itself")
    if "evaluation" in new and result.evaluation is not None:
        raise ConflictingReportError(
            f"task {result.task_id!r} has an evaluation, which holds; what people say of it later is a reward, or "
            f"feedback (/v1/logs/feedback)"
        )
    if result.status == "cancelled" or ("evaluation" in new and result.unjudged is None):
        raise NotJudgeableError(f"task {result.task_id!r} has no answer to be judged: it is {result.status}")


def _result_of(
    decision: RoutingDecision, told: ReportedExecution, executed: Execution, *, usd: float, logged: bool
) -> TaskResult:
    budget = ThinkingBudget(decision.complexity)
    budget.spend(told.output_tokens)
    failure = None if told.success else Failure(kind="agent-error", reason=executed.failure_reason or "")
    spent = Spent(
        prompt_tokens=told.prompt_tokens,
        output_tokens=told.output_tokens,
        thinking_tokens=executed.thinking_tokens,
        usd=usd,
        latency_ms=told.latency_ms,
    )
    attempt = AttemptReport(
        task_id=decision.task_id, agent_id=executed.agent_id, iterations=(), spent=spent, failure=failure
    )
    return TaskResult(
        task_id=decision.task_id,
        tenant_id=decision.tenant_id,
        status="succeeded" if told.success else "failed",
        text=told.answer if told.success else "",
        agent_id=executed.agent_id,
        decision=decision,
        budget=budget.report(),
        latency_ms=told.latency_ms,
        attempts=(attempt,),
        not_evaluated=None if executed.not_evaluated is UNSET else executed.not_evaluated,
        unjudged=executed if told.success else None,
        spent=spent,
        failure=failure,
        logged=logged,
    )


def _cost_of(result: TaskResult) -> float:
    return result.attempts[-1].spent.usd


def _logs(unjudged: Execution, evaluation: Evaluation, *, now: datetime) -> tuple[Execution, Evaluation]:
    """The logs as they now are. The execution is another one only where what counted as a success is none."""
    executed = unjudged
    if not evaluation.passed_all_mandatory:
        executed = msgspec.structs.replace(
            unjudged,
            success=False,
            failure_reason=REJECTED,
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


def _amended(result: TaskResult, evaluated: Evaluation, *, logged: bool) -> TaskResult:
    passed = evaluated.passed_all_mandatory
    return msgspec.structs.replace(
        result,
        status="succeeded" if passed else "failed",
        failure=None if passed else Failure(kind="rejected", reason=REJECTED),
        evaluation=evaluated,
        not_evaluated=None,
        unjudged=None,
        logged=logged,
    )
