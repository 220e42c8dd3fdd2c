"""Conversations in the manner of OpenAI's API: lines of messages, as for fine-tuning, and logs of requests.

A line of messages has no agent, time, tokens or score; a logged request has the first three. Scores are read from
wherever a mapping points: ``metadata.rating``. Latency is taken from fields whose names carry their unit.
"""

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from flywheel.collection.importers.conversation import TOOL_DEFINITIONS, Conversation, openai_conversation
from flywheel.collection.importers.fields import (
    count,
    expected,
    mapping_of,
    moment,
    number,
    objects,
    optional_text,
    since_epoch,
)
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run, Value
from flywheel.collection.importers.per_record import each_run
from flywheel.collection.json_records import Record

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

REQUEST_KEYS = frozenset({"request", "response"})
UNNAMED = "unnamed-agent"
MILLISECONDS = {"latency_ms": 1.0, "duration_ms": 1.0, "latency_s": 1000.0, "duration_s": 1000.0}
MILLISECONDS_FROM = 1e11
"""Seconds since 1970 reach this in the year 5138; what is larger is milliseconds."""
DEEPEST = 8
MOST_SCORES = 1000


class OpenAiChat:
    """One conversation or request a line."""

    name = "openai-chat"
    rewarded = False

    def recognizes(self, opening: Opening) -> bool:
        """By messages, or a request with its response."""
        return "messages" in opening.keys or opening.keys >= REQUEST_KEYS

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's conversations."""
        return each_run(document, run_of)


def run_of(record: Record) -> Run | Rejected:
    """One conversation.

    Raises:
        MalformedError: a field is of another type.
    """
    value = record.value
    request, response = mapping_of(value, "request"), mapping_of(value, "response")
    conversation = openai_conversation((request or value).get("messages"))
    finish = answered(conversation, response)
    if not conversation.steps:
        return Rejected(reason="no answer", detail="no message is the assistant's")
    usage = mapping_of(response or value, "usage")
    prompt, output = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    known = [tokens for tokens in (prompt, output) if tokens is not None]
    details = mapping_of(usage, "completion_tokens_details")
    model = optional_text(response, "model") or optional_text(request or value, "model")
    started_at, zoneless = time_of(value, response)
    defined = (request or value).get("tools") or (request or value).get("functions")
    rules = [*conversation.rules, *((TOOL_DEFINITIONS,) if defined else ()), *(() if model else ("agent-not-named",))]
    return Run(
        key=blake2b(record.raw, digest_size=12).hexdigest(),
        agent_id=model or UNNAMED,
        category=optional_text(value, "workload_id") or "",
        description=conversation.first("user"),
        started_at=started_at,
        latency_ms=latency_of(value),
        tokens_used=count(usage, "total_tokens") if "total_tokens" in usage else (sum(known) if known else None),
        output_tokens=output,
        thinking_tokens=count(details, "reasoning_tokens"),
        messages=tuple(conversation.messages),
        tools=conversation.tools,
        failure_reason=finish,
        scores=scores_in(value),
        derived=(*rules, *(("zoneless-time-as-utc",) if zoneless else ())),
    )


def answered(conversation: Conversation, response: Json) -> str | None:
    """Add the response's first choice; returns what ended it, where that was no answer."""
    for choice in objects(response, "choices")[:1]:
        openai_conversation([choice.get("message")], conversation)
        finish = optional_text(choice, "finish_reason")
        return None if finish in {None, "stop", "tool_calls", "function_call"} else finish
    return None


def time_of(value: Json, response: Json) -> tuple[datetime | None, bool]:
    """When it was asked, and whether the time had no zone."""
    stamp = value.get("timestamp", value.get("created_at", value.get("created", response.get("created"))))
    if isinstance(stamp, str) or stamp is None:
        return moment(stamp, "timestamp")
    if isinstance(stamp, bool) or not isinstance(stamp, int | float):
        raise expected("a time", "timestamp", stamp)
    return since_epoch(stamp, "timestamp", per_second=1000 if abs(stamp) >= MILLISECONDS_FROM else 1), False


def latency_of(value: Json) -> float | None:
    """Milliseconds, where a field says so by its name."""
    for name, factor in MILLISECONDS.items():
        if (amount := number(value, name)) is not None:
            return amount * factor or None
    return None


def scores_in(value: Json) -> dict[str, Value]:
    """Every number, truth and text beside the conversation, by its path; a mapping names one of them."""
    scores: dict[str, Value] = {}

    def collect(inner: Json, path: str, depth: int) -> None:
        for name, one in inner.items():
            here = f"{path}.{name}" if path else name
            if isinstance(one, dict) and depth < DEEPEST:
                collect(one, here, depth + 1)
            elif isinstance(one, bool | int | float | str) and len(scores) < MOST_SCORES:
                scores[here] = one

    collect({name: one for name, one in value.items() if name not in {"messages", "request", "tools"}}, "", 0)
    return scores
