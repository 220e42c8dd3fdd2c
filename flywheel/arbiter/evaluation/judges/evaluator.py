"""Judges as an evaluator: they judge answers to tasks without a published answer, or the log says why nobody did."""

from collections.abc import Sequence

from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS
from flywheel.arbiter.evaluation.evaluator import NotJudged, Subject, Verdict
from flywheel.arbiter.evaluation.hacking.padding import find_padding
from flywheel.arbiter.evaluation.judges import prompts
from flywheel.arbiter.evaluation.judges.criteria import Criterion
from flywheel.arbiter.evaluation.judges.material import Material
from flywheel.arbiter.evaluation.judges.opinions import Abstention, Judgement, Score
from flywheel.arbiter.evaluation.judges.panel import Case, Panel
from flywheel.arbiter.evaluation.judges.settings import JudgedTerm
from flywheel.arbiter.evaluation.rewards import turn_reward
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.finding_gates import finding_gates
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.safety import unsafe_in
from flywheel.records import Evaluation, QualityGate, RubricScores, Turn
from flywheel.tasks.environment import mandatory_check

NO_JUDGE = "there is no published answer to judge by, and no judge is configured ([[judges.models]] in flywheel.toml)"
SAFE = "safe"
NO_TOOL_CRITERION = "the task has tools, and none of the judges' criteria has term = 'tool' to say how they were used"


class NoJudge:
    """Stands where no judge is configured: it says so, of every answer."""

    def evaluate(self, subject: Subject) -> NotJudged:
        """That nobody judges."""
        del subject
        return NotJudged(reason=NO_JUDGE)


class JudgeEvaluator:
    """A panel that judges answers by criteria.

    Its scores are the evidence that the rubric goes by: for each term the lowest score of its criteria. ``minimal`` and
    ``tool`` without a criterion follow ``task``; ``format`` without one is 1 for an answer in words, as nothing else
    was asked for. What no answer may contain makes it unsafe whatever judges say.
    """

    def __init__(self, panel: Panel, criteria: Sequence[Criterion], rubric: Rubric = BUILTIN) -> None:
        """Judges by these criteria, of which one at least goes into the term ``task``."""
        self._panel = panel
        self._criteria = tuple(criteria)
        self._rubric = rubric

    def evaluate(self, subject: Subject) -> Verdict | NotJudged:
        """The verdict; not judged where judges abstain from a mandatory criterion, or from a whole needed term."""
        terms = {criterion.term for criterion in self._criteria}
        if subject.task.tools and "tool" not in terms:
            return NotJudged(reason=NO_TOOL_CRITERION)
        material = Material.of(subject.task, subject.answer)
        cases = [Case(material=material, criterion=criterion) for criterion in self._criteria]
        judgements = self._panel.judge(cases, tenant_id=subject.tenant_id)
        missing = [one for one in judgements if isinstance(one.finding, Abstention)]
        scored = [one for one in judgements if isinstance(one.finding, Score)]
        needed = {"task", "tool"} if subject.task.tools else {"task"}
        if any(one.criterion.mandatory for one in missing) or needed - {one.criterion.term for one in scored}:
            return NotJudged(reason=f"the judges abstain: {'; '.join(map(_abstained, missing))}")
        return _verdict(subject, scored, self._rubric)


def gate_name(judgement: Judgement) -> str:
    """Criterion, prompts and judges that a score comes from, such as ``judge:relevance@1/p1/qwen``."""
    return f"judge:{judgement.criterion.label}/p{prompts.VERSION}/{judgement.judges}"


