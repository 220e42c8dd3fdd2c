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

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from flywheel.collection.importers.otlp import STATUS_ERROR, Attributes, Item, Span, SpanEvent
from flywheel.collection.importers.otlp_messages import WireMessage, conversation_of, outputs_of
from flywheel.records import Evaluation, Execution, RoutingDecision

EVALUATED = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation"})
RUBRIC = frozenset({"format", "tool", "task", "minimal", "cost", "safety"})
OVERALL = frozenset({"overall", "overall_score", "overallScore"})
MODEL_OPERATIONS = frozenset({"chat", "generate_content", "text_completion"})
AGENT_OPERATIONS = frozenset({"invoke_agent", "invoke_workflow"})
TOOL_REASONS = frozenset({"tool_call", "tool_calls", "tool_use", "function_call"})
ANNOTATION = re.compile(
    r"(?:(?:trace|session)\.)?(annotations|evaluations)\.(\d+)\.(?:annotation|evaluation)"
    r"\.(name|score|label|explanation|annotator_kind|identifier)"
)
OWN = "flywheel."
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS = {
    log: {field.encode_name: field.type for field in msgspec.structs.fields(record)}
    for log, record in (("routing", RoutingDecision), ("execution", Execution), ("evaluation", Evaluation))
}

WireLog = dict[str, Any]


class Trace:
    """The spans of one task, with the events that came apart from them."""

    def __init__(self, items: Iterable[Item]) -> None:
        spans: dict[str, Span] = {}
        loose: dict[str, list[SpanEvent]] = defaultdict(list)
        seen: set[bytes] = set()
        resource: Attributes = {}
        for item in items:
            resource = resource or item.resource
            if isinstance(item, Span):
                known = spans.get(item.span_id)
                if known is None or item.end_ns >= known.end_ns:  # sent again, or again once it had ended
                    spans[item.span_id] = item
                continue
            digest = msgspec.json.encode(item)
            if digest not in seen:  # an exporter that was not sure sent it again
                seen.add(digest)
                loose[item.span_id].append(item.event)
        self.unplaced = [event for span_id, events in loose.items() if span_id not in spans for event in events]
        self.spans = {
            span_id: msgspec.structs.replace(span, events=(*span.events, *loose.get(span_id, ())))
            for span_id, span in sorted(spans.items(), key=lambda entry: (entry[1].start_ns, entry[0]))
        }
        self.resource = resource

    @property
    def events(self) -> Iterator[tuple[Span | None, SpanEvent]]:
        """All events, with their spans."""
        for span in self.spans.values():
            for event in span.events:
                yield span, event
        for event in self.unplaced:
            yield None, event

    def above(self, span: Span) -> Iterator[Span]:
        """The ancestors of a span that came, the nearest first."""
        seen = {span.span_id}
        parent = self.spans.get(span.parent_span_id)
        while parent is not None and parent.span_id not in seen:
            seen.add(parent.span_id)
            yield parent
            parent = self.spans.get(parent.parent_span_id)

    def outermost(self, kind: Callable[[Span], bool]) -> list[Span]:
        """The spans of a kind that are below no other of it: what is instrumented twice counts once."""
        return [span for span in self.spans.values() if kind(span) and not any(map(kind, self.above(span)))]

    @cached_property
    def entry(self) -> Span | None:
        """The span that is the task's execution."""
        for kind in (is_agent, is_own, is_generative):
            found = self.outermost(kind)
            if found:
                return found[0]
        return None

    @cached_property
    def stated(self) -> Attributes:
        """What the arbiter states itself: the resource, the roots and the entry span, the later one wins."""
        held = [self.resource, *(span.attributes for span in self.spans.values() if is_root(span))]
        if self.entry is not None:
            held += [self.entry.resource, self.entry.attributes]
        return {name: value for some in held for name, value in some.items() if name.startswith(OWN)}

    @property
    def task_id(self) -> str:
        """The task's id: the trace's unless it is stated."""
        found = self.stated.get(f"{OWN}task.id")
        return str(found) if found else ""

    @property
    def agent_id(self) -> str | None:
        """Who worked on the task, if a span says so."""
        stated = self.stated.get(f"{OWN}agent.id")
        if stated or self.entry is None:
            return str(stated) if stated else None
        found = first(self.entry.attributes, "gen_ai.agent.id", "gen_ai.agent.name", "agent.name")
        return None if found is None else str(found)


