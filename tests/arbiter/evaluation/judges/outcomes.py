"""Labelled answers out of real runs: the benchmark's own deterministic check of the outcome is the label."""

from pathlib import Path
from typing import Any

import msgspec

from flywheel.arbiter.evaluation.judges.material import conversation
from flywheel.records import Message
from tests.collection.importers.imports import SHARED, logs_of, request

FILES = {
    "agentdojo": "trajectories/agentdojo/banking.none.jsonl.gz",
    "tau2": "trajectories/tau2/sierra/gpt-4.1_retail_defautl_gpt-4.1_1trials.json.gz",
}
OUTCOMES = {"agentdojo": (357, 21), "tau2": (40, 40)}
"""Rows and groups (tasks) of each."""
__all__ = ["OUTCOMES", "SHARED", "labelled_outcomes"]


def labelled_outcomes(name: str, folder: Path) -> list[dict[str, Any]]:
    """Lines of a labelled file: what was asked, all that the agent said and did, and whether the outcome was right."""
    found = logs_of(SHARED / FILES[name], folder / "segments", request())
    sources = {log.task_id: log.source or log.task_id for log in found.routing}
    right = {log.task_id: log.passed_all_mandatory for log in found.evaluations}
    lines = []
    for log in found.executions:
        asked, done = divided(log.messages)
        lines.append(
            {
                "id": log.task_id,
                "group": sources[log.task_id],
                "task": msgspec.to_builtins(asked),
                "answer": conversation(done),
                "labels": {"resolved": right[log.task_id]},
            }
        )
    return lines


def divided(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was asked first, and what came after."""
    place = next((n for n, message in enumerate(messages) if message.role == "assistant"), len(messages))
    return messages[:place], messages[place:]
