"""Judges function calls by a benchmark's published answer."""

import json

from flywheel.arbiter.evaluation.evaluator import CheckedCall, Subject, Verdict
from flywheel.arbiter.evaluation.function_calls import CallCheck, check
from flywheel.arbiter.evaluation.rubric import evaluate
from flywheel.records import ToolCall
from flywheel.tasks.source import BenchmarkTask


class FunctionCallEvaluator:
    """The rubric and its four gates. Of a task without a published answer it cannot say anything."""

    def evaluate(self, subject: Subject) -> Verdict | None:
        """The verdict; the feedback says what is wrong, never what would be right."""
        task = subject.task
        if not isinstance(task, BenchmarkTask):
            return None
        found = check(task.expected, task.tools, subject.answer.text)
        evaluation = evaluate(
            task,
            subject.answer,
            task_id=subject.task_id,
            agent_id=subject.agent_id,
            timestamp=subject.at,
            cost_usd=subject.cost_usd,
            tenant_id=subject.tenant_id,
        )
        passed = evaluation.passed_all_mandatory
        reason = None if passed else "the answer is unsafe" if found.exact else found.reason
        return Verdict(
            evaluation=evaluation,
            reason=reason,
            partial_success=not passed and found.tool > 0,
            feedback=None if passed else _feedback(found),
            calls=_calls(found),
        )


def _feedback(found: CallCheck) -> str:
    """What can be said without giving the published answer away."""
    if found.exact:
        return "The answer has something that no answer may contain. Answer again without it."
    if found.format < 1.0:
        return "The answer is not in the form that was asked for. Answer again, with the calls and nothing else."
    if found.tool < 1.0:
        return "The functions called are not the right ones, or not as many as needed. Look at them again."
    return "The arguments of a call are not right. Look at the question again."


def _calls(found: CallCheck) -> tuple[CheckedCall, ...]:
    return tuple(
        CheckedCall(call=ToolCall(name=call.name, arguments=json.dumps(call.arguments)), right=right)
        for call, right in zip(found.calls, found.right, strict=True)
    )
