"""Whom a single task is given: the agent that its caller names, or one that the router chooses."""

from flywheel.arbiter.logs import no_choice, routing_decision
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.state import days
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.task import Task
from flywheel.records import RoutingDecision

NOBODY: frozenset[str] = frozenset()


def decide(
    task: Task, routed: RoutedTask, parts: Parts, *, without: frozenset[str] = NOBODY, after: str = ""
) -> tuple[RoutingDecision, AgentProfile]:
    """The decision as it is logged, and the agent. One that was named has no candidates and no propensity.

    Args:
        task: what is to be done.
        routed: the same as routing sees it.
        parts: the router and what it needs.
        without: agents that cannot be had.
        after: why an earlier choice came to nothing.

    Raises:
        NoAgentError: the hard limits leave nobody.
        ConfigurationError: no agent is active.
        DatabaseError: PostgreSQL cannot be used.
    """
    if task.agent_id is not None:
        profile = parts.router.named(routed, task.agent_id)
        decision = no_choice(
            task,
            agent_id=profile.id,
            task_id=task.id,
            tenant_id=parts.tenant_id,
            timestamp=parts.clock(),
            reason=f"the caller named {profile.id}; nothing was chosen",
        )
        return decision, profile
    choice, profile = parts.router.decide(routed, loads=parts.slots.loads(), now=days(parts.clock()), without=without)
    decision = routing_decision(
        task, choice, task_id=task.id, tenant_id=parts.tenant_id, timestamp=parts.clock(), after=after
    )
    return decision, profile
