"""Data points for training tests: a conversation with its answer, and the rest as it must be."""

from datetime import UTC, datetime

from flywheel.records import (
    DataPoint,
    EvaluationPart,
    ExecutionPart,
    Message,
    Provenance,
    RlLabels,
    Routing,
    RubricScores,
    Strategy,
    Task,
)
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import BenchmarkTask


def point_of(task: BenchmarkTask, text: str, *, style: PromptStyle = "zero-shot") -> DataPoint:
    """A point in which an agent answered this task with this text."""
    answer = Message(role="assistant", content=text)
    scores = RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1)
    return DataPoint(
        id=f"point-{task.id}",
        timestamp=datetime(2026, 3, 1, tzinfo=UTC),
        tenant_id="a" * 64,
        task=Task(id=f"before-{task.id}", type=task.task_type, complexity=task.complexity, source=task.id),
        routing=Routing(
            selected_agent_id="reference",
            strategy=Strategy.MULTI_ARMED_BANDIT,
            confidence=1,
            candidate_agents=(),
            primary_reason="the only one",
        ),
        execution=ExecutionPart(
            success=True,
            latency_ms=5,
            tokens_used=100,
            tool_call_count=1,
            messages=(*prompt_messages(task, style), answer),
        ),
        evaluation=EvaluationPart(
            quality_gates=(),
            rubric_scores=scores,
            overall_score=1,
            caws_compliant=True,
            budget_compliant=True,
            passed_all_mandatory=True,
        ),
        rl_labels=RlLabels(final_outcome="success", total_reward=1),
        provenance=Provenance(),
    )
