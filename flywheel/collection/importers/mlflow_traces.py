"""MLflow's traces, schema version 3: spans, assessments and the usage of tokens.

The values of attributes are JSON in strings. Previews are cut off and never read: without the root's own inputs a trace
is rejected. The conversation is that of the trace's last call of a chat model; tools are counted by their spans.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from flywheel.collection.importers.conversation import TOOL_DEFINITIONS, Conversation, openai_conversation
from flywheel.collection.importers.fields import (
    MalformedError,
    count,
    mapping_of,
    moment,
    number,
    objects,
    optional_text,
    shown,
    since_epoch,
    text,
)
from flywheel.collection.importers.interface import Json, Note, Opening, Rejected, Run, Value
from flywheel.collection.importers.per_record import attempt
from flywheel.collection.importers.tool_spans import ToolSpan, first_action_ms, tallied
from flywheel.collection.json_records import Record, records

if TYPE_CHECKING:
    from datetime import datetime

    from flywheel.collection.documents import Document

CHATS = frozenset({"CHAT_MODEL", "LLM"})
SOURCES = {"HUMAN": "user", "LLM_JUDGE": "system", "AI_JUDGE": "system", "CODE": "system"}
FINISHED = frozenset({"OK", "ERROR"})
decode_json = msgspec.json.Decoder().decode


class MlflowTraces:
    """One trace a line, or a list of them."""

    name = "mlflow"
    rewarded = False

    def recognizes(self, opening: Opening) -> bool:
        """By info and data of a trace, or a list of traces with tokens of their paging."""
        return b'"trace_id"' in opening.head and (opening.keys >= {"info", "data"} or "traces" in opening.keys)

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's traces."""
        listed = "traces" in document.opening.keys
        for record in records(document, "traces"):
            if isinstance(record, Rejected):
                yield record
            elif record.key or not listed:  # what stands around a list of traces is none
                yield attempt(run_of, record)


def run_of(record: Record) -> Run | Rejected:
    """One trace.

    Raises:
        MalformedError: a field is of another type.
    """
    info, data = mapping_of(record.value, "info"), mapping_of(record.value, "data")
    state = text(info, "state")
    if state not in FINISHED:
        return Rejected(reason="not finished", detail=f"its state is {state}")
    spans = objects(data, "spans")
    roots = [span for span in spans if not span.get("parent_span_id") and not span.get("parent_id")]
    if not roots:
        return Rejected(reason="no spans", detail="the trace has no root span; previews are cut off and not read")
    metadata = mapping_of(info, "trace_metadata")
    conversation, rule = conversation_of(spans, roots[0])
    calls, latency_ms = tool_spans(spans, roots[0]), latency_of(info) or None
    usage = usage_of(metadata, spans)
    assessments = assessments_of(info)
    return Run(
        key=text(info, "trace_id"),
        agent_id=agent_of(metadata, roots[0], spans),
        category=text(roots[0], "name"),
        description=conversation.first("user"),
        started_at=time_of(info),
        latency_ms=latency_ms,
        first_action_ms=first_action_ms(calls, latency_ms=latency_ms),
        tokens_used=usage.get("total_tokens"),
        output_tokens=usage.get("output_tokens"),
        cost_usd=number(attribute_json(metadata, "mlflow.trace.cost"), "total_cost"),
        messages=tuple(conversation.messages),
        # Without spans of tools the messages' calls stand.
        tools=tallied(calls) or conversation.tools,
        failure_reason=reason_of(roots[0]) if state == "ERROR" else None,
        scores={note.name: note.value for note in assessments},
        notes=tuple(note for note in assessments if note.source == "user"),
        derived=(*conversation.rules, rule, *((TOOL_DEFINITIONS,) if defines_tools(spans) else ())),
    )


def attribute(span: Json, name: str) -> Any:
    """An attribute of a span, decoded; one that is no JSON is what it says."""
    value = mapping_of(span, "attributes").get(name)
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return value


