"""What agents of each kind can be asked for besides an answer: a hard limit of routing."""

from collections.abc import Sequence

from flywheel.arbiter.settings import AgentKind
from flywheel.tasks.source import AgentTask

CHAT = "chat"
"""The need of a task in the chat dialect: an agent that can take part in any conversation."""
UNKNOWN_ANSWER = "an answer that nobody published"
"""The need of a task that is no benchmark's and no environment's: an agent that finds the answer itself."""
LOCAL = frozenset({CHAT, UNKNOWN_ANSWER, "temperature", "max_tokens", "max_completion_tokens", "stop", "seed"})
HONOURED: dict[AgentKind, frozenset[str] | None] = {
    "reference": frozenset(),
    "local": LOCAL,
    "openai": None,
    "python": None,
    "command": None,
}
"""By kind of agent; None: everything. Functions and commands are handed all of it, and what comes back is checked."""


def needs_of(task: AgentTask) -> tuple[str, ...]:
    """What an agent has to be able to do for this task besides answering it."""
    return (*((CHAT,) if task.dialect == "chat" else ()), *task.options.needed)


def not_honoured(kind: AgentKind, needs: Sequence[str]) -> tuple[str, ...]:
    """Those of the needs that no agent of this kind can meet."""
    honoured = HONOURED[kind]
    return () if honoured is None else tuple(name for name in needs if name not in honoured)
