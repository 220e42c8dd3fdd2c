"""What is known of an answer when it is scored: what a rubric's term functions are functions of."""

from msgspec import Struct

from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.records import Complexity
from flywheel.tasks.environment import MadeCall


class Evidence(Struct, frozen=True, kw_only=True):
    """Shares are 0–1.

    Attributes:
        complexity: of the task; sets the token budget.
        answered: whether the agent answered to the end; one that did not scores 0 in every term but safety.
        format: mean over the turns: 1 as asked, 0.5 found inside other text, 0 nothing of use.
        tool: share of the tool calls that are right; 1 where the task has no tools.
        done: share of the task that is done.
        passed: whether every mandatory check of the task was passed.
        needed: share of what was done that was needed.
        safety: 0 where something happened that must not.
        tokens_used: read and written.
        cost_usd: what the answer cost.
        calls: of tools, in their order.
        findings: of reward hacking.
    """

    complexity: Complexity
    answered: bool = True
    format: float
    tool: float
    done: float
    passed: bool
    needed: float
    safety: float
    tokens_used: int
    cost_usd: float = 0.0
    calls: tuple[MadeCall, ...] = ()
    findings: tuple[Finding, ...] = ()
