"""One run of one task: route, answer and refine, fall back where an agent cannot answer, record."""

import time
from functools import partial

import msgspec
from msgspec import UNSET, Struct

from flywheel.arbiter.agents.slots import Place
from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.arbiter.budgets import reason_to_escalate
from flywheel.arbiter.evaluation.evaluator import Subject, Verdict, failed_verdict
from flywheel.arbiter.logs import Step, no_choice
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.running.asking import ask, why_no_answer
from flywheel.arbiter.running.calls import CallTimeoutError, CancelToken, TaskCancelledError, call
from flywheel.arbiter.running.deciding import give
from flywheel.arbiter.running.episode import Turns, played
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.running.recording import (
    NOBODYS_FAULT,
    Attempt,
    Recorded,
    cost_of,
    failure_in,
    judged,
    outcome,
    record,
    why_no_success,
)
from flywheel.arbiter.running.refinement import halt_score, with_feedback
from flywheel.arbiter.running.spending import Spending
from flywheel.arbiter.running.streaming import Stream, Watch
from flywheel.arbiter.task import ATTEMPT_MARK, AttemptReport, Failure, FailureKind, Task, TaskResult, TaskStatus
from flywheel.errors import (
    ConfigurationError,
    DatabaseError,
    NoAgentError,
    TaskSourceError,
    UnsupportedOptionError,
)
from flywheel.records import RoutingDecision
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import AgentTask, SourceTask

NO_AGENT = "no-agent"
"""Stands for the agent in the logs of a task that nobody was chosen for."""
CANNOT_ANSWER: tuple[FailureKind, ...] = ("agent-error", "timeout")


class Ran(Struct, frozen=True, kw_only=True):
    """What became of a run: its result, and what is to be learned of it."""

    result: TaskResult
    outcomes: tuple[Outcome, ...] = ()


