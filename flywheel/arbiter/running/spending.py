"""What a task has taken so far, and what it may still take."""

from flywheel.arbiter.budgets import ThinkingBudget
from flywheel.arbiter.logs import Step
from flywheel.arbiter.task import Spent, Task


class Spending:
    """Of one run of one task, over all agents, iterations and turns. For one thread."""

    def __init__(self, task: Task) -> None:
        self.budget = ThinkingBudget(task.assessed_complexity)
        self.spent = Spent()
        self._limits = task.limits

    def add(self, step: Step) -> None:
        """Add what an answer took."""
        self.spent += step.spent
        self.budget.spend(step.answer.output_tokens)

    def limit_reached(self) -> str | None:
        """Which of the task's own limits is used up, in words."""
        limits, spent = self._limits, self.spent
        if limits.tokens is not None and spent.tokens >= limits.tokens:
            return f"{spent.tokens:,} tokens are spent, the task's limit is {limits.tokens:,}"
        if limits.usd is not None and spent.usd >= limits.usd:
            return f"{spent.usd:.6g} USD are spent, the task's limit is {limits.usd:g}"
        return None