def attribute_json(values: Json, name: str) -> Json:
    """A value that is an object, or one in a string; empty where absent."""
    found = attribute({"attributes": values}, name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise MalformedError(f"{name}: expected an object, found {shown(found)}")
    return found


def conversation_of(spans: list[Json], root: Json) -> tuple[Conversation, str]:
    """The messages of the last call of a chat model, its answer included; else what the root was given and gave."""
    for span in reversed(spans):
        inputs = attribute(span, "mlflow.spanInputs")
        if attribute(span, "mlflow.spanType") in CHATS and isinstance(inputs, dict) and inputs.get("messages"):
            conversation = openai_conversation(inputs["messages"])
            outputs = attribute(span, "mlflow.spanOutputs")
            answer(conversation, outputs)
            return conversation, "conversation-of-last-chat-span"
    conversation = Conversation()
    for role, name in (("user", "mlflow.spanInputs"), ("assistant", "mlflow.spanOutputs")):
        value = attribute(root, name)
        if value is not None:
            conversation.say(role, value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return conversation, "conversation-of-root-span"


def answer(conversation: Conversation, outputs: Any) -> None:
    """Add what a chat model gave: a choice, messages, a message, or text."""
    if isinstance(outputs, str):
        conversation.say("assistant", outputs)
        return
    if not isinstance(outputs, dict):
        return
    choices = objects(outputs, "choices")
    messages = [choices[0].get("message")] if choices else outputs.get("messages")
    if messages is None and "role" in outputs:
        messages = [outputs]
    if messages is not None:
        openai_conversation(messages, conversation)


def defines_tools(spans: list[Json]) -> bool:
    """Whether a span says which tools a model was offered."""
    return any("mlflow.chat.tools" in mapping_of(span, "attributes") for span in spans)


def tool_spans(spans: list[Json], root: Json) -> list[ToolSpan]:
    """The spans of tools."""
    began, _ = span_times(root)
    found = []
    for span in spans:
        if attribute(span, "mlflow.spanType") == "TOOL":
            start, end = span_times(span)
            found.append(
                ToolSpan(
                    name=text(span, "name"),
                    failed=failed(span),
                    after_ms=between(began, start),
                    took_ms=between(start, end),
                )
            )
    return found


def span_times(span: Json) -> tuple[int | None, int | None]:
    """Start and end of a span in nanoseconds, as schema version 3 names them, else version 2."""
    suffix = "_unix_nano" if "start_time_unix_nano" in span else ""
    return nanoseconds(span, f"start_time{suffix}"), nanoseconds(span, f"end_time{suffix}")


def nanoseconds(span: Json, name: str) -> int | None:
    """A time of a span; protobuf writes such numbers as strings in JSON."""
    value = span.get(name)
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else count(span, name)


def between(first: int | None, last: int | None) -> float | None:
    """Milliseconds from one to the other; None where one is not known or they are in the wrong order."""
    return (last - first) / 1e6 if first is not None and last is not None and last >= first else None


def reason_of(root: Json) -> str:
    """Why a trace ended in an error: what its root span says of it, where it does."""
    status = root.get("status")
    said = status.get("message") if isinstance(status, dict) else root.get("status_message")
    return said if isinstance(said, str) and said else "the trace ended in an error"


def failed(span: Json) -> bool:
    """Whether a span ended in an error, as OpenTelemetry or MLflow write it."""
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else span.get("status_code")
    return "ERROR" in str(code)


def usage_of(metadata: Json, spans: list[Json]) -> dict[str, int | None]:
    """Tokens of the trace, as MLflow summed them, else of its chat spans; empty where nobody counted."""
    names = ("input_tokens", "output_tokens", "total_tokens")
    whole = attribute_json(metadata, "mlflow.trace.tokenUsage")
    if whole:
        return {name: count(whole, name) for name in names}
    total: dict[str, int | None] = {}
    for span in spans:
        usage = attribute(span, "mlflow.chat.tokenUsage")
        if isinstance(usage, dict):
            for name in names:
                amount = count(usage, name)
                total[name] = (total.get(name) or 0) + amount if amount is not None else total.get(name)
    return total


def agent_of(metadata: Json, root: Json, spans: list[Json]) -> str:
    """The logged model that served, else the root's agent, else the name of the root span."""
    if model := optional_text(metadata, "mlflow.modelId"):
        return model
    if attribute(root, "mlflow.spanType") == "AGENT":
        return text(root, "name")
    models = {model for span in spans if isinstance(model := attribute(span, "mlflow.llm.model"), str)}
    return models.pop() if len(models) == 1 else text(root, "name")


def time_of(info: Json) -> "datetime | None":
    """When it was asked: ISO 8601, or milliseconds since 1970."""
    asked = info.get("request_time", info.get("timestamp_ms"))
    if isinstance(asked, str):
        return moment(asked, "request_time")[0]
    return since_epoch(asked, "request_time", per_second=1000)


def latency_of(info: Json) -> float | None:
    """Milliseconds: a number, or a duration as protobuf writes it in JSON, ``1.234s``."""
    duration = info.get("execution_duration")
    if isinstance(duration, str) and duration.endswith("s"):
        try:
            return number({"execution_duration": float(duration[:-1]) * 1000}, "execution_duration")
        except ValueError:
            raise MalformedError(f"execution_duration: expected seconds, found {shown(duration)}") from None
    return number(info, "execution_duration" if "execution_duration" in info else "execution_duration_ms")


def assessments_of(info: Json) -> list[Note]:
    """What was said of the trace; those that failed or were replaced say nothing."""
    notes = []
    for assessment in objects(info, "assessments"):
        value = said(assessment)
        if value is None or assessment.get("valid") is False:
            continue
        source = mapping_of(assessment, "source").get("source_type")
        at = assessment.get("create_time", assessment.get("create_time_ms"))
        made = moment(at, "create_time")[0] if isinstance(at, str) else since_epoch(at, "create_time", per_second=1000)
        name = optional_text(assessment, "assessment_name") or text(assessment, "name")
        notes.append(Note(name=name, value=value, source=SOURCES.get(str(source), "system"), timestamp=made))  # type: ignore[arg-type]
    return notes


def said(assessment: Json) -> Value | None:
    """The value of a feedback; expectations are what should have been, not what was."""
    feedback = mapping_of(assessment, "feedback")
    value = feedback.get("value")
    if feedback.get("error") or not isinstance(value, bool | int | float | str):
        return None
    return value
