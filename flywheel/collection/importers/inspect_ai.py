"""inspect-ai's logs: one JSON document, or a ``.eval`` file, a zip with a member for each sample.

The letters of its scorers, C, P, I and N, are 1, ½, 0 and 0, as its own metrics count them. What is a number has no
fixed range, and of several scorers none is the one: both need a mapping. Long texts may lie apart, as attachments.
"""

import re
import zipfile
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from flywheel.collection.documents import UNREADABLE, member_content, rejection_of
from flywheel.collection.importers import fields
from flywheel.collection.importers.conversation import Conversation, call_of
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run, ToolTally, Value
from flywheel.collection.importers.per_record import attempt
from flywheel.collection.importers.tool_spans import ToolSpan, first_action_ms, tallied
from flywheel.collection.json_records import MAX_RECORD_BYTES, Record, decoded, records, too_large

if TYPE_CHECKING:
    from datetime import datetime

    from flywheel.collection.documents import Document

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
HEADER, START, SAMPLES = "header.json", "_journal/start.json", re.compile(r"samples/.+\.json")
ATTACHED = re.compile(r"attachment://([0-9a-f]{32})")


class InspectAi:
    """One log a document; its samples are runs."""

    name = "inspect-ai"
    rewarded = True

    def recognizes(self, opening: Opening) -> bool:
        """By eval and status of a log, or the members of a ``.eval`` file."""
        if opening.members:
            return bool(opening.members & {HEADER, START})
        return not opening.listed and opening.keys >= {"version", "status", "eval"}

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The log's samples."""
        if document.opening.members:
            yield from zipped(document)
            return
        header: Json = {}
        for record in records(document, "samples"):
            if isinstance(record, Rejected):
                yield record
            elif record.key:
                yield sample_run(record, header)
            else:
                header = record.value


def zipped(document: "Document") -> Iterator[Run | Rejected]:
    """The samples of a ``.eval`` file."""
    with zipfile.ZipFile(document.stream) as archive:
        name = HEADER if HEADER in document.opening.members else START
        header = member(archive, archive.getinfo(name))
        if isinstance(header, Rejected):
            yield header
            return
        for info in archive.infolist():
            if SAMPLES.fullmatch(info.filename):
                record = member(archive, info)
                yield record if isinstance(record, Rejected) else sample_run(record, header.value)


def member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Record | Rejected:
    """One member of a ``.eval`` file, decoded."""
    try:
        with member_content(archive, info) as content:
            raw = content.read(MAX_RECORD_BYTES + 1)
    except UNREADABLE as error:
        rejected = rejection_of(error)
        return Rejected(reason=rejected.reason, detail=rejected.detail, item=info.filename)
    if len(raw) > MAX_RECORD_BYTES:
        return too_large(info.file_size, line=1, item=info.filename)
    return decoded(raw, line=1, item=info.filename)


def sample_run(record: Record, header: Json) -> Run | Rejected:
    """One sample's run, or why it has none."""
    return attempt(lambda one: run_of(one.value, header), record)


def run_of(sample: Json, header: Json) -> Run | Rejected:
    """One sample.

    Raises:
        MalformedError: a field is of another type.
    """
    about = fields.mapping_of(header, "eval")
    model, task = fields.text(about, "model"), fields.text(about, "task")
    sample_id, epoch = fields.identity(sample, "id"), fields.count(sample, "epoch") or 1
    conversation = conversation_of(sample)
    scores = scores_of(sample)
    reward = reward_of(scores)
    started_at, rule = started(sample, about)
    tokens, output, thinking, shared = tokens_of(sample, model)
    seconds = fields.number(sample, "total_time")
    latency_ms = seconds * 1000 if seconds else None
    calls = tool_spans(sample, None if rule else started_at)
    all_timed = len(calls) == sum(tally.calls for tally in conversation.tools.values())
    rules = [*conversation.rules, *([rule] if rule else []), *(["tokens-of-all-models"] if shared else [])]
    error = sample.get("error")
    return Run(
        key=fields.optional_text(sample, "uuid") or key_of(about, sample_id, epoch),
        agent_id=model,
        category=task,
        source=f"inspect-ai:{task}/{sample_id}",
        description=conversation.first("user"),
        started_at=started_at,
        latency_ms=latency_ms,
        first_action_ms=first_action_ms(calls, latency_ms=latency_ms) if all_timed else None,
        tokens_used=tokens,
        output_tokens=output,
        thinking_tokens=thinking,
        messages=tuple(conversation.messages),
        tools=timed(conversation.tools, calls),
        reward=reward,
        success=None if reward is None else reward >= 1,
        failure_reason=reason_of(error, sample.get("limit")),
        scores=scores,
        derived=tuple(rules),
    )


