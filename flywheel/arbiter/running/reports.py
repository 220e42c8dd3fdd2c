"""What a caller reports of a task: how its own run of it went, and what an answer is worth."""

from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from flywheel.arbiter.agents.strategy import Tokens
from flywheel.arbiter.settings import storable
from flywheel.records import (
    Evaluation,
    Execution,
    Identifier,
    Message,
    Milliseconds,
    MinimalDiffMetrics,
    QualityGate,
    RoutingDecision,
    RubricScores,
    Score,
    ToolUse,
    Turn,
    Wire,
)

SUCCESS = 0.5
"""A reward of at least this is a success, where nobody says otherwise."""
NOT_YET = "its caller has not said yet what it is worth"
MOST_CALLS = 10**12
Usd = Annotated[float, Meta(ge=0, le=1e9)]


class ReportedExecution(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a task went that its caller did, by the agent that it was routed to. Times in milliseconds."""

    success: Annotated[bool, Meta(description="whether there is an answer; one that is false is worth 0")]
    latency_ms: Annotated[float, Meta(gt=0, le=1e12, description="from the request to the answer")]
    agent_id: Annotated[Identifier | None, Meta(description="who did it: the agent that was chosen")] = None
    text: Annotated[str, Meta(description="the answer; absent: the last message of the assistant")] = ""
    messages: Annotated[
        tuple[Message, ...], Meta(description="the whole conversation; absent: the task's last question and the answer")
    ] = ()
    failure_reason: Annotated[str | None, Meta(description="why there is no answer")] = None
    prompt_tokens: Annotated[Tokens, Meta(description="read, of all turns")] = 0
    output_tokens: Annotated[Tokens, Meta(description="written, those of thinking included")] = 0
    thinking_tokens: Annotated[Tokens, Meta(description="of these")] = 0
    tool_call_success_rate: Score | None = None
    tools_used: Annotated[tuple[ToolUse, ...], Meta(description="the tools that were called, each once")] = ()
    time_to_first_action: Milliseconds | None = None
    cost_usd: Annotated[Usd | None, Meta(description="absent: by the agent's prices")] = None

    def __post_init__(self) -> None:
        if self.tool_call_count > MOST_CALLS:
            raise ValueError(f"more than {MOST_CALLS:,} calls of tools are no count of one task")

    @property
    def tool_call_count(self) -> int:
        """Calls of all tools."""
        return sum(tool.call_count for tool in self.tools_used)

    @property
    def answer(self) -> str:
        """The answer as text."""
        said = (message.content or "" for message in reversed(self.messages) if message.role == "assistant")
        return self.text or next(said, "")

    def logged(self, decision: RoutingDecision, *, at: datetime, not_evaluated: str | None) -> Execution:
        """As the execution's log; ``not_evaluated`` is why an answer comes without an evaluation."""
        question = Message(role="user", content=decision.description)
        answer = (Message(role="assistant", content=self.text),) if self.success else ()
        first_action_ms = self.time_to_first_action
        return Execution(
            task_id=decision.task_id,
            agent_id=decision.selected_agent_id,
            tenant_id=decision.tenant_id,
            timestamp=at,
            success=self.success,
            failure_reason=None if self.success else self.failure_reason or "its caller says that it failed",
            latency_ms=self.latency_ms,
            tokens_used=self.prompt_tokens + self.output_tokens,
            thinking_tokens=min(self.thinking_tokens, self.output_tokens),
            output_tokens=self.output_tokens,
            tool_call_count=self.tool_call_count,
            tool_call_success_rate=self.tool_call_success_rate,
            tools_used=self.tools_used,
            time_to_first_action=None if first_action_ms is None else min(first_action_ms, self.latency_ms),
            messages=self.messages or (question, *answer),
            not_evaluated=not_evaluated if self.success and not_evaluated else UNSET,
        )


class ReportedEvaluation(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody found an answer to be worth, as the log of evaluations has it. Scores are 0–1.

    The answer is accepted where every mandatory gate was passed.
    """

    overall_score: Score
    rubric_scores: RubricScores
    quality_gates: tuple[QualityGate, ...] = ()
    minimal_diff_metrics: MinimalDiffMetrics | None = None
    turn_data: tuple[Turn, ...] = ()
    budget_compliant: bool = True
    caws_compliant: Annotated[bool | None, Meta(description="absent: whether it is accepted")] = None

    def __post_init__(self) -> None:
        if self.accepted and self.overall_score == 0:
            raise ValueError("an answer that passes every mandatory gate cannot be worth 0")

    @property
    def accepted(self) -> bool:
        """Whether every mandatory gate was passed."""
        return all(gate.passed for gate in self.quality_gates if gate.mandatory)

    def logged(self, executed: Execution) -> Evaluation:
        """As the evaluation's log, of the moment of the execution."""
        return Evaluation(
            task_id=executed.task_id,
            agent_id=executed.agent_id,
            tenant_id=executed.tenant_id,
            timestamp=executed.timestamp,
            quality_gates=self.quality_gates,
            rubric_scores=self.rubric_scores,
            overall_score=self.overall_score,
            caws_compliant=self.accepted if self.caws_compliant is None else self.caws_compliant,
            budget_compliant=self.budget_compliant,
            passed_all_mandatory=self.accepted,
            minimal_diff_metrics=self.minimal_diff_metrics,
            turn_data=self.turn_data,
        )


class Reward(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number instead of an evaluation: a thumb, a test of the caller's own, an accepted diff."""

    value: Annotated[Score, Meta(description="what the answer is worth, 0–1")]
    source: Literal["user", "reviewer", "system"] = "user"
    name: Annotated[str, Meta(min_length=1, max_length=200, description="what it measures")] = "reward"
    success: Annotated[bool | None, Meta(description="absent: whether the value is at least 0.5")] = None

    @property
    def succeeded(self) -> bool:
        """Whether the task counts as done."""
        return self.value >= SUCCESS if self.success is None else self.success


class Report(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a task now, in one part or several, at once or one after the other."""

    task_id: Identifier
    execution: Annotated[
        ReportedExecution | None, Meta(description="of a task that was routed for its caller to do")
    ] = None
    evaluation: Annotated[ReportedEvaluation | None, Meta(description="of an answer that nobody has judged")] = None
    reward: Annotated[Reward | None, Meta(description="the same in one number; logged as feedback")] = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a report has an execution, an evaluation or a reward")
        storable(self.task_id)

    @property
    def parts(self) -> dict[str, str]:
        """Digests of its parts by their names: by them the same report is known again."""
        found = {"execution": self.execution, "evaluation": self.evaluation, "reward": self.reward}
        return {name: _digest(part) for name, part in found.items() if part is not None}


def _digest(part: Wire) -> str:
    return blake2b(msgspec.json.encode(part, order="deterministic"), digest_size=16).hexdigest()
