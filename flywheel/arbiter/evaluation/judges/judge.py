"""One model as a judge: asked, asked once more where its reply cannot be used, and then taken at its silence."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from flywheel.arbiter.agents.openai_compatible import REFUSAL
from flywheel.arbiter.agents.strategy import Agent, Answer, failed_answer
from flywheel.arbiter.evaluation.judges.opinions import Abstention, AbstentionKind
from flywheel.arbiter.evaluation.judges.prompts import Question, repair_question
from flywheel.arbiter.evaluation.judges.replies import Unusable
from flywheel.errors import AgentError
from flywheel.records import Complexity
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import AgentTask

T = TypeVar("T")
TASK_TYPE = "judging"


class Judge:
    """A model that judges. For several threads at once, if its agent is."""

    def __init__(
        self,
        agent: Agent,
        *,
        id: str,
        model: str,
        samples: int = 1,
        identity: str = "",
        holds_schemas: bool = True,
    ) -> None:
        """Nothing is asked yet.

        Args:
            agent: asks the model.
            id: its name in gates and reports.
            model: what it runs, as reports name it.
            samples: times it is asked each question.
            identity: whatever else makes its opinions others': endpoint, temperature; see ``digest``.
            holds_schemas: whether it is asked for replies by a JSON schema. An endpoint that refuses such a request and
                takes the same without one is not asked for them again.
        """
        self.id, self.model, self.samples = id, model, samples
        self.digest = blake2b(f"{model}\0{identity}".encode(), digest_size=16).digest()
        self._agent = agent
        self._holds_schemas = holds_schemas

    def ask(
        self, questions: Sequence[Question], read: Callable[[str], T | Unusable], *, ids: Sequence[str]
    ) -> list[T | Abstention]:
        """What it replies to each question, in their order, as ``read`` finds it; else why there is nothing.

        ``ids`` name the questions for agents whose chance depends on them: the same id, the same chance.
        """
        answers = self._answers(questions, ids)
        found: list[T | Unusable | Abstention] = [_found(answer, read) for answer in answers]
        spoilt = [index for index, one in enumerate(found) if isinstance(one, Unusable)]
        repairs = [repair_question(questions[i], answers[i].text, _problem(found[i])) for i in spoilt]
        again = self._answers(repairs, [f"{ids[index]}/again" for index in spoilt])
        for index, answer in zip(spoilt, again, strict=True):
            found[index] = _found(answer, read)
        return [_given_up(one) if isinstance(one, Unusable) else one for one in found]

    def _answers(self, questions: Sequence[Question], ids: Sequence[str]) -> list[Answer]:
        asked = list(zip(questions, ids, strict=True))
        if not self._holds_schemas:
            return self._tried([_task(question, id) for question, id in asked])
        answers = self._tried([_task(question, id, schema=question.schema) for question, id in asked])
        refused = [index for index, answer in enumerate(answers) if answer.refused]
        again = self._tried([_task(*asked[index]) for index in refused])
        for index, answer in zip(refused, again, strict=True):
            answers[index] = answer
        if any(answer.failure_reason is None for answer in again):
            self._holds_schemas = False
        return answers

    def _tried(self, tasks: Sequence[AgentTask]) -> list[Answer]:
        """The agent's answers; a failed one for each task where it cannot answer anything."""
        if not tasks:
            return []
        try:
            return self._agent.answer(tasks)
        except AgentError as error:
            return [failed_answer(task.question, str(error), latency_ms=0.0) for task in tasks]


def _task(question: Question, id: str, *, schema: dict[str, Any] | None = None) -> AgentTask:
    wanted = None if schema is None else {"name": "reply", "strict": True, "schema": schema}
    return AgentTask(
        id=id,
        task_type=TASK_TYPE,
        complexity=Complexity.STANDARD,
        question=question.messages,
        options=GenerationOptions(
            response_format=None if wanted is None else {"type": "json_schema", "json_schema": wanted}
        ),
    )


def _found(answer: Answer, read: Callable[[str], T | Unusable]) -> T | Unusable | Abstention:
    if answer.failure_reason is None:
        return read(answer.text)
    kind: AbstentionKind = "refused" if answer.failure_reason == REFUSAL else "no-answer"
    return Abstention(kind=kind, reason=answer.failure_reason)


def _problem(found: object) -> str:
    assert isinstance(found, Unusable)
    return found.problem


def _given_up(unusable: Unusable) -> Abstention:
    return Abstention(kind=unusable.kind, reason=f"its reply cannot be used, nor the second one: {unusable.problem}")
