"""Thinking budgets: how many tokens agents may write on a task, when a task gets more, and what was overspent.

A budget decides whether an agent is asked once more. It never shortens an answer: what agents report is added up as it
is, and a budget that is overspent says by how much.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from flywheel.records import Complexity

THINKING_BUDGET_TOKENS = {Complexity.TRIVIAL: 500, Complexity.STANDARD: 2_000, Complexity.COMPLEX: 8_000}
"""Tokens per complexity, of SPEC section 7. The largest is the cap of every escalation."""
LEVELS = tuple(THINKING_BUDGET_TOKENS)
UNSURE = 0.5
"""An evaluator that trusts its verdict less than this gives reason to think longer."""
REMEMBERED = 10_000


class BudgetReport(Struct, frozen=True, kw_only=True):
    """What a task was granted and what it took, in tokens that agents wrote, reasoning included.

    ``level`` is that of the last grant; ``overspent`` is what ``spent`` is above ``granted``.
    """

    level: Complexity
    granted: int
    spent: int
    overspent: int
    escalations: int


class ThinkingBudget:
    """The budget of one task, over all agents and iterations it takes. For one thread."""

    def __init__(self, complexity: Complexity) -> None:
        self._level = LEVELS.index(complexity)
        self.spent = 0
        self.escalations = 0

    @property
    def granted(self) -> int:
        """Tokens of the present level."""
        return THINKING_BUDGET_TOKENS[LEVELS[self._level]]

    @property
    def remaining(self) -> int:
        """Granted less spent: below 0 where it is overspent."""
        return self.granted - self.spent

    @property
    def can_escalate(self) -> bool:
        """Whether there is a higher level."""
        return self._level + 1 < len(LEVELS)

    def spend(self, tokens: int) -> None:
        """Add what an agent reports.

        Raises:
            ValueError: it is less than nothing.
        """
        if tokens < 0:
            raise ValueError(f"an agent reports {tokens} tokens; a count cannot be below 0")
        self.spent += tokens

    def escalate(self) -> None:
        """Grant the next level.

        Raises:
            ValueError: there is none; see ``can_escalate``.
        """
        if not self.can_escalate:
            raise ValueError(f"{LEVELS[-1]} is the highest level")
        self._level += 1
        self.escalations += 1

    def report(self) -> BudgetReport:
        """As it stands."""
        return BudgetReport(
            level=LEVELS[self._level],
            granted=self.granted,
            spent=self.spent,
            overspent=max(0, -self.remaining),
            escalations=self.escalations,
        )


def reason_to_escalate(*, passed: bool, partial_success: bool, confidence: float) -> str | None:
    """Why a task should be thought about longer, in words; None where nothing says so (SPEC section 7)."""
    if partial_success:
        return "partial success"
    if not passed:
        return "rejection"
    return "low confidence" if confidence < UNSURE else None


class CoolDown:
    """Who gets no escalation for a while: agents that a higher budget did not help in a task type. Safe for threads."""

    def __init__(self, seconds: float, *, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def begin(self, agent_id: str, task_type: str) -> None:
        """A higher budget did not help this agent in this task type just now."""
        with self._lock:
            self._until[agent_id, task_type] = self._monotonic() + self._seconds
            self._until.move_to_end((agent_id, task_type))
            if len(self._until) > REMEMBERED:
                self._until.popitem(last=False)

    def holds(self, agent_id: str, task_type: str) -> bool:
        """Whether it is so still."""
        with self._lock:
            return self._until.get((agent_id, task_type), 0.0) > self._monotonic()
