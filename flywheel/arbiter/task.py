"""What a service hands to the arbiter, and what it gets back."""

from datetime import datetime
from typing import Literal, Self

from msgspec import Struct

from flywheel.arbiter.agents.honoured import UNKNOWN_ANSWER, needs_of
from flywheel.arbiter.agents.reference import estimated_tokens
from flywheel.arbiter.agents.strategy import FinishReason
from flywheel.arbiter.agents.text_calls import in_words
from flywheel.arbiter.budgets import BudgetReport
from flywheel.arbiter.routing.task import RoutedTask, assess_complexity
from flywheel.errors import HeldOutTaskError
from flywheel.records import Complexity, Evaluation, Execution, Iteration, Message, RoutingDecision, ToolCall
from flywheel.tasks.options import NO_OPTIONS, Dialect, GenerationOptions
from flywheel.tasks.source import AgentTask, BenchmarkTask, SourceTask, Split, Tool

LONGEST_ID = 480
ATTEMPT_MARK = "#attempt-"
"""An attempt that another agent took over is logged under the task's id, this mark and its number."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one task may take. None: no limit. What is begun is not cut short by tokens or cost, and counts whole.

    Attributes:
        timeout_s: from the call to the result.
        tokens: read and written, of all attempts; nothing new is begun once they are spent.
        usd: the same in US dollars, by the agents' prices.
        must_have: specializations without which an agent may not have the task.
    """

    timeout_s: float | None = None
    tokens: int | None = None
    usd: float | None = None
    must_have: tuple[str, ...] = ()


NO_LIMITS = Limits()


class Task(Struct, frozen=True, kw_only=True):
    """One task. Handed over twice under the same id it runs once.

    Attributes:
        id: unique within the tenant.
        type: of the registry of task types.
        messages: the conversation up to what is asked; at least one of the user.
        tools: what the agent may call.
        complexity: None: assessed from tools, length and turns by SPEC section 7.
        requirements: what it needs besides its tools, in words that routing learns by.
        languages: matched with the agents'.
        specializations: the same.
        embedding: numbers about the task for the contextual strategy; see ``RoutedTask``.
        limits: what it may take.
        deadline: no result later than this, with zone.
        tenant_id: whose it is; None: the arbiter's own.
        side_effects: whether doing it changes anything anywhere; None: it does where it has tools.
        use_cache: whether an earlier answer will do.
        source: the benchmark task that this is an instance of.
        benchmark: that task itself, where its published answer is to judge by.
        environment: that task itself, where an environment runs it over turns and verifies it.
        dialect: how tools and their calls are written.
        options: how the answer is to be generated. Agents that cannot honour one do not get the task.
        agent_id: the agent that is to do it; None: it is routed. Of an agent that was named nothing is learned, for
            whoever named it may have had reasons that routing does not know.
    """

    id: str
    type: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    complexity: Complexity | None = None
    requirements: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    embedding: tuple[float, ...] = ()
    limits: Limits = NO_LIMITS
    deadline: datetime | None = None
    tenant_id: str | None = None
    side_effects: bool | None = None
    use_cache: bool = True
    source: str | None = None
    benchmark: BenchmarkTask | None = None
    environment: SourceTask | None = None
    dialect: Dialect = "text"
    options: GenerationOptions = NO_OPTIONS
    agent_id: str | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= LONGEST_ID or ATTEMPT_MARK in self.id:
            raise ValueError(f"a task's id has 1 to {LONGEST_ID} characters and no {ATTEMPT_MARK!r}: {self.id[:80]!r}")
        if not self.type:
            raise ValueError(f"task {self.id!r} has no type")
        if not any(message.role == "user" and message.content for message in self.messages):
            raise ValueError(f"task {self.id!r} asks nothing: it needs a message of the user")
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError(f"the deadline of task {self.id!r} has no time zone")

    @classmethod
    def asking(cls, text: str, *, id: str, type: str) -> Self:
        """A task that is one question."""
        return cls(id=id, type=type, messages=(Message(role="user", content=text),))

    @classmethod
    def of_source(cls, task: SourceTask, *, id: str) -> Self:
        """A source's task under an id of this run."""
        benchmark = task if isinstance(task, BenchmarkTask) else None
        return cls(
            id=id,
            type=task.task_type,
            messages=task.question,
            tools=task.tools,
            complexity=task.complexity,
            source=task.id,
            benchmark=benchmark,
            environment=task if benchmark is None else None,
            side_effects=True if benchmark is None else None,
        )

    @property
    def given(self) -> SourceTask | None:
        """The source's own task that this is an instance of."""
        return self.benchmark or self.environment

    @property
    def text(self) -> str:
        """The last thing the user says."""
        return self.asked.text

    @property
    def asked(self) -> AgentTask:
        """The task as an agent gets it."""
        if self.benchmark is not None:
            return self.benchmark
        has_calls = any(message.tool_calls or message.role == "tool" for message in self.messages)
        return AgentTask(
            id=self.id,
            task_type=self.type,
            complexity=self.assessed_complexity,
            question=in_words(self.messages) if has_calls and self.dialect == "text" else self.messages,
            tools=self.tools,
            dialect=self.dialect,
            options=self.options,
        )

    @property
    def assessed_complexity(self) -> Complexity:
        """The stated complexity, or what the rules of SPEC section 7 say."""
        if self.complexity is not None:
            return self.complexity
        return assess_complexity(
            tools=len(self.tools),
            context_tokens=estimated_tokens(*(message.content or "" for message in self.messages)),
            turns=sum(message.role == "user" for message in self.messages),
            external_calls=self.has_side_effects or any(message.tool_calls for message in self.messages),
        )

    @property
    def has_side_effects(self) -> bool:
        """As stated; where nothing is, a tool is taken to have them."""
        return bool(self.tools) if self.side_effects is None else self.side_effects

    @property
    def all_requirements(self) -> tuple[str, ...]:
        """What the task needs, as routing and the log name it."""
        return (
            *(f"tool:{tool.name}" for tool in self.tools),
            *(f"language:{name}" for name in self.languages),
            *(f"specialization:{name}" for name in self.specializations),
            *self.requirements,
        )

    def routed(self) -> RoutedTask:
        """The task as routing sees it."""
        return RoutedTask(
            task_type=self.type,
            complexity=self.assessed_complexity,
            requirements=self.all_requirements,
            languages=self.languages,
            specializations=self.specializations,
            must_have=self.limits.must_have,
            needs=(*((UNKNOWN_ANSWER,) if self.given is None else ()), *needs_of(self.asked)),
            length=len(self.text),
            embedding=self.embedding,
        )


