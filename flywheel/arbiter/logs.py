"""What the arbiter writes down of a task: pure functions from decision and answer to records."""

import json
from collections import defaultdict
from datetime import datetime

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.evaluation.function_calls import CallCheck
from flywheel.arbiter.routing.strategy import Choice, Scored
from flywheel.records import CandidateAgent, Evaluation, Execution, Message, RoutingDecision, ToolCall, ToolUse
from flywheel.tasks.source import SourceTask


def routing_decision(
    task: SourceTask, choice: Choice, *, task_id: str, tenant_id: str, timestamp: datetime
) -> RoutingDecision:
    """Whom the strategy chose, among whom, why, and with which probability."""
    return RoutingDecision(
        timestamp=timestamp,
        tenant_id=tenant_id,
        task_id=task_id,
        task_type=task.task_type,
        complexity=task.complexity,
        description=task.text,
        requirements=requirements_of(task),
        selected_agent_id=choice.selected,
        strategy=choice.strategy,
        confidence=_bounded(choice.confidence),
        candidate_agents=candidates_of(choice),
        primary_reason=choice.primary_reason,
        secondary_factors=choice.secondary_factors,
        source=task.id,
    )


def requirements_of(task: SourceTask) -> tuple[str, ...]:
    """What a task needs, as routing and the log name it."""
    return tuple(f"tool:{tool.name}" for tool in task.tools)


def execution(
    answer: Answer,
    answer_check: CallCheck | None,
    evaluation: Evaluation,
    *,
    timestamp: datetime,
) -> Execution:
    """How the agent did. Success is passing every mandatory gate: an exact and safe answer.

    Args:
        answer: what the agent made of the task.
        answer_check: None where there was no answer to check.
        evaluation: of the same answer; gives ids, tenant and score.
        timestamp: when the answer was complete.
    """
    success = evaluation.passed_all_mandatory
    tokens_used = answer.prompt_tokens + answer.output_tokens
    first_action_ms = answer.time_to_first_action_ms
    right = answer_check.right if answer_check else ()
    return Execution(
        task_id=evaluation.task_id,
        agent_id=evaluation.agent_id,
        tenant_id=evaluation.tenant_id,
        timestamp=timestamp,
        success=success,
        failure_reason=None if success else _failure_reason(answer, answer_check),
        partial_success=not success and answer_check is not None and answer_check.tool > 0,
        latency_ms=answer.latency_ms,
        tokens_used=tokens_used,
        thinking_tokens=answer.thinking_tokens,
        output_tokens=answer.output_tokens,
        tool_call_count=len(right),
        tool_call_success_rate=sum(right) / len(right) if right else None,
        tools_used=_tools_used(answer_check) if answer_check else (),
        token_efficiency=evaluation.overall_score * 1000 / tokens_used if tokens_used else None,
        time_to_first_action=None if first_action_ms is None else min(first_action_ms, answer.latency_ms),
        messages=(*answer.messages, *((_answer_message(answer, answer_check),) if answer_check else ())),
    )


def candidates_of(choice: Choice) -> tuple[CandidateAgent, ...]:
    """The candidates of a choice as a routing decision has them."""
    return tuple(_candidate(scored) for scored in choice.scored)


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


def _failure_reason(answer: Answer, answer_check: CallCheck | None) -> str:
    if answer.failure_reason is not None or answer_check is None:
        return answer.failure_reason or "no answer"
    return "the answer is unsafe" if answer_check.exact else answer_check.reason


def _tools_used(answer_check: CallCheck) -> tuple[ToolUse, ...]:
    right_by_tool: defaultdict[str, list[bool]] = defaultdict(list)
    for call, right in zip(answer_check.calls, answer_check.right, strict=True):
        right_by_tool[call.name].append(right)
    return tuple(
        ToolUse(tool_name=name, call_count=len(right), success_rate=sum(right) / len(right))
        for name, right in right_by_tool.items()
    )


def _answer_message(answer: Answer, answer_check: CallCheck) -> Message:
    """The answer as written, and the calls found in it."""
    calls = tuple(ToolCall(name=call.name, arguments=json.dumps(call.arguments)) for call in answer_check.calls)
    return Message(role="assistant", content=answer.text, tool_calls=calls)
