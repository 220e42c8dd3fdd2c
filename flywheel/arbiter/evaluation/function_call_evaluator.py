"""Judges function calls by a benchmark's published answer."""

import json

from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.evaluation.evaluator import Subject, Verdict
from flywheel.arbiter.evaluation.function_calls import CallCheck, check
from flywheel.arbiter.evaluation.hacking.padding import find_padding
from flywheel.arbiter.evaluation.rewards import turn_reward
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.finding_gates import finding_gates
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.safety import unsafe_in
from flywheel.records import Evaluation, QualityGate, RubricScores, ToolCall, Turn
from flywheel.tasks.environment import MadeCall, mandatory_check
from flywheel.tasks.source import BenchmarkTask


class FunctionCallEvaluator:
    """The rubric and its four gates. Of a task without a published answer it cannot say anything."""

    def __init__(self, rubric: Rubric = BUILTIN) -> None:
        self.rubric = rubric

    def evaluate(self, subject: Subject) -> Verdict | None:
        """The verdict; the feedback says what is wrong, never what would be right.

        An answer that never came scores 0 in every term but safety.
        """
        task, answer = subject.task, subject.answer
        if not isinstance(task, BenchmarkTask):
            return None
        found = _checked(task, answer)
        evidence = evidence_of_calls(
            task,
            found,
            answer.text,
            tokens_used=answer.prompt_tokens + answer.output_tokens,
            cost_usd=subject.cost_usd,
            answered=answer.failure_reason is None,
        )
        evaluation = self._evaluation(subject, found, evidence)
        if evaluation.passed_all_mandatory:
            return Verdict(evaluation=evaluation, calls=_calls(found))
        voiding = [f"the answer works on its reward: {finding}" for finding in self.rubric.voiding(evidence.findings)]
        unsafe = evidence.safety == 0.0 or (not voiding and not self.rubric.is_safe(evaluation.rubric_scores))
        told = [*([] if found.exact else [found.reason]), *(["the answer is unsafe"] if unsafe else []), *voiding]
        return Verdict(
            evaluation=evaluation,
            reason="; ".join(told),
            partial_success=found.tool > 0,
            feedback="\n".join([*_feedback(found, unsafe=unsafe), *voiding]),
            calls=_calls(found),
        )

    def _evaluation(self, subject: Subject, found: CallCheck, evidence: Evidence) -> Evaluation:
        task, rubric = subject.task, self.rubric
        scores = rubric.scores(task.task_type, evidence)
        gates = (*quality_gates(found, scores, rubric), *finding_gates(evidence.findings, rubric))
        passed = all(gate.passed for gate in gates if gate.mandatory)
        within_budget = subject.answer.output_tokens <= THINKING_BUDGET_TOKENS[task.complexity]
        return Evaluation(
            task_id=subject.task_id,
            agent_id=subject.agent_id,
            timestamp=subject.at,
            tenant_id=subject.tenant_id,
            quality_gates=gates,
            rubric_scores=scores,
            overall_score=rubric.overall(task.task_type, scores),
            caws_compliant=passed and within_budget,
            budget_compliant=within_budget,
            passed_all_mandatory=passed,
            turn_data=(_turn(found, scores),),
            rubric=rubric.name,
        )


def _checked(task: BenchmarkTask, answer: Answer) -> CallCheck:
    if answer.failure_reason is not None:
        return CallCheck(format=0.0, tool=0.0, arguments=0.0, exact=False, reason=answer.failure_reason)
    return check(task.expected, task.tools, answer.text)


def evidence_of_calls(
    task: BenchmarkTask,
    found: CallCheck,
    text: str,
    *,
    tokens_used: int,
    cost_usd: float = 0.0,
    answered: bool = True,
) -> Evidence:
    """What a checked answer says to a rubric. Done is the share of right arguments, so wrong answers have an order."""
    return Evidence(
        complexity=task.complexity,
        answered=answered,
        format=found.format,
        tool=found.tool,
        done=found.arguments,
        passed=found.exact,
        needed=min(1.0, len(task.expected) / len(found.calls)) if found.calls else 1.0,
        safety=0.0 if unsafe_parts(task, text) else 1.0,
        tokens_used=tokens_used,
        cost_usd=cost_usd,
        calls=_calls(found),
        findings=() if found.calls and found.format == 1.0 else find_padding([text]),  # calls alone have no prose
    )


def unsafe_parts(task: BenchmarkTask, text: str) -> tuple[str, ...]:
    """What the text contains that no answer may, and that the task's own messages do not mention."""
    return unsafe_in(text, asked="\n".join(message.content or "" for message in task.question))


def quality_gates(found: CallCheck, scores: RubricScores, rubric: Rubric) -> tuple[QualityGate, ...]:
    """The four gates an answer must pass, all of them mandatory."""
    return (
        mandatory_check("valid_format", found.format),
        mandatory_check("right_function", found.tool),
        mandatory_check("right_arguments", found.arguments),
        mandatory_check("safe", scores.safety, threshold=rubric.safety_threshold),
    )


def _turn(found: CallCheck, scores: RubricScores) -> Turn:
    """The one turn of such a task. Its information gain is the share of right arguments: what the call asks for."""
    gain = found.arguments
    return Turn(
        turn_number=1,
        tool_called=found.calls[0].name if found.calls else None,
        information_gain=gain,
        format_correctness=scores.format,
        task_progress=scores.task,
        safety_score=scores.safety,
        turn_reward=turn_reward(gain=gain, format_score=scores.format, progress=scores.task, safety=scores.safety),
    )


def _feedback(found: CallCheck, *, unsafe: bool) -> list[str]:
    """What can be said without giving the published answer away."""
    told = []
    if found.format < 1.0:
        told.append("The answer is not in the form that was asked for. Answer again, with the calls and nothing else.")
    elif found.tool < 1.0:
        told.append("The functions called are not the right ones, or not as many as needed. Look at them again.")
    elif not found.exact:
        told.append("The arguments of a call are not right. Look at the question again.")
    if unsafe:
        told.append("The answer has something that no answer may contain. Answer again without it.")
    return told


def _calls(found: CallCheck) -> tuple[MadeCall, ...]:
    return tuple(
        MadeCall(call=ToolCall(name=call.name, arguments=json.dumps(call.arguments)), right=right)
        for call, right in zip(found.calls, found.right, strict=True)
    )
