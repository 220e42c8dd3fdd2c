"""tau-bench's results (Yao et al., 2024), the version before tau2: a list of tries, without agent, time, or tokens.

Which agent and which domain it was stands in the name of the file alone.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from flywheel.collection.importers.conversation import openai_conversation
from flywheel.collection.importers.fields import MalformedError, identity, mapping_of, number, optional_text
from flywheel.collection.importers.interface import Opening, Rejected, Run
from flywheel.collection.importers.per_record import each_run
from flywheel.collection.json_records import Record

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

KEYS = frozenset({"task_id", "reward", "traj"})
DOMAINS = ("airline", "retail")


class TauBench:
    """A list of tries."""

    name = "tau-bench"
    rewarded = True
    lists = ()

    def recognizes(self, opening: Opening) -> bool:
        """By reward and trajectory; these may lie beyond the opening, behind a long task."""
        return opening.keys >= KEYS or (opening.listed and opening.keys >= {"task_id", "reward", "info"})

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The document's tries."""
        stem = re.split(r"[!/]", document.name)[-1].partition(".json")[0]
        return each_run(document, lambda record: run_of(record, stem))


def run_of(record: Record, stem: str) -> Run:
    """One try.

    Raises:
        MalformedError: a field is of another type.
    """
    value = record.value
    reward = number(value, "reward")
    if reward is not None and reward > 1:
        raise MalformedError(f"reward: expected 0 to 1, found {reward:g}")
    task = identity(value, "task_id")
    domain = next((name for name in DOMAINS if name in stem.lower()), "unknown-domain")
    conversation = openai_conversation(value.get("traj"))
    conversation.end_at_stop()
    instruction = optional_text(mapping_of(mapping_of(value, "info"), "task"), "instruction")
    return Run(
        key=blake2b(stem.encode() + b"\0" + record.raw, digest_size=12).hexdigest(),
        agent_id=stem,
        category=domain,
        source=f"tau-bench:{domain}/{task}",
        description=instruction or conversation.first("user"),
        messages=tuple(conversation.messages),
        tools=conversation.tools,
        reward=reward,
        success=None if reward is None else reward >= 1,
        failure_reason=f"reward {reward}",
        derived=("agent-and-domain-of-file-name", *conversation.rules),
    )
