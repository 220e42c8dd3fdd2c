"""The spans of one trace and what they say of themselves: which is the task's, what kind each is, what is stated."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import isfinite
from typing import Any

import msgspec

from flywheel.collection.importers.otlp_messages import WireMessage, conversation_of
from flywheel.collection.importers.otlp_spans import Attributes, Item, Span, SpanEvent
from flywheel.records import Evaluation, Execution, RoutingDecision

MODEL_OPERATIONS = frozenset({"chat", "generate_content", "text_completion"})
AGENT_OPERATIONS = frozenset({"invoke_agent", "invoke_workflow"})
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
            span_id: msgspec.structs.replace(span, events=(*span.events, *loose[span_id])) if span_id in loose else span
            for span_id, span in sorted(spans.items(), key=lambda entry: (entry[1].start_ns, entry[0]))
        }
        self.resource = resource
        self.left_out: set[str] = set()
        self._conversations: dict[str, list[WireMessage]] = {}
        self._of_kind: dict[Callable[[Span], bool], list[Span]] = {}

    def conversation_of(self, span: Span) -> list[WireMessage]:
        """The messages that one of its spans holds, read once; ``left_out`` names what they have lost."""
        if span.span_id not in self._conversations:
            self._conversations[span.span_id] = conversation_of(span, self.left_out)
        return self._conversations[span.span_id]

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

    def of_kind(self, kind: Callable[[Span], bool]) -> list[Span]:
        """The spans of a kind, looked for once."""
        if kind not in self._of_kind:
            self._of_kind[kind] = [span for span in self.spans.values() if kind(span)]
        return self._of_kind[kind]

    def outermost(self, kind: Callable[[Span], bool]) -> list[Span]:
        """The spans of a kind that are below no other of it: what is instrumented twice counts once."""
        found = self.of_kind(kind)
        if len(found) < 2:
            return found
        ids = {span.span_id for span in found}
        return [span for span in found if ids.isdisjoint(above.span_id for above in self.above(span))]

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


def operation(span: Span) -> str | None:
    """The GenAI operation."""
    found = span.attributes.get("gen_ai.operation.name")
    return found if isinstance(found, str) else None


def kind(span: Span) -> str | None:
    """The kind of OpenInference."""
    found = span.attributes.get("openinference.span.kind")
    return found.upper() if isinstance(found, str) else None


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
    for name in names:
        if (found := attributes.get(name)) is not None:
            return found
    return None


def number(value: Any) -> int | None:
    """A count; None where it is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None


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
