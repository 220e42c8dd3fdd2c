"""The run that a trace is, read by the table of ``otlp_records``.

A task that its arbiter states by ``flywheel.`` attributes keeps its id and its logs: what the receiver would make of
the trace is taken as it is, and nothing is completed. Of all other traces the reward is the score named ``overall``;
of those with other scores alone a mapping says which is.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from flywheel.collection.importers.conversation import TOOL_DEFINITIONS, Conversation
from flywheel.collection.importers.fields import EPOCH
from flywheel.collection.importers.interface import Logs, Note, Rejected, Run, ToolTally, Value
from flywheel.collection.importers.otlp_judgements import RUBRIC
from flywheel.collection.importers.otlp_records import logs_in
from flywheel.collection.importers.otlp_spans import Item
from flywheel.collection.importers.otlp_trace import OWN, Trace, WireLog, first, instant, is_model_call
from flywheel.collection.importers.per_record import NOT_OF_FORMAT
from flywheel.records import Execution, Feedback, Log, Score

UNNAMED = "unnamed-agent"
ARBITERS = (f"{OWN}task.id", f"{OWN}routing.")
TALLIED = "tools-of-messages: no span shows their execution"
CUT_OFF = "trace-cut-off: spans name parents that are in none of the files"
DEFINITIONS = ("gen_ai.tool.definitions", "llm.tools.")
COST = ("gen_ai.usage.cost", "llm.cost.total")
T = TypeVar("T")


def outcome_of_trace(items: Sequence[Item]) -> Run | Logs | Rejected:
    """What becomes of the spans and events of a trace."""
    trace, trace_id = Trace(items), items[0].trace_id
    wire = logs_in(trace, trace_id)
    try:
        if any(name.startswith(ARBITERS) for name in trace.stated):
            logs = tuple(msgspec.convert({"tenantId": "-", **log}, Log) for log in wire)
            return Logs(logs, own_tenant=False)
        if trace.entry is None:
            detail = "no span of it is of an agent, a model or a tool by the conventions of GenAI or OpenInference"
            return Rejected(reason="no task", detail=detail, item=trace_id)
        return run_of(trace, trace_id, wire)
    except msgspec.ValidationError as error:
        return Rejected(reason=NOT_OF_FORMAT, detail=str(error), item=trace_id)


def run_of(trace: Trace, trace_id: str, wire: Sequence[WireLog]) -> Run:
    """The run of a trace that has an entry.

    Raises:
        msgspec.ValidationError: what spans say of it is of another type.
    """
    entry, held = trace.entry, {log["log"]: log for log in wire}
    assert entry is not None
    # What a run may be without has a place holder where the log may not; whether it was said is asked of ``said``.
    said = {name: value for name, value in held["execution"].items() if name != "log"}
    filled = {"agentId": UNNAMED, "success": True, "timestamp": EPOCH, "toolCallCount": 0, **said}
    told = converted(filled, Execution)
    notes = [converted({"timestamp": EPOCH, **log}, Feedback) for log in wire if log["log"] == "feedback"]
    tools, rules = tools_of(told, shown="toolCallCount" in said)
    rubric, overall = judged(held.get("evaluation", {}))
    cut_off = any(span.parent_span_id and span.parent_span_id not in trace.spans for span in trace.spans.values())
    began = instant(entry.start_ns)
    return Run(
        key=trace_id,
        agent_id=told.agent_id,
        category=entry.name,
        description=next((one.content or "" for one in told.messages if one.role == "user"), ""),
        started_at=None if began is None else EPOCH.fromisoformat(began),
        latency_ms=told.latency_ms,
        first_action_ms=told.time_to_first_action,
        tokens_used=told.tokens_used,
        output_tokens=said.get("outputTokens"),
        thinking_tokens=said.get("thinkingTokens"),
        cost_usd=cost_of(trace),
        messages=told.messages,
        tools=tools,
        success=said.get("success"),
        reward=overall if overall is not None and 0 <= overall <= 1 else None,
        safety=rubric.pop("safety", None),
        rubric=rubric,
        failure_reason=told.failure_reason,
        scores=scores_of(held.get("evaluation", {}), notes),
        notes=tuple(map(note_of, notes)),
        derived=(*rules, *((CUT_OFF,) if cut_off else ()), *sorted(left_out(trace))),
    )


def left_out(trace: Trace) -> set[str]:
    """What the trace has and its logs have not, of the conversation and of the tools that models were offered."""
    calls = trace.of_kind(is_model_call)
    defined = any(name.startswith(DEFINITIONS) for call in calls for name in call.attributes)
    return trace.left_out | ({TOOL_DEFINITIONS} if defined else set())


def converted(value: WireLog, kind: type[T]) -> T:
    """A log in its type.

    Raises:
        msgspec.ValidationError: a field is of another type; the message names it.
    """
    return msgspec.convert(value, kind)


def tools_of(told: Execution, *, shown: bool) -> tuple[dict[str, ToolTally], tuple[str, ...]]:
    """The tools by their spans; where none shows them, by the calls in the messages, and the rule's name."""
    if shown:
        tools = {}
        for use in told.tools_used:
            failures = None if use.success_rate is None else round(use.call_count * (1 - use.success_rate))
            tools[use.tool_name] = ToolTally(
                calls=use.call_count, failures=failures, average_latency_ms=use.average_latency
            )
        return tools, ()
    tally = Conversation()
    for message in told.messages:
        tally.count(message.tool_calls)
    return tally.tools, (TALLIED,)


def judged(worth: WireLog) -> tuple[dict[str, float], float | None]:
    """The terms of the rubric that were judged, and the overall score, which may be of another scale.

    Raises:
        msgspec.ValidationError: a score is no number, or a term is not from 0 to 1.
    """
    scores = {name: value for name, value in (worth.get("rubricScores") or {}).items() if name in RUBRIC}
    return msgspec.convert(scores, dict[str, Score]), msgspec.convert(worth.get("overallScore"), float | None)


def scores_of(worth: WireLog, notes: Sequence[Feedback]) -> dict[str, Value]:
    """All scores by name, for a mapping."""
    terms = {name: value for name, value in (worth.get("rubricScores") or {}).items() if name in RUBRIC}
    overall = {} if worth.get("overallScore") is None else {"overall": worth["overallScore"]}
    return {**{note.name: note.value for note in notes}, **terms, **overall}


def note_of(said: Feedback) -> Note:
    """A score of another scale as feedback."""
    at = said.timestamp if said.timestamp > EPOCH else None
    return Note(name=said.name, value=said.value, source=said.source, timestamp=at)


def cost_of(trace: Trace) -> float | None:
    """US dollars of all model calls; None where none tells."""
    costs = [first(span.attributes, *COST) for span in trace.outermost(is_model_call)]
    known: list[Any] = [cost for cost in costs if isinstance(cost, int | float) and not isinstance(cost, bool)]
    return float(sum(known)) if known else None
