"""tau2-bench's results: customer service with a simulated user, who may call tools himself (Barres et al., 2025).

Times have no zone. Tokens are those of the agent's messages alone. A cost of 0 beside tokens is a price that was not
known. Files name the model that they were started with, which need not be the agent that was submitted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from flywheel.collection.importers.conversation import Conversation, openai_calls
from flywheel.collection.importers.fields import (
    MalformedError,
    count,
    identity,
    mapping_of,
    moment,
    number,
    objects,
    optional_text,
    text,
)
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run
from flywheel.collection.importers.per_record import attempt
from flywheel.collection.json_records import records

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

ENDED_WELL = frozenset({"user_stop", "agent_stop"})
AGENT = "assistant"


class Tau2:
    """A document of results: what was run, and a simulation for each try of each task."""

    name = "tau2"
    rewarded = True
    lists = ("simulations",)

    def recognizes(self, opening: Opening) -> bool:
        """By info and the agent in it; the simulations may lie beyond the opening."""
        return not opening.listed and "info" in opening.keys and b'"agent_info"' in opening.head

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's simulations."""
        info: Json = {}
        for record in records(document, *self.lists):
            if isinstance(record, Rejected):
                yield record
            elif record.key:
                about = info
                yield attempt(lambda one: run_of(one.value, about), record)  # noqa: B023 - called at once
            else:
                found = record.value.get("info")
                info = found if isinstance(found, dict) else {}


def run_of(value: Json, info: Json) -> Run:
    """One simulation.

    Raises:
        MalformedError: a field is of another type.
    """
    agent, domain = mapping_of(info, "agent_info"), domain_of(info)
    started_at, zoneless = moment(value.get("start_time") or value.get("timestamp"), "start_time")
    seconds = number(value, "duration")
    rewards = mapping_of(value, "reward_info")
    reward = number(rewards, "reward", least=None)
    if reward is not None and not 0 <= reward <= 1:
        raise MalformedError(f"reward_info.reward: expected 0 to 1, found {reward:g}")
    conversation, tokens, output_tokens = conversation_of(value)
    first_action_ms = first_action(value, started_at)
    ending = optional_text(value, "termination_reason")
    return Run(
        key=identity(value, "id"),
        agent_id=f"{text(agent, 'implementation')}/{text(agent, 'llm')}",
        category=domain,
        source=f"tau2:{domain}/{identity(value, 'task_id')}",
        description=conversation.first("user"),
        started_at=started_at,
        latency_ms=seconds * 1000 if seconds else None,
        first_action_ms=first_action_ms if seconds and (first_action_ms or 0) <= seconds * 1000 else None,
        tokens_used=tokens,
        output_tokens=output_tokens,
        cost_usd=number(value, "agent_cost") or None,
        messages=tuple(conversation.messages),
        tools=conversation.tools,
        reward=reward,
        success=None if reward is None else reward >= 1,
        failure_reason=ending if ending not in ENDED_WELL else f"reward {reward}",
        derived=rules_of(conversation, zoneless=zoneless, tokens=tokens, acted=first_action_ms is not None),
    )


def rules_of(conversation: Conversation, *, zoneless: bool, tokens: int | None, acted: bool) -> tuple[str, ...]:
    """Names of the rules that a simulation was read by."""
    rules = [*conversation.rules]
    rules += ["zoneless-time-as-utc"] if zoneless else []
    rules += ["tokens-summed-over-messages"] if tokens is not None else []
    return (*rules, *(["first-action-of-message-times"] if acted else []))


def domain_of(info: Json) -> str:
    """The domain; without a user it is another task."""
    domain = text(mapping_of(info, "environment_info"), "domain_name")
    solo = str(mapping_of(info, "agent_info").get("implementation")).endswith("_solo")
    return f"{domain}-solo" if solo else domain


def conversation_of(value: Json) -> tuple[Conversation, int | None, int | None]:
    """The messages, and the tokens of the agent's: all, and those it wrote; None where no message tells."""
    conversation = Conversation()
    tokens = output_tokens = None
    for place, message in enumerate(objects(value, "messages")):
        try:
            add(conversation, message)
            usage = mapping_of(message, "usage")
            if message.get("role") == AGENT and usage:
                written = count(usage, "completion_tokens") or 0
                tokens = (tokens or 0) + written + (count(usage, "prompt_tokens") or 0)
                output_tokens = (output_tokens or 0) + written
        except MalformedError as error:
            raise MalformedError(f"messages[{place}].{error}") from None
    conversation.end_at_stop()
    return conversation, tokens, output_tokens


def add(conversation: Conversation, message: Json) -> None:
    """Add one message; one of tools may hold the results of several calls."""
    role = message.get("role")
    if role != "tool":
        conversation.say(role, message.get("content"), calls=openai_calls(message), counted=role == AGENT)
        return
    for result in objects(message, "tool_messages") or [message]:
        call_id = optional_text(result, "id")
        conversation.say(role, result.get("content"), call_id=call_id)
        if result.get("requestor", AGENT) == AGENT:
            conversation.judge(call_id, None, failed=result.get("error") is True)


def first_action(value: Json, started_at: datetime | None) -> float | None:
    """Milliseconds to the agent's first call of a tool; None where it made none or messages have no times."""
    for message in objects(value, "messages"):
        if message.get("role") == AGENT and message.get("tool_calls"):
            at, _ = moment(message.get("timestamp"), "timestamp")
            if at is None or started_at is None or at < started_at:
                return None
            return (at - started_at).total_seconds() * 1000
    return None