def logs_of_trace(items: Sequence[Item]) -> list[WireLog]:
    """The logs of a task out of all that came of its trace; none where it says nothing about a task.

    The logs have no tenant; the key that the spans came with decides it.
    """
    trace = Trace(items)
    task_id, agent_id = trace.task_id or items[0].trace_id, trace.agent_id
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


def is_root(item: Item) -> bool:
    """Whether a span has no parent: its trace is about to be whole."""
    return isinstance(item, Span) and not item.parent_span_id


def is_own(span: Span) -> bool:
    """Whether an arbiter states something of the task on this span."""
    return any(name.startswith(OWN) for name in span.attributes)


def is_agent(span: Span) -> bool:
    """Whether an agent or a workflow is called here."""
    return operation(span) in AGENT_OPERATIONS or kind(span) == "AGENT"


def is_model_call(span: Span) -> bool:
    """Whether a model is called here. Early emitters named the model and no operation."""
    found = operation(span)
    if found is None and kind(span) is None:
        return "gen_ai.request.model" in span.attributes
    return found in MODEL_OPERATIONS or kind(span) == "LLM"


def is_tool_call(span: Span) -> bool:
    """Whether a tool is executed here."""
    return operation(span) == "execute_tool" or kind(span) == "TOOL"


def is_generative(span: Span) -> bool:
    """Whether a span is of an agent, a model or a tool by one of the conventions."""
    return is_agent(span) or is_model_call(span) or is_tool_call(span) or kind(span) is not None


def operation(span: Span) -> Any:
    """The GenAI operation."""
    return span.attributes.get("gen_ai.operation.name")


def kind(span: Span) -> str | None:
    """The kind of OpenInference."""
    found = span.attributes.get("openinference.span.kind")
    return found.upper() if isinstance(found, str) else None


# --- routing and execution --------------------------------------------------------------------------------------------


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
    calls = [span for span in trace.spans.values() if is_model_call(span)]
    own = [span for span in calls if next(filter(is_agent, trace.above(span)), trace.entry) is trace.entry]
    for span in [*reversed(own), *([trace.entry] if trace.entry else [])]:
        messages = conversation_of(span)
        if messages:
            return messages
    return []