def refuse_held_out(task: SourceTask | None) -> None:
    """Refuse a source's task that is not for training.

    Raises:
        HeldOutTaskError: it only measures models.
    """
    if task is not None and task.split is not Split.TRAIN:
        raise HeldOutTaskError(f"{task.id} is a {task.split} task: it measures models and is never routed")


FailureKind = Literal["agent-error", "timeout", "cancelled", "budget-exhausted", "no-agent", "rejected", "saturated"]


class Failure(Struct, frozen=True, kw_only=True):
    """Why a task or an attempt has no accepted answer.

    ``agent-error``: the agent could not answer. ``timeout``: it, or the task, took too long. ``budget-exhausted``:
    what the task may take was spent before an answer was accepted. ``rejected``: the evaluation accepts none.
    ``saturated``: all slots of the agent were taken until the task's time was over.
    ``refused``: whether it is the request that cannot be done as it is, and not the agent that cannot do it.
    """

    kind: FailureKind
    reason: str
    refused: bool = False


class Spent(Struct, frozen=True, kw_only=True):
    """What agents report, summed. ``thinking_tokens`` are among ``output_tokens``; ``usd`` is by the agents' prices."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    usd: float = 0.0
    latency_ms: float = 0.0

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


NOTHING_SPENT = Spent()


class AttemptReport(Struct, frozen=True, kw_only=True):
    """What one agent made of the task. ``task_id`` is what its logs are under."""

    task_id: str
    agent_id: str
    iterations: tuple[Iteration, ...]
    spent: Spent
    failure: Failure | None = None


TaskStatus = Literal["succeeded", "failed", "cancelled"]


class TaskResult(Struct, frozen=True, kw_only=True):
    """What became of a task.

    Attributes:
        task_id: of the task.
        tenant_id: whose it is.
        status: ``succeeded``: there is an answer, and no evaluation that rejects it.
        text: the answer; where the evaluation rejects all of them the best one; empty where there is none.
        tool_calls: of the answer, in the chat dialect.
        finish_reason: why the answer ends where it does, where the agent told.
        agent_id: whose answer, or who failed last.
        decision: how that agent was chosen, as logged.
        attempts: in their order; the last one is logged under the task's own id.
        evaluation: of the answer; None where there is none.
        not_evaluated: why there is no evaluation, in words.
        unjudged: the execution as logged of an answer that may be evaluated later.
        spent: what all attempts report, together.
        budget: the thinking budget and what was spent of it.
        latency_ms: from the call to the result.
        failure: why it did not succeed.
        cached_from: id of the task whose answer this is.
        logged: whether all its logs were written at once; if not, the rest waits in the collector.
        stored: whether the result was stored, so that the task never runs again under its id.
        replayed: whether the task had run before, and this is the result of then.
        reward: what it was said to be worth later, 0–1.
        reports: digests of what its caller said of it later, by part.
    """

    task_id: str
    tenant_id: str
    status: TaskStatus
    text: str
    agent_id: str
    decision: RoutingDecision
    budget: BudgetReport
    latency_ms: float
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | None = None
    attempts: tuple[AttemptReport, ...] = ()
    evaluation: Evaluation | None = None
    not_evaluated: str | None = None
    unjudged: Execution | None = None
    spent: Spent = NOTHING_SPENT
    failure: Failure | None = None
    cached_from: str | None = None
    logged: bool = True
    stored: bool = True
    replayed: bool = False
    reward: float | None = None
    reports: dict[str, str] = {}
