"""An attempt becomes logs and an outcome: the one way, of benchmark rounds and of single tasks."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.audit_trail.notary import Notary, without_verdict
from flywheel.arbiter.episode_logs import episode_evaluation, episode_execution, iterations_of_episode
from flywheel.arbiter.episodes import Episode
from flywheel.arbiter.evaluation.evaluator import Evaluator, NotJudged, Subject, Verdict, failed_verdict
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.logs import Step, best_of, execution, iterations_of
from flywheel.arbiter.outcomes import Outcome, outcome_of
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.task import AttemptReport, Failure, FailureKind, Spent
from flywheel.collection.collector import Collector
from flywheel.records import Evaluation, Execution, RoutingDecision

LOGGER = logging.getLogger(__name__)
NO_EVALUATOR = "there is no evaluator"
NOBODYS_FAULT: tuple[FailureKind, ...] = ("cancelled", "saturated")
"""The agent is not judged by them, and nothing is learned."""
CANNOT_JUDGE = "the evaluator cannot judge this task"


class Attempt(Struct, frozen=True, kw_only=True):
    """What one agent made of a task.

    ``answered_at``: when its last answer was complete, or given up. ``cached_from``: the task whose answer it is.
    ``episode``: how it went, where an environment ran and verified it; each turn is a step then.
    """

    decision: RoutingDecision
    profile: AgentProfile
    steps: tuple[Step, ...]
    answered_at: datetime
    failure: Failure | None = None
    over_budget: bool = False
    cached_from: str | UnsetType = UNSET
    episode: Episode | None = None

    @property
    def best(self) -> Step:
        """Its best answer, of an episode the last one; or what stands for none."""
        if self.episode is None:
            return best_of(self.steps)
        return next((step for step in reversed(self.steps) if step.answer.failure_reason is None), self.steps[-1])

    @property
    def answered(self) -> bool:
        """Whether there is any answer."""
        return self.best.answer.failure_reason is None

    @property
    def spent(self) -> Spent:
        """What the agent reports of all its answers."""
        return sum((step.spent for step in self.steps), Spent())

    def report(self) -> AttemptReport:
        """For the result."""
        return AttemptReport(
            task_id=self.decision.task_id,
            agent_id=self.profile.id,
            iterations=iterations_of(self.steps) if self.episode is None else iterations_of_episode(self.episode),
            spent=self.spent,
            failure=self.failure,
        )


class Recorded(Struct, frozen=True, kw_only=True):
    """An attempt's logs, and whether they were all written at once."""

    execution: Execution
    evaluation: Evaluation | None
    written: bool


def judged(evaluator: Evaluator | None, subject: Subject) -> tuple[Verdict | None, str | None]:
    """The verdict, or why there is none. Nothing is made up where the evaluator fails."""
    if subject.answer.failure_reason is not None:
        return failed_verdict(subject), None
    if evaluator is None:
        return None, NO_EVALUATOR
    try:
        verdict = evaluator.evaluate(subject)
        if isinstance(verdict, Verdict):  # what is out of bounds could be stored, and not be read again
            msgspec.json.decode(msgspec.json.encode(verdict.evaluation), type=Evaluation)
    except Exception as error:
        LOGGER.warning("the evaluator failed on task %s", subject.task_id, exc_info=True)
        return None, f"the evaluator failed: {type(error).__name__}: {error}"
    if isinstance(verdict, NotJudged):
        return None, verdict.reason
    return verdict, None if verdict else CANNOT_JUDGE


def cost_of(profile: AgentProfile, answer: Answer) -> float:
    """What an answer costs by the agent's prices, in US dollars."""
    return profile.cost_usd(input_tokens=answer.prompt_tokens, output_tokens=answer.output_tokens)


def failure_in(answer: Answer) -> Failure | None:
    """Why there is no answer, as the agent says itself; None where there is one."""
    if answer.failure_reason is None:
        return None
    kind: FailureKind = "timeout" if answer.timed_out else "agent-error"
    return Failure(kind=kind, reason=answer.failure_reason, refused=answer.refused)


def rejection(verdict: Verdict | None) -> Failure | None:
    """What a verdict says against an answer; None where it, or nothing, says anything."""
    if verdict is None or verdict.passed:
        return None
    return Failure(kind="rejected", reason=verdict.reason or "it does not pass all mandatory gates")


