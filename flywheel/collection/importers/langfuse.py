"""Langfuse's exports: observations with their scores, in the current layout and in the one of traces before it.

Observations of a trace and their scores are rows of their own, in files of their own, in no order: they are gathered by
trace. Latency is milliseconds in exports of integrations made before 2026-04-01 and seconds in later ones:
where start and end of an observation are given, they say it, and its latency is not read.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from flywheel.collection.importers.conversation import TOOL_DEFINITIONS, Conversation, openai_conversation
from flywheel.collection.importers.fields import (
    MalformedError,
    an_object,
    count,
    expected,
    milliseconds,
    moment,
    number,
    optional_text,
)
from flywheel.collection.importers.interface import Group, Json, Note, Opening, Rejected, Row, Run, Value
from flywheel.collection.importers.per_record import NOT_OF_FORMAT
from flywheel.collection.importers.tool_spans import ToolSpan, first_action_ms, tallied
from flywheel.collection.json_records import records

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

OBSERVATION, SCORE, TRACE = "observation", "score", "trace"
OBSERVATION_KEYS = frozenset({"trace_id", "type", "start_time"})
SCORE_KEYS = frozenset({"trace_id", "data_type", "value", "name"})
decode_json = msgspec.json.Decoder().decode


class Langfuse:
    """Rows of observations, traces and scores; those of one trace make a run."""

    name = "langfuse"
    rewarded = False

    def recognizes(self, opening: Opening) -> bool:
        """By the keys of an observation or a score, in either spelling."""
        keys = frozenset(map(snake, opening.keys))
        return keys >= OBSERVATION_KEYS or keys >= SCORE_KEYS or {"trace", "observations"} <= keys

    def rows(self, document: "Document") -> Iterator[Row | Rejected]:
        """The document's observations, traces and scores."""
        for record in records(document):
            if isinstance(record, Rejected):
                yield record
                continue
            try:
                yield from rows_of({snake(name): value for name, value in record.value.items()}, record.line)
            except MalformedError as error:
                yield Rejected(reason=NOT_OF_FORMAT, detail=str(error), line=record.line, item=record.item)

    def outcome(self, group: Group) -> Run | Rejected:
        """The run of one trace."""
        rows = Rows()
        for kind, raw in group.rows:
            value = decode_json(raw)
            if kind == TRACE:
                rows.trace = value
            else:
                (rows.observations if kind == OBSERVATION else rows.scores).append(value)
        if not rows.observations:
            detail = "no observation of the trace came; give observations and scores together"
            return Rejected(reason="no observations", detail=detail, line=group.line, item=group.key)
        try:
            return run_of(group.key, rows)
        except MalformedError as error:
            return Rejected(reason=NOT_OF_FORMAT, detail=str(error), line=group.line, item=group.key)


def rows_of(value: Json, line: int) -> list[Row]:
    """The rows of a record: a trace of the older layout holds its observations and scores.

    Raises:
        MalformedError: it names no trace, or what it holds is no list.
    """
    if "trace" in value and "observations" in value:
        trace = named(an_object(value["trace"], "trace"))
        value = {**trace, "observations": value["observations"], "scores": value.get("scores", ())}
    if "data_type" in value and "value" in value:
        kind, trace_id = SCORE, value.get("trace_id")
    elif "trace_id" in value and "type" in value:
        kind, trace_id = OBSERVATION, value["trace_id"]
    else:
        kind, trace_id = TRACE, value.get("id")
    if not isinstance(trace_id, str) or not trace_id:
        raise expected("the id of a trace", "trace_id", trace_id)
    inner = {name: value.pop(name, None) or [] for name in ("observations", "scores")} if kind == TRACE else {}
    found = [row_of(value, trace_id, kind, line)]
    for name, of_kind in (("observations", OBSERVATION), ("scores", SCORE)):
        rows = inner.get(name, [])
        if not isinstance(rows, list | tuple):
            raise expected("a list", name, rows)
        # Older exports name the observations of a trace by id alone.
        found += [row_of(named(row), trace_id, of_kind, line) for row in rows if isinstance(row, dict)]
    return found


def row_of(value: Json, trace_id: str, kind: str, line: int) -> Row:
    """A row of a trace, by its start."""
    at = str(value.get("start_time") or "")
    return Row(key=trace_id, kind=kind, at=at, line=line, raw=msgspec.json.encode(value))


