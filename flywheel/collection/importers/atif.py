"""ATIF, the Agent Trajectory Interchange Format of Harbor, versions 1.4 to 1.8.

It has token ids and log-probabilities, and no reward: that is in another file. Token ids are counted and left out: they
spell the text that anonymizing replaces, so that no pool could hold both.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from flywheel.collection.importers.conversation import TOOL_DEFINITIONS, Conversation, call_of
from flywheel.collection.importers.fields import (
    MalformedError,
    count,
    mapping_of,
    milliseconds,
    moment,
    number,
    objects,
    optional_text,
    text,
)
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run
from flywheel.collection.importers.openai_chat import scores_in
from flywheel.collection.importers.per_record import each_run
from flywheel.collection.json_records import Record
from flywheel.records import ToolCall

if TYPE_CHECKING:
    from datetime import datetime

    from flywheel.collection.documents import Document

VERSION = re.compile(r"ATIF-v1\.([4-8])(?:\.\d+)?")
ROLES = {"system": "system", "user": "user", "agent": "assistant"}


class Atif:
    """One trajectory a document or a line."""

    name = "atif"
    rewarded = False
    lists = ()

    def recognizes(self, opening: Opening) -> bool:
        """By the schema's version, or agent and steps beside one."""
        return "schema_version" in opening.keys and (b'"ATIF-' in opening.head or opening.keys >= {"agent", "steps"})

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's trajectories."""
        return each_run(document, run_of)


def run_of(record: Record) -> Run | Rejected:
    """One trajectory. Those of subagents are part of it, and of no run of their own.

    Raises:
        MalformedError: a field is of another type.
    """
    value = record.value
    version = text(value, "schema_version")
    if VERSION.fullmatch(version) is None:
        return Rejected(reason="unknown version", detail=f"{version} is none of ATIF-v1.4 to ATIF-v1.8")
    agent, steps = mapping_of(value, "agent"), objects(value, "steps")
    if not steps:
        raise MalformedError("steps: expected at least one, found none")
    conversation = conversation_of(steps)
    times, zoneless = times_of(steps)
    metrics, tokens, output = tokens_of(value, steps)
    acted = next((at for at, step in zip(times, steps, strict=True) if step.get("tool_calls")), None)
    started, ended = next((at for at in times if at), None), next((at for at in reversed(times) if at), None)
    rules = [*conversation.rules, *([TOOL_DEFINITIONS] if agent.get("tool_definitions") else [])]
    rules += ["latency-between-first-and-last-step"] if started and ended and ended > started else []
    rules += ["zoneless-time-as-utc"] if zoneless else []
    name, model = text(agent, "name"), optional_text(agent, "model_name")
    return Run(
        key=optional_text(value, "trajectory_id")
        or optional_text(value, "session_id")
        or blake2b(record.raw, digest_size=12).hexdigest(),
        agent_id=f"{name}/{model}" if model else name,
        description=conversation.first("user"),
        started_at=started,
        latency_ms=milliseconds(started, ended) or None,
        first_action_ms=milliseconds(started, acted) if milliseconds(started, ended) else None,
        tokens_used=tokens,
        output_tokens=output,
        cost_usd=number(metrics, "total_cost_usd"),
        messages=tuple(conversation.messages),
        tools=conversation.tools,
        scores=scores_in({"extra": mapping_of(value, "extra"), "final_metrics": metrics}),
        derived=tuple(rules),
        token_ids=has_token_ids(steps),
    )


def conversation_of(steps: list[Json]) -> Conversation:
    """The messages; what an agent observed are messages of its tools."""
    conversation = Conversation()
    for number_of, step in enumerate(steps):
        try:
            calls = calls_of(step) if "tool_calls" in step else ()
            conversation.say(ROLES.get(text(step, "source")), step.get("message"), calls=calls)
            if step.get("reasoning_content"):
                conversation.reasoned = True
            if "observation" in step:
                for result in objects(mapping_of(step, "observation"), "results"):
                    conversation.say("tool", observed(result), call_id=optional_text(result, "source_call_id"))
        except MalformedError as error:
            raise MalformedError(f"steps[{number_of}].{error}") from None
    return conversation


def calls_of(step: Json) -> tuple[ToolCall, ...]:
    """The calls of a step."""
    return tuple(
        call_of(call.get("function_name"), call.get("arguments"), call.get("tool_call_id"))
        for call in objects(step, "tool_calls")
    )


def observed(result: Json) -> Any:
    """What a result says; one that only points to a subagent's trajectory says so."""
    content = result.get("content")
    return "[subagent]" if content is None and result.get("subagent_trajectory_ref") else content


def times_of(steps: list[Json]) -> "tuple[list[datetime | None], bool]":
    """When each step was, and whether one had no zone."""
    found = [
        moment(step["timestamp"], f"steps[{place}].timestamp") if "timestamp" in step else (None, False)
        for place, step in enumerate(steps)
    ]
    return [at for at, _ in found], any(zoneless for _, zoneless in found)


def tokens_of(value: Json, steps: list[Json]) -> tuple[Json, int | None, int | None]:
    """The final metrics, all tokens, and those written: of the final metrics, else summed over the steps."""
    final = mapping_of(value, "final_metrics")
    prompt, output = count(final, "total_prompt_tokens"), count(final, "total_completion_tokens")
    if prompt is None and output is None:
        each = [mapping_of(step, "metrics") for step in steps if "metrics" in step]
        prompts = [amount for one in each if (amount := count(one, "prompt_tokens")) is not None]
        outputs = [amount for one in each if (amount := count(one, "completion_tokens")) is not None]
        prompt, output = sum(prompts) if prompts else None, sum(outputs) if outputs else None
    known = [tokens for tokens in (prompt, output) if tokens is not None]
    return final, sum(known) if known else None, output


def has_token_ids(steps: list[Json]) -> bool:
    """Whether every step that the agent wrote has token ids and a log-probability for each."""
    written = [
        mapping_of(step, "metrics") if "metrics" in step else {} for step in steps if step.get("source") == "agent"
    ]
    return bool(written) and all(paired(metrics) for metrics in written)


def paired(metrics: Json) -> bool:
    """Whether a step's token ids and log-probabilities are as many."""
    ids, logprobs = metrics.get("completion_token_ids"), metrics.get("logprobs")
    return isinstance(ids, list) and isinstance(logprobs, list) and len(ids) == len(logprobs) > 0
