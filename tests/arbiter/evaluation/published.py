"""Answers to tasks with a published answer, judged by the evaluator that an arbiter uses."""

from datetime import UTC, datetime

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.evaluation.evaluator import Subject, Verdict
from flywheel.arbiter.evaluation.function_call_evaluator import FunctionCallEvaluator
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.tasks.source import BenchmarkTask

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def verdict_on(task: BenchmarkTask, answer: Answer, *, rubric: Rubric = BUILTIN, cost_usd: float = 0.0) -> Verdict:
    subject = Subject(task=task, answer=answer, task_id="t", tenant_id="acme", agent_id="a", at=NOW, cost_usd=cost_usd)
    verdict = FunctionCallEvaluator(rubric).evaluate(subject)
    assert verdict is not None
    return verdict
