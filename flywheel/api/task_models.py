"""Tasks over HTTP: what can be asked of the arbiter and what it answers. Names are camelCase on the wire."""

import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from flywheel.api.settings import ServiceSettings
from flywheel.arbiter.agents.strategy import FinishReason
from flywheel.arbiter.running.claims import Known
from flywheel.arbiter.running.late import Reported
from flywheel.arbiter.running.reports import Report
from flywheel.arbiter.settings import storable
from flywheel.arbiter.task import LONGEST_ID, FailureKind, Limits, Task, TaskResult
from flywheel.records import (
    Complexity,
    Evaluation,
    Identifier,
    Iteration,
    Message,
    RoutingDecision,
    Timestamp,
    ToolCall,
    Wire,
)
from flywheel.tasks.source import SourceTask, Tool

TaskId = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
Names = Annotated[tuple[Identifier, ...], Meta(max_length=1_000)]
Amount = Annotated[int, Meta(ge=1, le=10**12)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Usd = Annotated[float, Meta(gt=0, le=1e9)]
Text = Annotated[str, Meta(min_length=1)]


class TaskLimits(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one task may take. What is begun is not cut short by tokens or cost, and counts whole."""

    timeout_s: Annotated[Seconds | None, Meta(description="until its result; absent: `service.task_timeout_s`")] = None
    tokens: Annotated[Amount | None, Meta(description="read and written, of all attempts")] = None
    usd: Annotated[Usd | None, Meta(description="by the agents' prices, of all attempts")] = None
    must_have: Annotated[Names, Meta(description="specializations without which no agent may have it")] = ()


class TaskTool(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A function that the agent may call."""

    name: Identifier
    description: str = ""
    parameters: Annotated[dict[str, Any], Meta(description="JSON schema of its arguments")] = msgspec.field(
        default_factory=dict
    )


class TaskRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task: a text, a conversation, or one of a task source."""

    id: Annotated[
        TaskId | None,
        Meta(
            description="your name for it: sent again under it, it is run once; absent: one is made, and a retry runs"
        ),
    ] = None
    type: Annotated[Identifier | None, Meta(description="of the registry of task types; not with `source`")] = None
    text: Annotated[Text | None, Meta(description="one question, in the place of `messages`")] = None
    messages: Annotated[tuple[Message, ...], Meta(description="the conversation; one is the user's")] = ()
    source: Annotated[
        Identifier | None,
        Meta(description="a training task of a configured source, as `code-repair:clamp`, which verifies it"),
    ] = None
    tools: Annotated[tuple[TaskTool, ...], Meta(max_length=1_000, description="what the agent may call")] = ()
    complexity: Annotated[Complexity | None, Meta(description="absent: assessed")] = None
    requirements: Annotated[Names, Meta(description="what it needs, in words that routing learns by")] = ()
    languages: Annotated[Names, Meta(description="matched with the agents'")] = ()
    specializations: Annotated[Names, Meta(description="matched with the agents'")] = ()
    embedding: Annotated[
        tuple[Annotated[float, Meta(ge=-1e6, le=1e6)], ...],
        Meta(max_length=4_096, description="numbers for the contextual strategy, always as many"),
    ] = ()
    limits: TaskLimits = TaskLimits()
    deadline: Annotated[Timestamp | None, Meta(description="no result later than this, with its zone")] = None
    side_effects: Annotated[bool | None, Meta(description="absent: where it has tools")] = None
    use_cache: Annotated[bool, Meta(description="whether an earlier answer will do")] = True

    def __post_init__(self) -> None:
        given = [name for name in ("text", "messages", "source") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"a task has one of text, messages and source; this one has {' and '.join(given) or 'none'}"
            )
        if self.source is not None and (self.type or self.tools or self.side_effects is not None):
            raise ValueError("a task of a source has the source's type, tools and side effects; leave yours out")
        if self.source is None and self.type is None:
            raise ValueError("the task has no type")
        for text in (self.id, self.type, self.source, *self.requirements, *self.languages, *self.specializations):
            storable(text or "")

    def task(self, settings: ServiceSettings, source: SourceTask | None) -> Task:
        """The task as the arbiter gets it; ``source`` is the one that it names.

        Raises:
            ValueError: it is none.
        """
        task_id = self.id or uuid.uuid4().hex
        if source is not None:
            known = Task.of_source(source, id=task_id)
        else:
            asked = (Message(role="user", content=self.text),) if self.text else self.messages
            tools = tuple(Tool(name=t.name, description=t.description, parameters=t.parameters) for t in self.tools)
            known = Task(id=task_id, type=self.type or "", messages=asked, tools=tools, side_effects=self.side_effects)
        limits = Limits(
            timeout_s=min(self.limits.timeout_s or settings.task_timeout_s, settings.task_timeout_s),
            tokens=self.limits.tokens,
            usd=self.limits.usd,
            must_have=self.limits.must_have,
        )
        return msgspec.structs.replace(
            known,
            complexity=self.complexity or known.complexity,
            requirements=self.requirements,
            languages=self.languages,
            specializations=self.specializations,
            embedding=self.embedding,
            limits=limits,
            deadline=self.deadline,
            use_cache=self.use_cache,
        )


class RouteRequest(TaskRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that is routed and not run."""

    log: Annotated[
        bool,
        Meta(
            description="you do the task yourself: the decision is logged and kept until you report to `/v1/outcomes`"
        ),
    ] = False


class RouteAnswer(Wire, frozen=True, kw_only=True):
    """Whom the task is given."""

    task_id: str
    agent_id: str
    logged: Annotated[bool, Meta(description="whether its outcome can be reported to `/v1/outcomes`")]
    replayed: Annotated[bool, Meta(description="whether it was decided when this was asked before")]
    decision: Annotated[RoutingDecision, Meta(description="reason, alternatives and propensities, as logged")]


class TaskFailure(Wire, frozen=True, kw_only=True):
    """Why there is no accepted answer (docs/arbiter.md)."""

    kind: FailureKind
    reason: str


class TaskSpent(Wire, frozen=True, kw_only=True):
    """What agents report. `thinkingTokens` are among `outputTokens`."""

    prompt_tokens: int
    output_tokens: int
    thinking_tokens: int
    usd: Annotated[float, Meta(description="by the agents' prices")]
    latency_ms: float


class TaskBudget(Wire, frozen=True, kw_only=True):
    """The thinking budget: tokens that agents wrote."""

    level: Complexity
    granted: int
    spent: int
    overspent: int
    escalations: int


class TaskAttempt(Wire, frozen=True, kw_only=True):
    """What one agent made of the task. `taskId` is what its logs are under."""

    task_id: str
    agent_id: str
    iterations: tuple[Iteration, ...]
    spent: TaskSpent
    failure: TaskFailure | None


class TaskAnswer(Wire, frozen=True, kw_only=True):
    """What became of a task. A task that failed has an answer of this kind, too: its failure is in it."""

    task_id: str
    status: Annotated[
        Literal["succeeded", "failed", "cancelled"],
        Meta(description="succeeded: there is an answer, and no evaluation that rejects it"),
    ]
    text: Annotated[str, Meta(description="the answer; the best one where all are rejected; empty where there is none")]
    tool_calls: Annotated[
        tuple[ToolCall, ...], Meta(description="of an answer to a chat; other answers have calls in their text")
    ]
    finish_reason: Annotated[FinishReason | None, Meta(description="why it ends there, where the agent told")]
    agent_id: Annotated[str, Meta(description="whose answer, or who failed last")]
    decision: RoutingDecision
    attempts: tuple[TaskAttempt, ...]
    evaluation: Evaluation | None
    not_evaluated: Annotated[str | None, Meta(description="why there is no evaluation; `/v1/outcomes` takes one later")]
    reward: Annotated[float | None, Meta(description="what it was said to be worth later, 0-1")]
    failure: TaskFailure | None
    spent: TaskSpent
    budget: TaskBudget
    latency_ms: float
    cached_from: Annotated[str | None, Meta(description="the task whose answer was given again")]
    logged: Annotated[bool, Meta(description="whether all its logs are written; if not, the rest waits to be")]
    stored: Annotated[bool, Meta(description="whether it never runs again under its id")]
    replayed: Annotated[bool, Meta(description="whether it had run before, and this is the result of then")]

    @classmethod
    def of(cls, result: TaskResult) -> "TaskAnswer":
        """A result as it is answered."""
        return msgspec.convert(result, cls, from_attributes=True)


class UnfinishedTask(Wire, frozen=True, kw_only=True):
    """A task that has no result."""

    task_id: str
    status: Annotated[
        Literal["running", "routed", "lost"],
        Meta(description="routed: you do it; lost: its runner was killed, sent again it runs anew"),
    ]
    detail: Annotated[str, Meta(description="what to do")]

    @classmethod
    def of(cls, task_id: str, known: Known) -> "UnfinishedTask":
        """A task without a result as it is answered."""
        if known.routed is not None:
            return cls(task_id=task_id, status="routed", detail="report to /v1/outcomes how it went")
        if known.lost:
            detail = "whoever ran it was killed; send it again under its id, and it runs anew"
            return cls(task_id=task_id, status="lost", detail=detail)
        return cls(task_id=task_id, status="running", detail=f"ask /v1/tasks/{task_id} for its result")


class OutcomeAnswer(Wire, frozen=True, kw_only=True):
    """A report that was taken."""

    task_id: str
    learned: Annotated[bool, Meta(description="whether routing learned of it; it learns of a task once")]
    replayed: Annotated[bool, Meta(description="whether all of it had been said before")]
    task: Annotated[TaskAnswer, Meta(description="the result as it is now")]

    @classmethod
    def of(cls, reported: Reported) -> "OutcomeAnswer":
        """A report as it is answered."""
        return cls(
            task_id=reported.result.task_id,
            learned=reported.learned,
            replayed=reported.replayed,
            task=TaskAnswer.of(reported.result),
        )


MODELS: tuple[type[Wire], ...] = (
    TaskRequest,
    RouteRequest,
    RouteAnswer,
    TaskAnswer,
    UnfinishedTask,
    Report,
    OutcomeAnswer,
)
