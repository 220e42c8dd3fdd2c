"""A trace as the logs of a task: its execution, and what it says about routing, evaluation and feedback.

A trace is one task. Field names are those of OpenTelemetry's GenAI conventions, of their older form, and of
OpenInference. What no span says stays absent, and the pool's gates judge it: nothing is guessed. What those conventions
have no word for an arbiter says itself by attributes ``flywheel.<log>.<field>`` on its span or on the resource
(``OTEL_RESOURCE_ATTRIBUTES``), which also win over what is derived; ``flywheel.task.id`` names the task.

========================  ==========================================================================================
field                     from
========================  ==========================================================================================
taskId                    ``flywheel.task.id``, else the trace id
agentId                   ``gen_ai.agent.id``, ``gen_ai.agent.name``, ``agent.name`` of the entry span
timestamp, latencyMs      start and end of the entry span: the outermost agent span, else the outermost GenAI span
success, failureReason    its status: OpenTelemetry leaves it unset where nothing failed; ``error.type``, status message
tokensUsed, outputTokens  sums over model calls; absent where a call that succeeded has no usage
thinkingTokens            ``gen_ai.usage.reasoning.output_tokens``, ``llm.token_count.completion_details.reasoning``
toolsUsed, toolCallCount  tool spans; absent where a model asked for tools and no span shows their execution
timeToFirstAction         from the start of the entry span to that of the first tool span
messages                  the last model call of the entry's own: it holds the conversation so far
rubricScores              ``gen_ai.evaluation.result`` events named as the six terms; ``overall`` is overallScore
feedback                  all other such events, and OpenInference's annotations
========================  ==========================================================================================
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from flywheel.collection.importers.otlp_judgements import judgements_of
from flywheel.collection.importers.otlp_messages import WireMessage, outputs_of
from flywheel.collection.importers.otlp_spans import STATUS_ERROR, Item, Span
from flywheel.collection.importers.otlp_trace import (
    OWN,
    Trace,
    WireLog,
    first,
    instant,
    is_agent,
    is_model_call,
    is_root,
    is_tool_call,
    number,
    present,
    stated,
)

TOOL_REASONS = ("tool_call", "tool_calls", "tool_use", "function_call")


def logs_of_trace(items: Sequence[Item]) -> list[WireLog]:
    """The logs of a task out of all that came of its trace; none where it says nothing about a task.

    The logs have no tenant; the key that the spans came with decides it.
    """
    return logs_in(Trace(items), items[0].trace_id)


def logs_in(trace: Trace, trace_id: str) -> list[WireLog]:
    """The same of a trace that was put together."""
    task_id, agent_id = trace.task_id or trace_id, trace.agent_id
    logs = []
    if any(name.startswith(f"{OWN}routing.") for name in trace.stated):
        logs.append(routing_of(trace, task_id, agent_id))
    if trace.entry is not None:
        logs.append(execution_of(trace, trace.entry, task_id, agent_id))
    return logs + judgements_of(trace, task_id, agent_id)


def logs_of_late_items(items: Sequence[Item], *, task_id: str, agent_id: str | None) -> list[WireLog]:
    """What can still be said of a task whose execution was logged: evaluations and feedback, which come later."""
    return judgements_of(Trace(items), task_id, agent_id)


def task_of(items: Sequence[Item]) -> tuple[str, str | None]:
    """The ids of task and agent of a trace."""
    trace = Trace(items)
    return trace.task_id or items[0].trace_id, trace.agent_id


def routing_of(trace: Trace, task_id: str, agent_id: str | None) -> WireLog:
    """The routing decision that an arbiter states by attributes."""
    roots = [span for span in trace.spans.values() if is_root(span)]
    began = roots[0] if roots else trace.entry
    log: WireLog = {"log": "routing", "taskId": task_id, "timestamp": instant(began.start_ns if began else 0)}
    log["selectedAgentId"] = agent_id
    asked = next((m for m in conversation(trace) if m["role"] == "user" and m.get("content")), None)
    log["description"] = asked["content"] if asked else None
    return present({**log, **stated(trace, "routing")})


def execution_of(trace: Trace, entry: Span, task_id: str, agent_id: str | None) -> WireLog:
    """How the agent did."""
    success = entry.status != STATUS_ERROR and "error.type" not in entry.attributes
    ended = entry.end_ns > 0
    latency_ms = (entry.end_ns - entry.start_ns) / 1e6 if ended and entry.start_ns else None
    reason = first(entry.attributes, "error.type")
    log: WireLog = {
        "log": "execution",
        "taskId": task_id,
        "agentId": agent_id,
        "timestamp": instant(entry.end_ns),
        "success": success if ended else None,
        "failureReason": None if success else entry.status_message or (str(reason) if reason else None),
        "latencyMs": latency_ms,
        **tokens_of(trace),
        **tools_of(trace, entry),
        "messages": conversation(trace) or None,
    }
    return present({**log, **stated(trace, "execution")})


def conversation(trace: Trace) -> list[WireMessage]:
    """The conversation of the entry: that of its last own model call; calls of agents below it have theirs."""
    calls = trace.of_kind(is_model_call)
    own = [span for span in calls if next(filter(is_agent, trace.above(span)), trace.entry) is trace.entry]
    for span in [*reversed(own), *([trace.entry] if trace.entry else [])]:
        messages = trace.conversation_of(span)
        if messages:
            return messages
    return []


def tokens_of(trace: Trace) -> dict[str, int | None]:
    """Tokens of all model calls; of the outermost agents where no model call tells."""
    told = [(span, used(span)) for span in trace.outermost(is_model_call)]
    if all(tokens is None for _, tokens in told):
        told = [(span, used(span)) for span in trace.outermost(is_agent)]
    counted = [(span, tokens) for span, tokens in told if span.status != STATUS_ERROR or tokens is not None]
    spans, totals = [span for span, _ in counted], [tokens for _, tokens in counted]
    return {
        "tokensUsed": sum(filter(None, totals)) if totals and None not in totals else None,
        "outputTokens": total(spans, OUTPUT_TOKENS),
        "thinkingTokens": total(spans, THINKING_TOKENS),
    }


INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
THINKING_TOKENS = ("gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning")


def used(span: Span) -> int | None:
    """All tokens of a call, if it tells both kinds or their sum."""
    whole = number(first(span.attributes, "llm.token_count.total"))
    if whole is not None:
        return whole
    parts = [number(first(span.attributes, *names)) for names in (INPUT_TOKENS, OUTPUT_TOKENS)]
    return None if None in parts else sum(filter(None, parts))


def total(spans: Iterable[Span], names: tuple[str, ...]) -> int | None:
    """The sum of a count over the spans that have it; None where none has."""
    found = [count for span in spans if (count := number(first(span.attributes, *names))) is not None]
    return sum(found) if found else None


def tools_of(trace: Trace, entry: Span) -> dict[str, Any]:
    """Which tools were used and how it went."""
    calls = trace.outermost(is_tool_call)
    if not calls:
        return {} if asked_for_tools(trace) else {"toolCallCount": 0, "toolsUsed": []}
    by_name: dict[str, list[Span]] = defaultdict(list)
    for span in calls:
        by_name[str(first(span.attributes, "gen_ai.tool.name", "tool.name") or span.name)].append(span)
    began = min(span.start_ns for span in calls)
    return {
        "toolCallCount": len(calls),
        "toolCallSuccessRate": success_rate(calls),
        "toolsUsed": [tool_use(name, spans) for name, spans in by_name.items()],
        "timeToFirstAction": (began - entry.start_ns) / 1e6 if 0 < entry.start_ns <= began else None,
    }


def tool_use(name: str, spans: list[Span]) -> dict[str, Any]:
    """The calls of one tool."""
    timed = [(span.end_ns - span.start_ns) / 1e6 for span in spans if span.start_ns and span.end_ns >= span.start_ns]
    return present(
        {
            "toolName": name,
            "callCount": len(spans),
            "successRate": success_rate(spans),
            "averageLatency": sum(timed) / len(timed) if len(timed) == len(spans) else None,
        }
    )


def success_rate(spans: list[Span]) -> float:
    """The share of spans without an error."""
    good = sum(span.status != STATUS_ERROR and "error.type" not in span.attributes for span in spans)
    return good / len(spans)


def asked_for_tools(trace: Trace) -> bool:
    """Whether a model asked for a tool, as far as its messages or its reasons to stop tell."""
    for span in trace.of_kind(is_model_call):
        reasons = first(span.attributes, "gen_ai.response.finish_reasons", "llm.finish_reason")
        if any(reason in TOOL_REASONS for reason in (reasons if isinstance(reasons, list) else [str(reasons)])):
            return True
        if any(message.get("toolCalls") for message in outputs_of(trace.conversation_of(span))):
            return True
    return False