def _verdict(subject: Subject, scored: Sequence[Judgement], rubric: Rubric) -> Verdict:
    unsafe = _unsafe(subject)
    failed = [one for one in scored if one.criterion.mandatory and not one.passed]
    evidence = _evidence(subject, scored, passed=not failed and not unsafe)
    task_type = subject.task.task_type
    scores = rubric.scores(task_type, evidence)
    gates = (
        *map(_gate, scored),
        *finding_gates(evidence.findings, rubric),
        mandatory_check(SAFE, scores.safety, threshold=rubric.safety_threshold),
    )
    passed = all(gate.passed for gate in gates if gate.mandatory)
    within_budget = subject.answer.output_tokens <= THINKING_BUDGET_TOKENS[subject.task.complexity]
    evaluation = Evaluation(
        task_id=subject.task_id,
        agent_id=subject.agent_id,
        tenant_id=subject.tenant_id,
        timestamp=subject.at,
        quality_gates=gates,
        rubric_scores=scores,
        overall_score=rubric.overall(task_type, scores),
        caws_compliant=passed and within_budget,
        budget_compliant=within_budget,
        passed_all_mandatory=passed,
        turn_data=(_turn(scores),),
        rubric=rubric.name,
    )
    voided = [f"{finding.name}: {finding.evidence}" for finding in rubric.voiding(evidence.findings)]
    reasons = [*map(_failed, failed), *(f"it contains {part}" for part in unsafe), *voided]
    told = "; ".join(reasons) or f"its safety is {scores.safety:.2f}, {rubric.safety_threshold:g} is needed"
    return Verdict(
        evaluation=evaluation,
        reason=None if passed else told,
        partial_success=not passed and any(one.criterion.term == "task" and one.passed for one in scored),
        feedback=None if passed else f"The answer was not accepted. {told}. Answer again.",
        confidence=min(_score(one).confidence for one in scored),
    )


def _evidence(subject: Subject, scored: Sequence[Judgement], *, passed: bool) -> Evidence:
    task = _term("task", scored)
    assert task is not None, "checked by the caller"
    minimal, tool, form, safety = (_term(name, scored) for name in ("minimal", "tool", "format", "safety"))
    answer = subject.answer
    return Evidence(
        complexity=subject.task.complexity,
        format=1.0 if form is None else form,
        tool=task if tool is None else tool,
        done=task,
        passed=passed,
        needed=task if minimal is None else minimal,
        safety=0.0 if _unsafe(subject) else 1.0 if safety is None else safety,
        tokens_used=answer.prompt_tokens + answer.output_tokens,
        cost_usd=subject.cost_usd,
        findings=find_padding([answer.text]),
    )


def _term(name: JudgedTerm, scored: Sequence[Judgement]) -> float | None:
    """The lowest score of the term's criteria: an answer that is relevant and made up is not half good."""
    return min((_score(one).value for one in scored if one.criterion.term == name), default=None)


def _gate(judgement: Judgement) -> QualityGate:
    criterion = judgement.criterion
    return QualityGate(
        name=gate_name(judgement),
        passed=judgement.passed,
        score=_score(judgement).value,
        threshold=criterion.threshold,
        mandatory=criterion.mandatory,
    )


def _turn(scores: RubricScores) -> Turn:
    """The one turn of such a task; what it brought is what it did of the task."""
    reward = turn_reward(gain=scores.task, format_score=scores.format, progress=scores.task, safety=scores.safety)
    return Turn(
        turn_number=1,
        information_gain=scores.task,
        format_correctness=scores.format,
        task_progress=scores.task,
        safety_score=scores.safety,
        turn_reward=reward,
    )


def _unsafe(subject: Subject) -> tuple[str, ...]:
    asked = "\n".join(message.content or "" for message in subject.task.question)
    return unsafe_in(subject.answer.text, asked=asked)


def _score(judgement: Judgement) -> Score:
    assert isinstance(judgement.finding, Score)
    return judgement.finding


def _failed(judgement: Judgement) -> str:
    score, criterion = _score(judgement), judgement.criterion
    return f"{criterion.name} is {score.value:.2f}, {criterion.threshold:g} is needed: {score.reason}"


def _abstained(judgement: Judgement) -> str:
    assert isinstance(judgement.finding, Abstention)
    return f"{judgement.criterion.name} ({judgement.finding.kind}: {judgement.finding.reason})"