def why_no_success(steps: Sequence[Step], failure: Failure | None, exhausted: str | None) -> Failure | None:
    """Why an attempt as a whole is no success; None where it is one.

    Args:
        steps: its answers, at least one.
        failure: why the last one did not come.
        exhausted: which budget forbade another one.
    """
    if failure is not None and failure.kind == "cancelled":
        return failure
    best = best_of(steps)
    rejected = rejection(best.verdict)
    if best.answer.failure_reason is None and rejected is None:
        return None
    if failure is not None or rejected is None or exhausted is None:
        return failure or rejected
    return Failure(kind="budget-exhausted", reason=f"{exhausted}; {rejected.reason}")


def record(
    attempt: Attempt,
    collector: Collector,
    *,
    clock: Callable[[], datetime],
    rubric: Rubric,
    notary: Notary | None,
) -> Recorded:
    """Write the three logs, or two where there is no evaluation; the notary signs that.

    The evaluation is written last: whoever finds it in a segment finds the other two before it. The gates want the
    three moments in order, also where somebody sets the machine's clock back meanwhile. ``rubric`` scores what an
    environment verified.
    """
    if attempt.episode is None:
        executed, evaluation = _answered(attempt, clock=clock)
    else:
        executed, evaluation = _played(attempt, attempt.episode, clock=clock, rubric=rubric)
    if evaluation is not None:
        evaluation = with_verdict(evaluation, notary)
    # Each is handed over whatever became of the one before: what cannot be written now waits in the collector.
    written = [collector.log_routing_decision(attempt.decision), collector.log_execution(executed)]
    written += [] if evaluation is None else [collector.log_evaluation(evaluation)]
    return Recorded(execution=executed, evaluation=evaluation, written=all(written))


def steps_of(episode: Episode, profile: AgentProfile, *, unjudged: str | None = None) -> tuple[Step, ...]:
    """The turns of an episode as steps of an attempt; ``unjudged`` is why nobody verified it."""
    return tuple(
        Step(answer=turn.answer, unjudged=unjudged, usd=cost_of(profile, turn.answer)) for turn in episode.turns
    )


def _answered(attempt: Attempt, *, clock: Callable[[], datetime]) -> tuple[Execution, Evaluation | None]:
    decision, best, failure = attempt.decision, attempt.best, attempt.failure
    # What was cancelled is worth nothing and shows nothing, also where an earlier turn had an answer.
    cancelled = failure is not None and failure.kind == "cancelled"
    verdict = None if cancelled else best.verdict
    executed = execution(
        decision,
        attempt.steps,
        timestamp=max(attempt.answered_at, decision.timestamp),
        failure=failure.reason if failure else None,
        not_evaluated=failure.reason if failure and cancelled else best.unjudged,
        cached_from=attempt.cached_from,
    )
    return executed, None if verdict is None else _evaluation(attempt, verdict, executed, clock=clock)


def _played(
    attempt: Attempt, episode: Episode, *, clock: Callable[[], datetime], rubric: Rubric
) -> tuple[Execution, Evaluation]:
    executed_at = max(attempt.answered_at, attempt.decision.timestamp)
    evaluation = episode_evaluation(
        episode,
        attempt.decision,
        timestamp=max(clock(), executed_at),
        cost_usd=attempt.spent.usd,
        rubric=rubric,
    )
    return episode_execution(episode, evaluation, timestamp=executed_at), evaluation


def outcome(
    decision: RoutingDecision, recorded: Recorded, *, label: str, usd: float, task: RoutedTask
) -> Outcome | None:
    """What is learned of what was recorded; None where nobody judged it, and where nobody was chosen.

    Whoever names an agent has reasons that routing does not know: to learn of it would bias what is believed.
    """
    if recorded.evaluation is None or not decision.candidate_agents:
        return None
    return outcome_of(decision, recorded.execution, recorded.evaluation, label=label, cost_usd=usd, task=task)


def with_verdict(evaluation: Evaluation, notary: Notary | None) -> Evaluation:
    """The evaluation with a verdict of its own; without a notary with none, whatever it was made from."""
    return without_verdict(evaluation) if notary is None else notary.signed(evaluation)


def _evaluation(
    attempt: Attempt, verdict: Verdict, executed: Execution, *, clock: Callable[[], datetime]
) -> Evaluation:
    """The evaluator's record with this task's ids, and with the budget of the whole task."""
    found = verdict.evaluation
    return msgspec.structs.replace(
        found,
        task_id=executed.task_id,
        agent_id=executed.agent_id,
        tenant_id=executed.tenant_id,
        timestamp=max(clock(), executed.timestamp),
        budget_compliant=found.budget_compliant and not attempt.over_budget,
        caws_compliant=found.caws_compliant and not attempt.over_budget,
    )