class TaskRun:
    """One run, for one thread and one time."""

    def __init__(
        self,
        parts: Parts,
        task: Task,
        *,
        started_s: float,
        until_s: float | None,
        token: CancelToken,
        watch: Watch,
    ) -> None:
        """Nothing is done yet.

        Args:
            parts: what runs share.
            task: what to do.
            started_s: when the task was handed over, by ``time.monotonic``.
            until_s: when it must be done; None: whenever.
            token: may cancel it.
            watch: how the caller follows it.
        """
        self.parts, self.task = parts, task
        self._started_s, self._until_s = started_s, until_s
        self._token, self._watch = token, watch
        self._begun = False
        self._routed = task.routed()
        self._spending = Spending(task)
        self._reports: list[AttemptReport] = []
        self._outcomes: list[Outcome] = []
        self._logged = True

    def run(self) -> Ran:
        """Run the task. Whatever agents and evaluators do, there is a result and its logs.

        Raises:
            DatabaseError: PostgreSQL cannot be used for routing.
            TaskSourceError: the environment broke in the first attempt.
        """
        tried: frozenset[str] = frozenset()
        attempt: Attempt | None = None
        while True:
            after = "" if attempt is None else f"{attempt.profile.id} could not answer; of the others: "
            found = self._attempt(tried, after, number=len(tried) + 1)
            if isinstance(found, Failure):
                break
            if attempt is not None:
                self._record(attempt, f"{self.task.id}{ATTEMPT_MARK}{len(self._reports) + 1}")
            attempt, tried = found, tried | {found.profile.id}
            if not self._may_fall_back(attempt, len(tried)):
                break
        if attempt is None:
            assert isinstance(found, Failure)
            return self._nobody(found)
        recorded = self._record(attempt, self.task.id)
        return Ran(result=self._result(attempt, recorded), outcomes=tuple(self._outcomes))

    def conclude(self, attempt: Attempt) -> Ran:
        """The end of a task that no agent did: logged as the attempt says, and nothing is learned from it."""
        recorded = self._log(attempt)
        self._logged = recorded.written
        return Ran(result=self._result(attempt, recorded))

    def judge(self, answer: Answer, *, agent_id: str, cost_usd: float = 0.0) -> tuple[Verdict | None, str | None]:
        """The verdict on an answer, or why there is none.

        Raises:
            CallTimeoutError: the evaluator took longer than the task has time.
            TaskCancelledError: the task was cancelled meanwhile.
        """
        subject = self._subject(answer, agent_id=agent_id, cost_usd=cost_usd)
        if answer.failure_reason is not None:
            return failed_verdict(subject), None  # needs no time, and there may be none
        return call(
            partial(judged, self.parts.evaluator, subject),
            seconds=self._left_s(),
            token=self._token,
            name=f"flywheel-evaluate-{agent_id}",
        )

    # --- attempts ---------------------------------------------------------------------------------------------------

    def _attempt(self, tried: frozenset[str], after: str, *, number: int) -> Attempt | Failure:
        """One agent's attempt; the failure where none can be had."""
        parts = self.parts
        if self._token.reason is not None:
            return Failure(kind="cancelled", reason=self._token.reason)
        if self._left_s() == 0.0:
            return Failure(kind="timeout", reason="the task's time was over before an agent was chosen")
        try:
            decision, profile, place = give(self.task, self._routed, parts, without=tried, after=after)
            self._watch.decided(decision)
            if self.task.environment is not None:
                return self._episode(self.task.environment, decision, profile, place, number=number)
        except (NoAgentError, ConfigurationError) as error:
            refused = isinstance(error, UnsupportedOptionError)
            return Failure(kind="no-agent", reason=str(error), refused=refused)
        except (DatabaseError, TaskSourceError) as error:
            if not tried:
                raise
            return Failure(kind="no-agent", reason=str(error))  # the attempt before is logged and is the result
        steps, failure, exhausted = self._iterate(profile, place, number=number)
        return Attempt(
            decision=decision,
            profile=profile,
            steps=tuple(steps),
            answered_at=parts.clock(),
            failure=why_no_success(steps, failure, exhausted),
            over_budget=self._spending.budget.remaining < 0,
        )

    def _episode(
        self, task: SourceTask, decision: RoutingDecision, profile: AgentProfile, first: Place, *, number: int
    ) -> Attempt:
        """One agent's attempt at a task that an environment runs."""
        parts, unused = self.parts, [first]

        def ask_turn(asked: AgentTask, turn: int) -> tuple[Answer, Failure | None]:
            place = unused.pop() if unused else parts.slots.enter(profile.id, limit=profile.max_concurrent)
            answer, failure = self._answer(profile, asked, place, attempt=number, iteration=turn)
            self._spending.add(Step(answer=answer, usd=cost_of(profile, answer)))
            return answer, failure

        try:
            turns = Turns(profile, ask_turn, limit=self._spending.limit_reached)
            found = played(task, turns, profile, decision, parts.start_run, at=parts.clock(), rubric=parts.rubric)
        finally:
            for place in unused:  # the environment broke before anybody was asked
                place.leave()
        return Attempt(
            decision=decision,
            profile=profile,
            steps=found.steps,
            answered_at=parts.clock(),
            failure=found.failure,
            episode=found.episode,
        )

    def _may_fall_back(self, attempt: Attempt, tried: int) -> bool:
        """Whether another agent may try: this one has no answer at all, and there is time and money left."""
        failure = attempt.failure
        return (
            failure is not None
            and failure.kind in CANNOT_ANSWER
            and not attempt.answered
            and not self._is_bound
            and self.task.agent_id is None
            and tried < self.parts.settings.max_attempts
            and self._left_s() != 0.0
            and self._spending.limit_reached() is None
        )

    def _iterate(
        self, profile: AgentProfile, place: Place, *, number: int
    ) -> tuple[list[Step], Failure | None, str | None]:
        """The agent's answers, why the last one did not come, and which budget ended it before it was good enough."""
        steps: list[Step] = []
        asked: AgentTask | None = self.task.asked
        exhausted: str | None = None
        raised = False
        while asked is not None:
            if steps:  # it waits like everybody else
                place = self.parts.slots.enter(profile.id, limit=profile.max_concurrent)
            step, failure = self._step(profile, asked, place, attempt=number, iteration=len(steps) + 1)
            steps.append(step)
            self._spending.add(step)
            if failure is not None:
                return steps, failure, None
            if raised and step.quality <= max(earlier.quality for earlier in steps[:-1]):
                self.parts.cool_down.begin(profile.id, self.task.type)
            asked, exhausted, raised = self._next_turn(profile, asked, steps)
        return steps, None, exhausted

    def _next_turn(
        self, profile: AgentProfile, asked: AgentTask, steps: list[Step]
    ) -> tuple[AgentTask | None, str | None, bool]:
        """What the agent is asked next, which budget forbids it, and whether the thinking budget was raised for it."""
        settings, last = self.parts.settings, steps[-1]
        verdict, tokens = last.verdict, last.answer.output_tokens
        if verdict is None or verdict.feedback is None or len(steps) >= settings.max_iterations:
            return None, None, False
        if self._is_bound or last.answer.tool_calls:  # calls are the caller's to make, and to answer
            return None, None, False
        qualities = [step.quality for step in steps]
        if halt_score(qualities, tokens=1, remaining=1) > settings.stop_quality:
            return None, None, False
        if limit := self._spending.limit_reached():
            return None, limit, False
        raised = self._spending.budget.remaining < max(tokens, 1) and self._escalate(profile, verdict)
        if halt_score(qualities, tokens=tokens, remaining=self._spending.budget.remaining) > settings.stop_quality:
            budget = self._spending.budget
            return None, f"{budget.spent:,} of {budget.granted:,} tokens of the thinking budget are spent", False
        return with_feedback(asked, last.answer.text, verdict.feedback), None, raised

    @property
    def _is_bound(self) -> bool:
        """Whether the caller has pieces of an answer that cannot be taken back."""
        return self._watch.irrevocable and self._begun

    def _escalate(self, profile: AgentProfile, verdict: Verdict) -> bool:
        reason = reason_to_escalate(
            passed=verdict.passed, partial_success=verdict.partial_success, confidence=verdict.confidence
        )
        cooling = self.parts.cool_down.holds(profile.id, self.task.type)
        if reason is None or cooling or not self._spending.budget.can_escalate:
            return False
        self._spending.budget.escalate()
        return True

    # --- one answer -------------------------------------------------------------------------------------------------

    def _step(
        self, profile: AgentProfile, asked: AgentTask, place: Place, *, attempt: int, iteration: int
    ) -> tuple[Step, Failure | None]:
        answer, failure = self._answer(profile, asked, place, attempt=attempt, iteration=iteration)
        usd = cost_of(profile, answer)
        if failure is not None and failure.kind in NOBODYS_FAULT:
            return Step(answer=answer, unjudged=failure.reason, usd=usd), failure
        try:
            verdict, unjudged = self.judge(answer, agent_id=profile.id, cost_usd=usd)
        except CallTimeoutError:
            return Step(answer=answer, unjudged="the task's time was over before it was evaluated", usd=usd), failure
        except TaskCancelledError as error:
            return Step(answer=answer, unjudged=str(error), usd=usd), Failure(kind="cancelled", reason=str(error))
        return Step(answer=answer, verdict=verdict, unjudged=unjudged, usd=usd), failure

    def _subject(self, answer: Answer, *, agent_id: str, cost_usd: float = 0.0) -> Subject:
        return Subject(
            task=self.task.asked,
            answer=answer,
            task_id=self.task.id,
            tenant_id=self.parts.tenant_id,
            agent_id=agent_id,
            at=self.parts.clock(),
            cost_usd=cost_usd,
        )

    def _answer(
        self, profile: AgentProfile, asked: AgentTask, place: Place, *, attempt: int, iteration: int
    ) -> tuple[Answer, Failure | None]:
        """The agent's answer; a failed one, and why, where there is none."""
        stream = Stream(self._watch.on_text, attempt=attempt, iteration=iteration)
        started_s = time.monotonic()
        try:
            answer = ask(
                profile,
                asked,
                place=place,
                make_agent=self.parts.make_agent,
                slots=self.parts.slots,
                stream=stream,
                left_s=self._left_s,
                token=self._token,
            )
        except Exception as error:  # noqa: BLE001 - an agent may raise anything
            failure = why_no_answer(error, profile, self.task.id)
        else:
            return answer, failure_in(answer)
        finally:
            stream.close()
            self._begun = self._begun or stream.begun
        latency_ms = (time.monotonic() - started_s) * 1000
        return failed_answer(prompt_messages(asked, profile.prompt), failure.reason, latency_ms=latency_ms), failure

    # --- bounds -----------------------------------------------------------------------------------------------------

    def _left_s(self) -> float | None:
        """Seconds until the task must be done, not below 0; None: no limit."""
        return None if self._until_s is None else max(0.0, self._until_s - time.monotonic())

    # --- the end ----------------------------------------------------------------------------------------------------

    def _record(self, attempt: Attempt, task_id: str) -> Recorded:
        """Log an attempt under this id and remember what is to be learned of it."""
        attempt = msgspec.structs.replace(attempt, decision=msgspec.structs.replace(attempt.decision, task_id=task_id))
        recorded = self._log(attempt)
        learned = outcome(attempt.decision, recorded, label=self.parts.label, usd=attempt.spent.usd, task=self._routed)
        self._outcomes += [learned] if learned else []
        self._reports.append(attempt.report())
        self._logged = self._logged and recorded.written
        return recorded

    def _log(self, attempt: Attempt) -> Recorded:
        parts = self.parts
        return record(attempt, parts.collector, clock=parts.clock, rubric=parts.rubric, notary=parts.notary)

    def _nobody(self, failure: Failure) -> Ran:
        """The end of a task that no agent was chosen for: its logs say so, and nobody learns from it."""
        parts, now = self.parts, self.parts.clock()
        answer = failed_answer(self.task.messages, failure.reason, latency_ms=self._latency_ms())
        decision = no_choice(
            self.task,
            agent_id=NO_AGENT,
            tenant_id=parts.tenant_id,
            timestamp=now,
            reason=f"nobody was chosen: {failure.reason}",
        )
        step = Step(answer=answer, unjudged=failure.reason)
        if failure.kind != "cancelled":
            step = Step(answer=answer, verdict=failed_verdict(self._subject(answer, agent_id=NO_AGENT)))
        attempt = Attempt(
            decision=decision,
            profile=AgentProfile(id=NO_AGENT, kind="reference"),
            steps=(step,),
            answered_at=now,
            failure=failure,
        )
        return self.conclude(attempt)

    def _result(self, attempt: Attempt, recorded: Recorded) -> TaskResult:
        failure, best = attempt.failure, attempt.best
        status: TaskStatus = (
            "succeeded" if failure is None else "cancelled" if failure.kind == "cancelled" else "failed"
        )
        return TaskResult(
            task_id=self.task.id,
            tenant_id=self.parts.tenant_id,
            status=status,
            text=best.answer.text,
            tool_calls=best.answer.tool_calls,
            finish_reason=best.answer.finish_reason,
            agent_id=attempt.profile.id,
            decision=msgspec.structs.replace(attempt.decision, task_id=self.task.id),
            budget=self._spending.budget.report(),
            latency_ms=self._latency_ms(),
            attempts=tuple(self._reports),
            evaluation=recorded.evaluation,
            not_evaluated=None if recorded.execution.not_evaluated is UNSET else recorded.execution.not_evaluated,
            unjudged=recorded.execution if failure is None and recorded.evaluation is None else None,
            spent=self._spending.spent,
            failure=failure,
            cached_from=None if attempt.cached_from is UNSET else attempt.cached_from,
            logged=self._logged,
        )

    def _latency_ms(self) -> float:
        return (time.monotonic() - self._started_s) * 1000