def tokens_of(trace: Trace) -> dict[str, int | None]:
    """Tokens of all model calls; of the outermost agents where no model call tells."""
    calls = trace.outermost(is_model_call)
    if not any(used(span) is not None for span in calls):
        calls = trace.outermost(is_agent)
    counted = [span for span in calls if span.status != STATUS_ERROR or used(span) is not None]
    totals = [used(span) for span in counted]
    return {
        "tokensUsed": sum(filter(None, totals)) if totals and None not in totals else None,
        "outputTokens": total(counted, OUTPUT_TOKENS),
        "thinkingTokens": total(counted, THINKING_TOKENS),
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
    for span in filter(is_model_call, trace.spans.values()):
        reasons = first(span.attributes, "gen_ai.response.finish_reasons", "llm.finish_reason") or ()
        if TOOL_REASONS.intersection([reasons] if isinstance(reasons, str) else reasons):
            return True
        if any(message.get("toolCalls") for message in outputs_of(span)):
            return True
    return False


# --- evaluation and feedback ------------------------------------------------------------------------------------------


def judgements_of(trace: Trace, task_id: str, agent_id: str | None) -> list[WireLog]:
    """The evaluation, if anything of it was said, and all other scores as feedback."""
    scores: dict[str, Any] = {}
    overall: Any = None
    times: list[int] = []
    logs: list[WireLog] = []
    for span, event in trace.events:
        if event.name not in EVALUATED:
            continue
        time_ns = event.time_ns or (span.end_ns if span else 0)
        name = str(event.attributes.get("gen_ai.evaluation.name", ""))
        value = event.attributes.get("gen_ai.evaluation.score.value")
        if value is not None and (name.lower() in RUBRIC or name in OVERALL):
            times.append(time_ns)
            if name in OVERALL:
                overall = value
            else:
                scores[name.lower()] = value
        else:
            logs += feedback_of(evaluated(event), task_id, time_ns)
    for span in trace.spans.values():
        for annotation in annotations_of(span):
            logs += feedback_of(annotation, task_id, span.end_ns or span.start_ns)
    told = stated(trace, "evaluation")
    if scores or overall is not None or told:
        log = {"log": "evaluation", "taskId": task_id, "agentId": agent_id, "timestamp": instant(max(times, default=0))}
        if "timestamp" not in told and not times and trace.entry is not None:
            log["timestamp"] = instant(trace.entry.end_ns)
        logs.insert(0, present({**log, "rubricScores": scores or None, "overallScore": overall, **told}))
    return logs


def evaluated(event: SpanEvent) -> Mapping[str, Any]:
    """A GenAI evaluation by the names of an annotation."""
    return {
        field: event.attributes.get(f"gen_ai.evaluation.{name}")
        for field, name in (
            ("name", "name"),
            ("score", "score.value"),
            ("label", "score.label"),
            ("explanation", "explanation"),
        )
    }


def annotations_of(span: Span) -> list[Mapping[str, Any]]:
    """OpenInference's annotations of a span, its trace and its session."""
    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for name, value in span.attributes.items():
        matched = ANNOTATION.fullmatch(name)
        if matched is not None:
            start = name[: matched.start(3)]
            found[start, matched[2]][matched[3]] = value
    return list(found.values())


def feedback_of(said: Mapping[str, Any], task_id: str, time_ns: int) -> Iterator[WireLog]:
    """A score as feedback. Its scale is its maker's: it takes part in no evaluation until somebody maps it."""
    value = next((said[name] for name in ("score", "label", "explanation") if said.get(name) is not None), None)
    if not said.get("name") or value is None:
        return
    by = str(said.get("annotator_kind", "")).upper()
    log = {
        "log": "feedback",
        "taskId": task_id,
        "timestamp": instant(time_ns),
        "source": "reviewer" if by == "HUMAN" else "system",
        "name": str(said["name"]),
        "value": value,
        "label": said.get("label"),
        "explanation": said.get("explanation"),
    }
    yield present(log)


# --- values -----------------------------------------------------------------------------------------------------------


def stated(trace: Trace, log: str) -> WireLog:
    """The fields of a log that the arbiter states, in the types that they have in it."""
    prefix = f"{OWN}{log}."
    names = {name.removeprefix(prefix): value for name, value in trace.stated.items() if name.startswith(prefix)}
    return {name: typed(value, FIELDS[log].get(name)) for name, value in names.items()}


def typed(value: Any, field: Any) -> Any:
    """A value in a field's type where it can be read so; resource attributes are texts. Else the gates judge it."""
    try:
        if isinstance(value, str) and value[:1] in {"[", "{"}:
            return msgspec.json.decode(value)
        return value if field is None else msgspec.to_builtins(msgspec.convert(value, field, strict=False))
    except (msgspec.MsgspecError, RecursionError):
        return value


def first(attributes: Attributes, *names: str) -> Any:
    """The first of these attributes that there is."""
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def number(value: Any) -> int | None:
    """A count; None where it is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def instant(time_ns: int) -> str | None:
    """A time as logs have it; None where there is none."""
    if time_ns <= 0:
        return None
    try:
        return (EPOCH + timedelta(microseconds=time_ns // 1000)).isoformat()
    except OverflowError:
        return None


def present(log: WireLog) -> WireLog:
    """What there is of a log."""
    return {name: value for name, value in log.items() if value is not None}
