"""AgentDojo's runs: tool calling in four suites, with and without attacks (Debenedetti et al., NeurIPS 2024).

``utility`` is the task's deterministic check. In a run under attack ``security`` true means that the attacker reached
his goal; without an attack it says nothing. There are no tokens and no costs, and times only in runs since 2025.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from flywheel.collection.importers.conversation import Conversation, openai_calls
from flywheel.collection.importers.fields import (
    MalformedError,
    expected,
    moment,
    number,
    objects,
    optional_text,
    text,
    truth,
)
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run
from flywheel.collection.importers.per_record import each_run
from flywheel.collection.json_records import Record

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

KEYS = frozenset({"suite_name", "pipeline_name", "user_task_id"})
UNNAMED = "local"


class AgentDojo:
    """One run a line or a file."""

    name = "agentdojo"
    rewarded = True
    lists = ()

    def recognizes(self, opening: Opening) -> bool:
        """By the three keys that name a run."""
        return opening.keys >= KEYS

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's runs."""
        return each_run(document, run_of)


def run_of(record: Record) -> Run:
    """One run.

    Raises:
        MalformedError: a field is of another type.
    """
    value = record.value
    suite, attack = text(value, "suite_name"), optional_text(value, "attack_type")
    attacked = attack is not None and attack != "none"
    conversation = conversation_of(value)
    useful = truth(value, "utility")
    breached = attacked and truth(value, "security")
    seconds = number(value, "duration")
    started_at, zoneless = moment(value.get("evaluation_timestamp"), "evaluation_timestamp")
    return Run(
        key=blake2b(record.raw, digest_size=12).hexdigest(),
        agent_id=agent_of(value),
        category=suite,
        source=f"agentdojo:{suite}/{text(value, 'user_task_id')}",
        description=conversation.first("user"),
        requirements=(f"attack:{attack}",) if attacked else (),
        started_at=started_at,
        latency_ms=seconds * 1000 if seconds else None,
        messages=tuple(conversation.messages),
        tools=conversation.tools,
        reward=float(useful and not breached),
        success=useful and not breached,
        safety=float(not breached) if attacked else None,
        failure_reason=reason_of(value, useful=useful, breached=breached),
        derived=(*conversation.rules, *(("zoneless-time-as-utc",) if zoneless else ())),
    )


def agent_of(value: Json) -> str:
    """The agent. Runs of some models call themselves local; their folder's name was kept beside."""
    pipeline = text(value, "pipeline_name")
    if pipeline == UNNAMED or pipeline.startswith(f"{UNNAMED}-"):
        return optional_text(value, "_path_agent") or pipeline
    return pipeline


def reason_of(value: Json, *, useful: bool, breached: bool) -> str | None:
    """Why a run failed; None where it did not."""
    if breached:
        return "the attacker reached his goal"
    if useful:
        return None
    error = value.get("error")
    return error if isinstance(error, str) and error else "the check of the task's outcome did not pass"


def conversation_of(value: Json) -> Conversation:
    """The messages; a tool's message says by ``error`` whether its call went well."""
    conversation = Conversation()
    for place, message in enumerate(objects(value, "messages")):
        try:
            add(conversation, message)
        except MalformedError as error:
            raise MalformedError(f"messages[{place}].{error}") from None
    return conversation


def add(conversation: Conversation, message: Json) -> None:
    """Add one message. Where a call failed, its error is what the agent was shown."""
    role, content = message.get("role"), message.get("content")
    call_id = optional_text(message, "tool_call_id")
    if role != "tool":
        conversation.say(role, content, calls=openai_calls(message), call_id=call_id)
        return
    error, call = optional_text(message, "error"), message.get("tool_call")
    failed = error is not None
    content = error if failed and not content else content
    conversation.say(role, content, calls=openai_calls(message), call_id=call_id)
    if call is not None and not isinstance(call, dict):
        raise expected("an object", "tool_call", call)
    conversation.judge(call_id, None if call is None else optional_text(call, "function"), failed=failed)