def named(value: Json) -> Json:
    """An object with its keys in snake case."""
    return {snake(name): one for name, one in value.items()}


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    """``traceId`` as ``trace_id``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


class Rows(msgspec.Struct):
    """What there is of one trace."""

    trace: Json = {}
    observations: list[Json] = []
    scores: list[Json] = []


def run_of(trace_id: str, rows: Rows) -> Run:
    """The run of the rows of a trace.

    Raises:
        MalformedError: a field is of another type.
    """
    observations = rows.observations
    starts = [at for row in observations if (at := moment(row.get("start_time"), "start_time")[0])]
    ends = [at for row in observations if (at := moment(row.get("end_time"), "end_time")[0])]
    started = min(starts, default=None) or moment(rows.trace.get("timestamp"), "timestamp")[0]
    latency_ms = milliseconds(started, max(ends, default=None))
    conversation, rule = conversation_of(rows)
    calls = tool_spans(observations, started)
    tokens, output = tokens_of(observations)
    errors = [row for row in observations if row.get("level") == "ERROR"]
    defined = any(row.get("tool_definitions") for row in observations)
    rules = (
        *(*conversation.rules, rule),
        *((TOOL_DEFINITIONS,) if defined else ()),
        *(("latency-between-observations",) if latency_ms else ()),
    )
    costs = [cost for row in observations if (cost := number(row, "total_cost")) is not None]
    return Run(
        key=trace_id,
        agent_id=agent_of(rows),
        category=root_of(rows).get("name") or "",
        description=conversation.first("user"),
        started_at=started,
        latency_ms=latency_ms or None,
        first_action_ms=first_action_ms(calls, latency_ms=latency_ms or None),
        tokens_used=tokens,
        output_tokens=output,
        cost_usd=sum(costs) if costs else None,
        messages=tuple(conversation.messages),
        # Without observations of tools the messages' calls stand.
        tools=tallied(calls) or conversation.tools,
        failure_reason=optional_text(errors[-1], "status_message") if errors else None,
        scores=scores_of(rows.scores),
        notes=notes_of(rows.scores),
        derived=rules,
    )


def root_of(rows: Rows) -> Json:
    """The trace, or the observation that has no parent."""
    roots = [row for row in rows.observations if not row.get("parent_observation_id")]
    return rows.trace or (roots or rows.observations)[0]


def agent_of(rows: Rows) -> str:
    """The name of the observation of an agent, of the trace, or of its root, else the model."""
    agents = [row for row in rows.observations if row.get("type") == "AGENT"]
    for value, key in ((agents[0] if agents else {}, "name"), (root_of(rows), "trace_name"), (root_of(rows), "name")):
        if name := optional_text(value, key):
            return name
    models = (optional_text(row, "provided_model_name") for row in rows.observations)
    return next((model for model in models if model), "unnamed-agent")


def parsed(value: Any) -> Any:
    """An input or output, which may be JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return value


def conversation_of(rows: Rows) -> tuple[Conversation, str]:
    """The messages of the last generation that has some, with its answer; else what the trace was given and gave."""
    for row in reversed(rows.observations):
        given = parsed(row.get("input"))
        messages = given.get("messages") if isinstance(given, dict) else given
        if row.get("type") == "GENERATION" and isinstance(messages, list) and messages:
            conversation = openai_conversation(messages)
            say(conversation, "assistant", parsed(row.get("output")))
            return conversation, "conversation-of-last-generation"
    conversation, root = Conversation(), root_of(rows)
    say(conversation, "user", parsed(root.get("input")))
    say(conversation, "assistant", parsed(root.get("output")))
    return conversation, "conversation-of-root"


def say(conversation: Conversation, role: str, value: Any) -> None:
    """Add what is a message, messages, or anything else as text."""
    if value is None:
        return
    if isinstance(value, dict) and "role" in value:
        openai_conversation([value], conversation)
    elif isinstance(value, list) and value and all(isinstance(one, dict) and "role" in one for one in value):
        openai_conversation(value, conversation)
    else:
        conversation.say(role, value if isinstance(value, str) else msgspec.json.encode(value).decode())


def tool_spans(observations: list[Json], began: datetime | None) -> list[ToolSpan]:
    """The observations of tools."""
    found = []
    for row in observations:
        if row.get("type") == "TOOL":
            start, end = (moment(row.get(name), name)[0] for name in ("start_time", "end_time"))
            found.append(
                ToolSpan(
                    name=optional_text(row, "name") or "unnamed-tool",
                    failed=row.get("level") == "ERROR",
                    after_ms=milliseconds(began, start),
                    took_ms=milliseconds(start, end),
                )
            )
    return found


def tokens_of(observations: list[Json]) -> tuple[int | None, int | None]:
    """All tokens and those written, summed over the generations; None where nobody counted."""
    tokens: int | None = None
    output: int | None = None
    for row in observations:
        usage = parsed(row.get("usage_details") or row.get("usage"))
        if not isinstance(usage, dict) or row.get("type") != "GENERATION":
            continue
        written, given, both = count(usage, "output"), count(usage, "input"), count(usage, "total")
        if both is None and (written is not None or given is not None):
            both = (written or 0) + (given or 0)
        tokens = tokens if both is None else (tokens or 0) + both
        output = output if written is None else (output or 0) + written
    return tokens, output


def value_of(score: Json) -> Value | None:
    """What a score says. The value of a category is an index: its name is said by string_value."""
    kind, value, words = score.get("data_type"), score.get("value"), optional_text(score, "string_value")
    if kind in {"CATEGORICAL", "TEXT"}:
        return words if words is not None else (value if isinstance(value, str) else None)
    if kind == "BOOLEAN":
        return bool(value) if isinstance(value, bool | int | float) else None
    return number(score, "value", least=None)


def scores_of(scores: list[Json]) -> dict[str, Value]:
    """Scores by name; those of the whole trace go before those of one observation."""
    found: dict[str, Value] = {}
    for score in sorted(scores, key=lambda score: not score.get("observation_id")):
        value, name = value_of(score), optional_text(score, "name")
        if name and value is not None:
            found[name] = value
    return found


def notes_of(scores: list[Json]) -> tuple[Note, ...]:
    """What people said of the trace: annotations."""
    return tuple(
        Note(name=name, value=value, source="reviewer", timestamp=moment(score.get("timestamp"), "timestamp")[0])
        for score in scores
        if score.get("source") == "ANNOTATION"
        and (name := optional_text(score, "name"))
        and (value := value_of(score)) is not None
    )
