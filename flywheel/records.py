"""The nouns: three logs per task, later feedback, and the data point that joins them (SPEC section 2).

Wire names are camelCase, Python names snake_case; ``msgspec`` translates. Every log carries the tag ``log``
(``routing``, ``execution``, ``evaluation``, ``feedback``), so one decoder reads a mixed stream.
Bounds of single fields live here, in the types; rules that compare fields live in ``flywheel.pool.gates``.
"""

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Score = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Milliseconds = Annotated[float, Meta(ge=0)]
Identifier = Annotated[str, Meta(min_length=1, max_length=512)]
Timestamp = Annotated[datetime, Meta(tz=True)]


class Complexity(StrEnum):
    """How much work a task is, by the rules of SPEC section 7."""

    TRIVIAL = "trivial"
    STANDARD = "standard"
    COMPLEX = "complex"


class Strategy(StrEnum):
    """How the arbiter chose."""

    MULTI_ARMED_BANDIT = "multi-armed-bandit"
    CAPABILITY_MATCH = "capability-match"
    LOAD_BALANCE = "load-balance"
    FALLBACK = "fallback"


class Wire(Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """Base of all records. Unknown fields are accepted, so that newer arbiters can talk to an older pool."""


# --- what a task says -----------------------------------------------------------------------------------------------


class ToolCall(Wire, frozen=True, kw_only=True, gc=False):
    """One call of a tool by an agent. ``arguments`` is a JSON string: a struct would fill missing keys with null."""

    name: str
    arguments: str
    id: str | None = None


class Message(Wire, frozen=True, kw_only=True, gc=False):
    """One message of a conversation. ``name`` starts with ``example`` for a demonstration in the prompt."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Imported(Wire, frozen=True, kw_only=True):
    """Where a log comes from that no arbiter wrote (``flywheel.collection.importers``).

    ``rules`` name how fields were filled that the source does not have; ``absent`` names fields, by their wire names,
    that it does not have and that stay empty: only those does the gate ``complete`` do without.
    """

    format: str
    rules: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


# --- the three logs -------------------------------------------------------------------------------------------------


class CandidateAgent(Wire, frozen=True, kw_only=True):
    """An agent the arbiter considered, with the probability that it would have been chosen."""

    agent_id: Identifier
    capability_score: Score
    performance_score: Score
    load_score: Score
    final_score: Score
    selection_reason: str
    propensity: Score


class RoutingDecision(Wire, frozen=True, kw_only=True, tag_field="log", tag="routing"):
    """Why the arbiter chose an agent for a task.

    ``source`` names the benchmark task this is an instance of (``bfcl:simple_python_0``), where there is one:
    training finds verifiable answers by it. ``user_id`` is accepted from arbiters and removed by anonymizing.
    """

    timestamp: Timestamp
    tenant_id: Identifier
    task_id: Identifier
    task_type: Identifier
    complexity: Complexity
    selected_agent_id: Identifier
    strategy: Strategy
    confidence: Score
    candidate_agents: tuple[CandidateAgent, ...]
    primary_reason: str
    description: str = ""
    requirements: tuple[str, ...] = ()
    secondary_factors: tuple[str, ...] = ()
    source: str | None = None
    user_id: str | None = None
    imported: Imported | UnsetType = UNSET


class ToolUse(Wire, frozen=True, kw_only=True):
    """How one tool was used within an execution. Nobody may have said which calls went well."""

    tool_name: str
    call_count: Count
    success_rate: Score | None = None
    average_latency: Milliseconds | None = None


class Iteration(Wire, frozen=True, kw_only=True):
    """One round of the refinement loop."""

    iteration: Annotated[int, Meta(ge=1)]
    latency_ms: Milliseconds
    tokens_used: Count
    quality_score: Score
    feedback: str | None = None


class Execution(Wire, frozen=True, kw_only=True, tag_field="log", tag="execution"):
    """How the agent did. Times in milliseconds; an absent ``timeToFirstAction`` is counted, not guessed.

    ``latencyMs`` and ``tokensUsed`` may be absent from imported logs alone: see ``lacking``. ``notEvaluated`` says why
    no evaluation comes with it; one may come later. ``cachedFrom`` is the task whose answer was given again.
    """

    task_id: Identifier
    agent_id: Identifier
    timestamp: Timestamp
    success: bool
    latency_ms: Annotated[float, Meta(gt=0)] | None = None
    tokens_used: Count | None = None
    tool_call_count: Count
    failure_reason: str | None = None
    partial_success: bool = False
    thinking_tokens: Count = 0
    output_tokens: Count = 0
    tool_call_success_rate: Score | None = None
    tools_used: tuple[ToolUse, ...] = ()
    token_efficiency: Annotated[float, Meta(ge=0)] | None = None
    time_to_first_action: Milliseconds | None = None
    messages: tuple[Message, ...] = ()
    iterations: tuple[Iteration, ...] = ()
    tenant_id: Identifier | None = None
    imported: Imported | UnsetType = UNSET
    not_evaluated: str | UnsetType = UNSET
    cached_from: Identifier | UnsetType = UNSET

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Wire names of what was not measured, of what an arbiter always measures."""
        measured = (("latencyMs", self.latency_ms), ("tokensUsed", self.tokens_used))
        return tuple(name for name, value in measured if value is None)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Of what was not measured, what the log does not say was absent from where it comes from."""
        excused = () if self.imported is UNSET else self.imported.absent
        return tuple(name for name in self.unmeasured if name not in excused)


class QualityGate(Wire, frozen=True, kw_only=True):
    """The result of one gate."""

    name: str
    passed: bool
    score: Score
    threshold: Score
    mandatory: bool


class RubricScores(Wire, frozen=True, kw_only=True):
    """The six terms of the rubric, each 0–1."""

    format: Score
    tool: Score
    task: Score
    minimal: Score
    cost: Score
    safety: Score


class MinimalDiffMetrics(Wire, frozen=True, kw_only=True):
    """How small a code change was (SPEC section 8). Absent where a task changes no code."""

    ast_similarity: Score
    file_touch_count: Count
    line_change_ratio: Annotated[float, Meta(ge=0)]
    scaffolding_penalty: Score
    reward_multiplier: Annotated[float, Meta(ge=0.1, le=1)]


class Turn(Wire, frozen=True, kw_only=True):
    """The evaluation of one turn."""

    turn_number: Annotated[int, Meta(ge=1)]
    information_gain: Score
    format_correctness: Score
    task_progress: Score
    safety_score: Score
    turn_reward: float
    tool_called: str | None = None


class CawsScores(Wire, frozen=True, kw_only=True):
    """How far a verdict can be trusted, each 0–1. ``flywheel.arbiter.evaluation.spec_evaluator`` has the formulas."""

    evidence_completeness: Score
    budget_adherence: Score
    gate_integrity: Score
    provenance_clarity: Score


class BudgetUsage(Wire, frozen=True, kw_only=True):
    """What a change used of its spec's budget: files touched, and lines added and removed."""

    files_used: Count
    files_limit: Count
    loc_used: Count
    loc_limit: Count
    budget_compliant: bool


class Caws(Wire, frozen=True, kw_only=True):
    """The verdict on a task (SPEC section 2): by which working spec, if by one, and the arbiter's signature.

    ``verdict_id`` names the entry of the audit trail (``flywheel.arbiter.audit_trail``) that says what was signed;
    without one nobody signed it. Only verdicts by a working spec have the other fields but ``gates_passed``.
    """

    verdict_id: Identifier | None = None
    arbiter_signature: Identifier | None = None
    spec_id: Identifier | None = None
    spec_digest: Identifier | None = None
    waivers_used: tuple[str, ...] = ()
    gates_passed: tuple[str, ...] = ()
    scores: CawsScores | None = None
    budget_usage: BudgetUsage | None = None


class Evaluation(Wire, frozen=True, kw_only=True, tag_field="log", tag="evaluation"):
    """What the evaluator found. ``rubric`` names what weighed the scores, as ``builtin@1``; absent: no rubric did."""

    task_id: Identifier
    agent_id: Identifier
    timestamp: Timestamp
    quality_gates: tuple[QualityGate, ...]
    rubric_scores: RubricScores
    overall_score: Score
    caws_compliant: bool
    budget_compliant: bool
    passed_all_mandatory: bool
    minimal_diff_metrics: MinimalDiffMetrics | None = None
    turn_data: tuple[Turn, ...] = ()
    tenant_id: Identifier | None = None
    imported: Imported | UnsetType = UNSET
    rubric: Identifier | UnsetType = UNSET
    caws: Caws | UnsetType = UNSET


class Feedback(Wire, frozen=True, kw_only=True, tag_field="log", tag="feedback"):
    """What people or systems said later."""

    task_id: Identifier
    timestamp: Timestamp
    source: Literal["user", "reviewer", "system"]
    name: str
    value: float | str | bool
    tenant_id: Identifier | None = None


# A log without a tenant belongs to the one tenant that has a routing decision for its task.
Log = RoutingDecision | Execution | Evaluation | Feedback


# --- the data point -------------------------------------------------------------------------------------------------


class Task(Wire, frozen=True, kw_only=True):
    """What was asked."""

    id: Identifier
    type: Identifier
    complexity: Complexity
    description: str = ""
    requirements: tuple[str, ...] = ()
    source: str | None = None


class HistoricalPerformance(Wire, frozen=True, kw_only=True):
    """The chosen agent's record in this task type before the day of this task."""

    agent_success_rate: Score | None = None
    agent_avg_quality: Score | None = None
    agent_task_count: Count = 0


class Routing(Wire, frozen=True, kw_only=True):
    """The routing part of a point."""

    selected_agent_id: Identifier
    strategy: Strategy
    confidence: Score
    candidate_agents: tuple[CandidateAgent, ...]
    primary_reason: str
    secondary_factors: tuple[str, ...] = ()
    historical_performance: HistoricalPerformance = HistoricalPerformance()


class RlLabels(Wire, frozen=True, kw_only=True):
    """What training learns from."""

    final_outcome: Literal["success", "failure", "partial"]
    total_reward: float
    turns: tuple[Turn, ...] = ()
    advantage: float | None = None


class Provenance(Wire, frozen=True, kw_only=True):
    """Where a point comes from. ``warnings`` and ``waived`` name gates it did not hold, the latter by leave.

    ``cached_from`` is the task whose answer this one got again: nothing was done for it, nothing is learned from it.
    """

    ai_assisted: bool = True
    human_reviewed: bool = False
    commit_hash: str | None = None
    caws_version: str = "1.0"
    segments: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    imported: Imported | UnsetType = UNSET
    cached_from: Identifier | UnsetType = UNSET


class ExecutionPart(Wire, frozen=True, kw_only=True):
    """The execution part of a point: the execution log without its keys."""

    success: bool
    latency_ms: Annotated[float, Meta(gt=0)] | None = None
    tokens_used: Count | None = None
    tool_call_count: Count
    failure_reason: str | None = None
    partial_success: bool = False
    thinking_tokens: Count = 0
    output_tokens: Count = 0
    tool_call_success_rate: Score | None = None
    tools_used: tuple[ToolUse, ...] = ()
    token_efficiency: Annotated[float, Meta(ge=0)] | None = None
    time_to_first_action: Milliseconds | None = None
    messages: tuple[Message, ...] = ()
    iterations: tuple[Iteration, ...] = ()


class EvaluationPart(Wire, frozen=True, kw_only=True):
    """The evaluation part of a point: the evaluation log without its keys."""

    quality_gates: tuple[QualityGate, ...]
    rubric_scores: RubricScores
    overall_score: Score
    caws_compliant: bool
    budget_compliant: bool
    passed_all_mandatory: bool
    minimal_diff_metrics: MinimalDiffMetrics | None = None
    turn_data: tuple[Turn, ...] = ()
    rubric: Identifier | UnsetType = UNSET


class DataPoint(Wire, frozen=True, kw_only=True):
    """One task, joined: what was asked, who did it, how it went, what it is worth for training.

    ``id`` is a digest of tenant, task, agent and content: the same logs make the same id, in any order.
    ``timestamp`` is the routing decision's; its UTC day is the point's partition.
    """

    id: Identifier
    timestamp: Timestamp
    tenant_id: Identifier
    task: Task
    routing: Routing
    execution: ExecutionPart
    evaluation: EvaluationPart
    rl_labels: RlLabels
    provenance: Provenance
    feedback: tuple[Feedback, ...] = ()
    rl_ready: bool = False
    schema_version: int = 1
    caws: Caws | UnsetType = UNSET

    @property
    def day(self) -> date:
        """The UTC day this point belongs to."""
        return utc_day(self.timestamp)


encode = msgspec.json.Encoder().encode
decode_log = msgspec.json.Decoder(Log).decode
decode_point = msgspec.json.Decoder(DataPoint).decode


def utc_day(timestamp: datetime) -> date:
    """The UTC calendar day of an aware timestamp."""
    return timestamp.astimezone(UTC).date()


def to_builtins(record: Struct) -> dict[str, Any]:
    """The record as plain dictionaries and lists with wire names."""
    built: dict[str, Any] = msgspec.to_builtins(record)
    return built
