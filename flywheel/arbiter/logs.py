"""What the arbiter writes down of a task: pure functions from decision and answers to records."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET, Struct, UnsetType

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.evaluation.evaluator import Verdict
from flywheel.arbiter.routing.strategy import Choice, Scored
from flywheel.arbiter.task import Spent, Task
from flywheel.records import (
    CandidateAgent,
    Execution,
    Iteration,
    Message,
    RoutingDecision,
    Strategy,
    ToolCall,
    ToolUse,
)
from flywheel.tasks.environment import MadeCall


class Step(Struct, frozen=True, kw_only=True):
    """One iteration: what an agent answered, and what the evaluator said. Without a verdict ``unjudged`` says why."""

    answer: Answer
    verdict: Verdict | None = None
    unjudged: str | None = None
    usd: float = 0.0

    @property
    def quality(self) -> float:
        """The verdict's; 0 where there is none, for the log of iterations, which has no word for that."""
        return 0.0 if self.verdict is None else self.verdict.quality

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """What the best of several is chosen by: an answer at all, an accepted one, its quality."""
        verdict = self.verdict
        return self.answer.failure_reason is None, verdict is None or verdict.passed, self.quality

    @property
    def spent(self) -> Spent:
        """What the agent reports."""
        answer = self.answer
        return Spent(
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            thinking_tokens=answer.thinking_tokens,
            usd=self.usd,
            latency_ms=answer.latency_ms,
        )


def best_of(steps: Sequence[Step]) -> Step:
    """The best answer; of equally good ones the first."""
    return max(steps, key=lambda step: step.rank)


def routing_decision(
    task: Task, choice: Choice, *, tenant_id: str, timestamp: datetime, after: str = ""
) -> RoutingDecision:
    """Whom the strategy chose, among whom, why, and with which probability.

    ``after`` says why an earlier choice came to nothing: then this one is the fallback, and its reason begins so.
    """
    return RoutingDecision(
        timestamp=timestamp,
        tenant_id=tenant_id,
        task_id=task.id,
        task_type=task.type,
        complexity=task.assessed_complexity,
        description=task.text,
        requirements=task.all_requirements,
        selected_agent_id=choice.selected,
        strategy=Strategy.FALLBACK if after else choice.strategy,
        confidence=_bounded(choice.confidence),
        candidate_agents=candidates_of(choice),
        primary_reason=after + choice.primary_reason,
        secondary_factors=choice.secondary_factors,
        source=task.source,
    )


def no_choice(task: Task, *, agent_id: str, tenant_id: str, timestamp: datetime, reason: str) -> RoutingDecision:
    """The decision's log where nobody was chosen by chance or strategy: ``reason`` says what was done instead."""
    return RoutingDecision(
        timestamp=timestamp,
        tenant_id=tenant_id,
        task_id=task.id,
        task_type=task.type,
        complexity=task.assessed_complexity,
        description=task.text,
        requirements=task.all_requirements,
        selected_agent_id=agent_id,
        strategy=Strategy.FALLBACK,
        confidence=1.0,
        candidate_agents=(),
        primary_reason=reason,
        source=task.source,
    )


def execution(
    decision: RoutingDecision,
    steps: Sequence[Step],
    *,
    timestamp: datetime,
    failure: str | None,
    not_evaluated: str | None,
    cached_from: str | UnsetType = UNSET,
) -> Execution:
    """How the agent did: the best of its answers, and what all of them took.

    Args:
        decision: gives ids and tenant.
        steps: at least one.
        timestamp: when the last answer was complete.
        failure: why it is no success; None where it is one.
        not_evaluated: why no evaluation comes with it.
        cached_from: the task whose answer it is.
    """
    best = best_of(steps)
    spent = sum((step.spent for step in steps), Spent())
    verdict, first_action_ms = best.verdict, steps[0].answer.time_to_first_action_ms
    calls = verdict.calls if verdict else ()
    right = sum(call.right for call in calls)
    unchecked = () if calls else best.answer.tool_calls
    answered = best.answer.failure_reason is None
    return Execution(
        task_id=decision.task_id,
        agent_id=decision.selected_agent_id,
        tenant_id=decision.tenant_id,
        timestamp=timestamp,
        success=failure is None,
        failure_reason=failure,
        partial_success=failure is not None and verdict is not None and verdict.partial_success,
        latency_ms=spent.latency_ms,
        tokens_used=spent.tokens,
        thinking_tokens=spent.thinking_tokens,
        output_tokens=spent.output_tokens,
        tool_call_count=len(calls) + len(unchecked),
        tool_call_success_rate=right / len(calls) if calls else None,
        tools_used=(*tools_used(calls), *_tools_named(unchecked)),
        token_efficiency=verdict.quality * 1000 / spent.tokens if verdict and spent.tokens else None,
        time_to_first_action=None if first_action_ms is None else min(first_action_ms, spent.latency_ms),
        messages=(*best.answer.messages, *((answer_message(best.answer, calls),) if answered else ())),
        iterations=iterations_of(steps) if len(steps) > 1 else (),
        not_evaluated=UNSET if not_evaluated is None else not_evaluated,
        cached_from=cached_from,
    )


def iterations_of(steps: Sequence[Step]) -> tuple[Iteration, ...]:
    """The rounds of the refinement loop; the feedback of one is what the next one was told."""
    return tuple(
        Iteration(
            iteration=number,
            latency_ms=step.answer.latency_ms,
            tokens_used=step.spent.tokens,
            quality_score=step.quality,
            feedback=step.verdict.feedback if step.verdict else step.unjudged,
        )
        for number, step in enumerate(steps, start=1)
    )


def candidates_of(choice: Choice) -> tuple[CandidateAgent, ...]:
    """The candidates of a choice as a routing decision has them."""
    return tuple(_candidate(scored) for scored in choice.scored)


def answer_message(answer: Answer, calls: Sequence[MadeCall] = ()) -> Message:
    """The answer as written, and the calls found in it or beside it."""
    found = answer.tool_calls or tuple(checked.call for checked in calls)
    return Message(role="assistant", content=answer.text, tool_calls=found)


def _candidate(scored: Scored) -> CandidateAgent:
    return CandidateAgent(
        agent_id=scored.profile.id,
        capability_score=_bounded(scored.capability),
        performance_score=_bounded(scored.estimate),
        load_score=_bounded(1.0 - scored.load),
        final_score=_bounded(scored.score),
        selection_reason=scored.reason,
        propensity=_bounded(scored.propensity),
    )


def _bounded(score: float) -> float:
    """Sums of floats may end a hair outside of 0–1."""
    return min(1.0, max(0.0, score))


def tools_used(calls: Sequence[MadeCall]) -> tuple[ToolUse, ...]:
    """Each tool once, with the share of its calls that went well."""
    right_by_tool: defaultdict[str, list[bool]] = defaultdict(list)
    for checked in calls:
        right_by_tool[checked.call.name].append(checked.right)
    return tuple(
        ToolUse(tool_name=name, call_count=len(right), success_rate=sum(right) / len(right))
        for name, right in right_by_tool.items()
    )


def _tools_named(calls: Sequence[ToolCall]) -> tuple[ToolUse, ...]:
    """Of calls that nobody checked: whoever asked makes them, and has not said how they went."""
    counts = Counter(call.name for call in calls)
    return tuple(ToolUse(tool_name=name, call_count=count) for name, count in counts.items())
