"""A task as an agent's service logs it natively, done and failed: what round trips through other formats begin with."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from flywheel.records import (
    Complexity,
    Evaluation,
    Execution,
    Message,
    QualityGate,
    RoutingDecision,
    RubricScores,
    Strategy,
    ToolCall,
    ToolUse,
)

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SCHEDULE = {"root": (0, 2_000), "ask": (0, 400), "look_up": (500, 700), "book": (750, 800), "answer": (900, 2_000)}
"""Milliseconds from the beginning to start and end of each span."""
USAGE = {"ask": (20, 5, 0), "answer": (40, 7, 2)}
"""Tokens of each call of the model: read, written, and of the written those of reasoning."""
SYSTEM, USER, ASKED, FOUND, REFUSED, ANSWERED = (
    Message(role="system", content="Book what people ask for."),
    Message(role="user", content="A table for two, „Zum Löwen“."),
    Message(
        role="assistant",
        content="I look.",
        tool_calls=(
            ToolCall(name="look_up", arguments='{"name":"Zum Löwen"}', id="call_1"),
            ToolCall(name="book", arguments='{"seats":2}', id="call_2"),
        ),
    ),
    Message(role="tool", content="it is open", tool_call_id="call_1"),
    Message(role="tool", content="no seat is left", tool_call_id="call_2"),
    Message(role="assistant", content="It is open, and full."),
)
BEFORE = (SYSTEM, USER, ASKED, FOUND, REFUSED)


class Native(msgspec.Struct, frozen=True):
    """The three logs of the task."""

    routing: RoutingDecision
    execution: Execution
    evaluation: Evaluation


def made(*, success: bool) -> Native:
    ids: dict[str, Any] = {"task_id": "t-1", "agent_id": "host"}
    return Native(
        RoutingDecision(
            timestamp=AT,
            tenant_id="acme",
            task_id="t-1",
            task_type="tool-calling",
            complexity=Complexity.STANDARD,
            selected_agent_id="host",
            strategy=Strategy.FALLBACK,
            confidence=1.0,
            candidate_agents=(),
            primary_reason="one agent",
            description=USER.content or "",
        ),
        Execution(
            **ids,
            timestamp=AT + timedelta(seconds=2),
            success=success,
            failure_reason=None if success else "the guest went away",
            partial_success=not success,
            latency_ms=2_000.0,
            tokens_used=72,
            output_tokens=12,
            thinking_tokens=2,
            tool_call_count=2,
            tool_call_success_rate=0.5,
            tools_used=(
                ToolUse(tool_name="look_up", call_count=1, success_rate=1.0, average_latency=200.0),
                ToolUse(tool_name="book", call_count=1, success_rate=0.0, average_latency=50.0),
            ),
            time_to_first_action=500.0,
            messages=(*BEFORE, ANSWERED),
        ),
        Evaluation(
            **ids,
            timestamp=AT + timedelta(seconds=2),
            quality_gates=(QualityGate(name="seated", passed=success, score=0.5, threshold=0.5, mandatory=True),),
            rubric_scores=RubricScores(format=1, tool=0.5, task=0.25, minimal=0.875, cost=0.125, safety=1),
            overall_score=0.75 if success else 0.25,
            caws_compliant=True,
            budget_compliant=True,
            passed_all_mandatory=success,
        ),
    )
