"""The shape of an evaluator: it says what an answer is worth, or that it does not know."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from flywheel.arbiter.agents.strategy import Answer
from flywheel.records import Evaluation, QualityGate, RubricScores
from flywheel.tasks.environment import MadeCall
from flywheel.tasks.source import AgentTask

ANSWERED = "answered"


class Subject(Struct, frozen=True, kw_only=True):
    """An answer to be judged.

    ``task`` is what the agent was handed at first: a ``BenchmarkTask`` where there is a published answer. ``at`` is
    the moment of the evaluation; ``task_id`` is what the logs are under; ``cost_usd`` is the answer's.
    """

    task: AgentTask
    answer: Answer
    task_id: str
    tenant_id: str
    agent_id: str
    at: datetime
    cost_usd: float = 0.0


class Verdict(Struct, frozen=True, kw_only=True):
    """What an evaluator found.

    Attributes:
        evaluation: as logged; the arbiter puts in ids and time. It is a success where all mandatory gates are passed.
        reason: what is wrong, in words; needed where it is no success.
        partial_success: whether a part of it is right.
        feedback: what the agent is told before it tries again; None: there is nothing that could help it.
        confidence: 0–1, how sure the evaluator is.
        calls: of tools, for the execution's log.
    """

    evaluation: Evaluation
    reason: str | None = None
    partial_success: bool = False
    feedback: str | None = None
    confidence: float = 1.0
    calls: tuple[MadeCall, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the answer is accepted."""
        return self.evaluation.passed_all_mandatory

    @property
    def quality(self) -> float:
        """The overall score, 0–1."""
        return self.evaluation.overall_score


class NotJudged(Struct, frozen=True, kw_only=True):
    """No verdict on an answer that an evaluator is there for, and why; the log says it."""

    reason: str


class Evaluator(Protocol):
    """Anything that judges answers."""

    def evaluate(self, subject: Subject) -> Verdict | NotJudged | None:
        """The verdict on an answer that came; None where this evaluator is not for such tasks.

        What it raises is logged, and the answer counts as not evaluated. No score is made up.
        """
        ...


class FirstThatCan:
    """Several evaluators: the first one that is for a task has the word."""

    def __init__(self, *evaluators: Evaluator) -> None:
        self._evaluators = evaluators

    def evaluate(self, subject: Subject) -> Verdict | NotJudged | None:
        """What the first says that says anything."""
        found = (evaluator.evaluate(subject) for evaluator in self._evaluators)
        return next((said for said in found if said is not None), None)


def failed_verdict(subject: Subject) -> Verdict:
    """The verdict on an answer that never came: 0 in every term but safety, whoever would have judged it."""
    assert subject.answer.failure_reason is not None, "an answer that came is for an evaluator"
    evaluation = failed_evaluation(
        task_id=subject.task_id, agent_id=subject.agent_id, tenant_id=subject.tenant_id, at=subject.at
    )
    return Verdict(evaluation=evaluation, reason=subject.answer.failure_reason)


def failed_evaluation(*, task_id: str, agent_id: str, tenant_id: str, at: datetime) -> Evaluation:
    """The evaluation of an answer that never came."""
    gate = QualityGate(name=ANSWERED, passed=False, score=0.0, threshold=1.0, mandatory=True)
    return Evaluation(
        task_id=task_id,
        agent_id=agent_id,
        tenant_id=tenant_id,
        timestamp=at,
        quality_gates=(gate,),
        rubric_scores=RubricScores(format=0.0, tool=0.0, task=0.0, minimal=0.0, cost=0.0, safety=1.0),
        overall_score=0.0,
        caws_compliant=False,
        budget_compliant=True,
        passed_all_mandatory=False,
    )