def key_of(about: Json, sample_id: str, epoch: int) -> str:
    """A name of a sample that has none of its own."""
    run = about.get("eval_id") or about.get("run_id") or ""
    parts = (str(run), str(about.get("created")), sample_id, str(epoch))
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def reason_of(error: Any, limit: Any) -> str | None:
    """Why a sample ended badly, where it did."""
    if isinstance(error, dict):
        return str(error.get("message") or "error")[:500]
    if isinstance(limit, dict):
        return f"the limit of {limit.get('type')} was reached"
    return None


def started(sample: Json, about: Json) -> tuple[Any, str]:
    """When a sample was started; logs before 2025 know only when the whole evaluation was."""
    at, _ = fields.moment(sample.get("started_at"), "started_at")
    if at is not None:
        return at, ""
    return fields.moment(about.get("created"), "eval.created")[0], "time-of-evaluation"


def conversation_of(sample: Json) -> Conversation:
    """The messages; a tool's message has an error where its call failed."""
    conversation, attachments = Conversation(), fields.mapping_of(sample, "attachments")
    for place, message in enumerate(fields.objects(sample, "messages")):
        try:
            add(conversation, message, attachments)
        except fields.MalformedError as error:
            raise fields.MalformedError(f"messages[{place}].{error}") from None
    return conversation


def add(conversation: Conversation, message: Json, attachments: Json) -> None:
    """Add one message, with its attached text in its place."""
    calls = tuple(
        call_of(call.get("function"), call.get("arguments"), call.get("id"))
        for call in fields.objects(message, "tool_calls")
    )
    content = attached(message.get("content"), attachments)
    error = message.get("error")
    if isinstance(error, dict) and not content:
        content = error.get("message")
    call_id = fields.optional_text(message, "tool_call_id")
    conversation.say(message.get("role"), content, calls=calls, call_id=call_id)
    if message.get("role") == "tool":
        conversation.judge(call_id, fields.optional_text(message, "function"), failed=error is not None)


def tool_spans(sample: Json, began: "datetime | None") -> list[ToolSpan]:
    """The calls of tools among the sample's events, which have times; logs may be without events."""
    found = []
    for event in fields.objects(sample, "events"):
        if event.get("event") == "tool":
            start, end = (fields.moment(event.get(name), name)[0] for name in ("timestamp", "completed"))
            found.append(
                ToolSpan(
                    name=fields.text(event, "function"),
                    failed=event.get("error") is not None,
                    after_ms=fields.milliseconds(began, start),
                    took_ms=fields.milliseconds(start, end),
                )
            )
    return found


def timed(tools: dict[str, ToolTally], calls: list[ToolSpan]) -> dict[str, ToolTally]:
    """The tally of the messages, with the mean latency of each tool all calls of which are among the events."""
    shown = tallied(calls)
    for name, tally in tools.items():
        if name in shown and shown[name].calls == tally.calls:
            tally.average_latency_ms = shown[name].average_latency_ms
    return tools


def attached(content: Any, attachments: Json) -> Any:
    """Content with its attachments in place."""
    if isinstance(content, str):
        return ATTACHED.sub(lambda found: str(attachments.get(found[1], found[0])), content)
    if isinstance(content, list):
        return [
            {**part, "text": attached(part.get("text"), attachments)}
            if isinstance(part, dict) and "text" in part
            else part
            for part in content
        ]
    return content


def scores_of(sample: Json) -> dict[str, Value]:
    """The value of each scorer; of one that gives several, each by its name."""
    found: dict[str, Value] = {}
    for name, score in fields.mapping_of(sample, "scores").items():
        value = score.get("value") if isinstance(score, dict) else score
        values = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        found |= {key: one for key, one in values.items() if isinstance(one, bool | int | float | str)}
    return found


def reward_of(scores: dict[str, Value]) -> float | None:
    """The reward where there is one scorer and it gives letters or truth; else a mapping must say."""
    if len(scores) != 1:
        return None
    (value,) = scores.values()
    if isinstance(value, bool):
        return float(value)
    return LETTERS.get(value) if isinstance(value, str) else None


def tokens_of(sample: Json, model: str) -> tuple[int | None, int | None, int | None, bool]:
    """All tokens, those written and those of reasoning, of the model that is evaluated, or else of all models."""
    usage = fields.mapping_of(sample, "model_usage")
    own = [usage[model]] if model in usage else list(usage.values())
    counted = [one for one in own if isinstance(one, dict)]
    if not counted:
        return None, None, None, False

    def total(key: str) -> int | None:
        amounts = [amount for one in counted if (amount := fields.count(one, key)) is not None]
        return sum(amounts) if amounts else None

    return total("total_tokens"), total("output_tokens"), total("reasoning_tokens"), model not in usage
