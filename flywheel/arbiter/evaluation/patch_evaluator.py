"""Judges answers that are patches: each is applied to the task's workspace and held to a working spec."""

import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from flywheel.arbiter.audit_trail.notary import under_spec
from flywheel.arbiter.evaluation.change import Change
from flywheel.arbiter.evaluation.evaluator import Subject, Verdict
from flywheel.arbiter.evaluation.gates.reward_hacking import RewardHacking
from flywheel.arbiter.evaluation.hacking.changes import findings_in_change
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.finding_gates import finding_gates
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.spec_evaluator import Origin, SpecEvaluation, evaluate_under_spec
from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec
from flywheel.errors import InputError
from flywheel.records import Evaluation
from flywheel.tasks.environment import mandatory_check
from flywheel.tasks.source import AgentTask

APPLIES = "applies"
_BLOCK = re.compile(r"```(?:diff|patch)[ \t]*\n(?P<patch>.*?)^```", re.DOTALL | re.MULTILINE)
_BEGINS = re.compile(r"^(?:diff --git |--- )", re.MULTILINE)
SHOWN_FINDINGS = 5


class Work(Struct, frozen=True, kw_only=True):
    """What a task is about: the folder to be changed, the spec its changes are held to, and the commit it is at."""

    folder: Path
    spec: WorkingSpec
    commit: str | None = None


class PatchEvaluator:
    """An evaluator of answers that are unified diffs, in a block of code or alone.

    Args:
        work_of: the work that a task is about; None for a task that is about none: of it this evaluator cannot say
            anything.
        rubric: what weighs the scores. Done is the mean score of the gates ``tests``, of all mandatory gates where
            there are none; needed is the multiplier of the minimal diff. What looks like work on the reward counts
            whether the spec has a gate for it or not.
    """

    def __init__(self, work_of: Callable[[AgentTask], Work | None], rubric: Rubric = BUILTIN) -> None:
        self._work_of = work_of
        self._rubric = rubric

    def evaluate(self, subject: Subject) -> Verdict | None:
        """The verdict; the feedback has the reasons of the gates that refuse, with what they found."""
        work = self._work_of(subject.task)
        if work is None:
            return None
        asked = "\n".join(message.content or "" for message in subject.task.question)
        try:
            change = change_of_patch(patch_in(subject.answer.text), name="the patch", folder=work.folder)
            found = evaluate_under_spec(
                work.spec,
                change,
                before=work.folder,
                at=subject.at,
                asked=asked,
                origin=Origin(agent_id=subject.agent_id, task_id=subject.task_id, commit=work.commit),
                rubric=self._rubric,
            )
        except InputError as error:
            return self._unapplied(subject, str(error))
        findings = self._findings(found, change)
        evaluation = self._evaluation(subject, found, findings)
        if evaluation.passed_all_mandatory:
            return Verdict(evaluation=evaluation)
        voiding = [f"the answer works on its reward: {finding}" for finding in self._rubric.voiding(findings)]
        return Verdict(
            evaluation=evaluation,
            reason="; ".join([*([found.reason] if found.refusing else []), *voiding]),
            partial_success=_done(found) > 0,
            feedback="\n".join([feedback_of(found), *voiding]).strip(),
        )

    def _findings(self, found: SpecEvaluation, change: Change) -> tuple[Finding, ...]:
        """What looks like work on the reward, without what the spec lets pass: by a waiver, or a gate that may fail."""
        gates = [gate for gate in found.spec.gates if isinstance(gate, RewardHacking)]
        findings = findings_in_change(change, checkers=[path for gate in gates for path in gate.checkers])
        results = [result for result in found.results if result.kind == "reward_hacking"]
        if not any(not result.passed and not result.refuses for result in results):
            return findings
        let_through = self._rubric.voiding(findings)
        return tuple(finding for finding in findings if finding not in let_through)

    def _evaluation(self, subject: Subject, found: SpecEvaluation, findings: tuple[Finding, ...]) -> Evaluation:
        gates = (*found.quality_gates, *finding_gates(findings, self._rubric))
        passed = all(gate.passed for gate in gates if gate.mandatory)
        evidence = _evidence(subject, found, passed=passed, findings=findings)
        scores = self._rubric.scores(subject.task.task_type, evidence)
        evaluation = Evaluation(
            task_id=subject.task_id,
            agent_id=subject.agent_id,
            tenant_id=subject.tenant_id,
            timestamp=subject.at,
            quality_gates=gates,
            rubric_scores=scores,
            overall_score=self._rubric.overall(subject.task.task_type, scores),
            caws_compliant=passed,
            budget_compliant=found.budget_compliant,
            passed_all_mandatory=passed,
            minimal_diff_metrics=found.minimal_diff,
            rubric=self._rubric.name,
        )
        return under_spec(evaluation, found.verdict)

    def _unapplied(self, subject: Subject, reason: str) -> Verdict:
        """An answer that is no patch, or not one of this workspace."""
        evidence = Evidence(
            complexity=subject.task.complexity,
            format=0.0,
            tool=1.0,
            done=0.0,
            passed=False,
            needed=0.0,
            safety=1.0,
            tokens_used=subject.answer.prompt_tokens + subject.answer.output_tokens,
            cost_usd=subject.cost_usd,
        )
        scores = self._rubric.scores(subject.task.task_type, evidence)
        evaluation = Evaluation(
            task_id=subject.task_id,
            agent_id=subject.agent_id,
            tenant_id=subject.tenant_id,
            timestamp=subject.at,
            quality_gates=(mandatory_check(APPLIES, 0.0),),
            rubric_scores=scores,
            overall_score=self._rubric.overall(subject.task.task_type, scores),
            caws_compliant=False,
            budget_compliant=True,
            passed_all_mandatory=False,
            rubric=self._rubric.name,
        )
        return Verdict(evaluation=evaluation, reason=reason, feedback=f"The patch cannot be applied: {reason}")


def patch_in(answer: str) -> str:
    """The patch in an answer: the blocks of diffs, one after the other, or all from where a diff begins."""
    blocks = _BLOCK.findall(answer)
    if blocks:
        return "".join(blocks)
    begins = _BEGINS.search(answer)
    return answer[begins.start() :] if begins else answer


def feedback_of(found: SpecEvaluation) -> str:
    """What refuses, and what it found: enough to mend it."""
    parts = []
    for result in found.refusing:
        seen = result.outcome.evidence
        parts.append(f"The gate {result.name} is not passed: {result.outcome.reason}")
        parts += [f"- {finding}" for finding in seen.findings[:SHOWN_FINDINGS]]
        if seen.output:
            parts.append(seen.output)
    return "\n".join(parts)


def _evidence(subject: Subject, found: SpecEvaluation, *, passed: bool, findings: tuple[Finding, ...]) -> Evidence:
    unsafe = any(result.refuses for result in found.results if result.kind == "safety")
    return Evidence(
        complexity=subject.task.complexity,
        format=1.0,
        tool=1.0,
        done=_done(found),
        passed=passed,
        needed=found.minimal_diff.reward_multiplier,
        safety=float(not unsafe),
        tokens_used=subject.answer.prompt_tokens + subject.answer.output_tokens,
        cost_usd=subject.cost_usd,
        findings=findings,
    )


def _done(found: SpecEvaluation) -> float:
    tests = [result.outcome.score for result in found.results if result.kind == "tests"]
    scores = tests or [result.outcome.score for result in found.results if result.mandatory]
    return sum(scores) / len(scores)
