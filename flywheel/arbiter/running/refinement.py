"""Refinement: whether an agent is asked again, and with which words. Pure."""

from collections.abc import Sequence

import msgspec

from flywheel.records import Message
from flywheel.tasks.source import AgentTask

WORTHWHILE_GAIN = 0.05
"""A gain of quality of this much makes another iteration fully worth it; none makes it worth nothing."""


def halt_score(qualities: Sequence[float], *, tokens: int, remaining: int) -> float:
    """How much speaks for stopping, 0–1: 1 − (room to improve) · (share of a worthwhile gain) · (affordable share).

    So it is the quality itself after a first answer that can be afforded again, and 1 where the last iteration won
    nothing or no token is left.

    Args:
        qualities: of the iterations so far, each 0–1; at least one.
        tokens: that the last iteration took, taken for what the next one will.
        remaining: tokens that are left.
    """
    room = 1.0 - max(qualities)
    momentum = 1.0
    if len(qualities) > 1:
        gain = qualities[-1] - max(qualities[:-1])
        momentum = min(1.0, max(0.0, gain / WORTHWHILE_GAIN))
    affordable = min(1.0, max(0.0, remaining / tokens)) if tokens else float(remaining > 0)
    return 1.0 - room * momentum * affordable


def with_feedback(task: AgentTask, answer: str, feedback: str) -> AgentTask:
    """The task for the next turn: the conversation so far, the answer, and what was said of it."""
    more = Message(role="assistant", content=answer), Message(role="user", content=feedback)
    return msgspec.structs.replace(task, question=(*task.question, *more))
