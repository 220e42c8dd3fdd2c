"""Whom a single task is given: the agent that its caller names, or one that the router chooses."""

from flywheel.arbiter.agents.slots import Place
from flywheel.arbiter.logs import no_choice, routing_decision
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.state import days
from flywheel.arbiter.routing.strategy import Choice
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.task import Task
from flywheel.records import RoutingDecision

NOBODY: frozenset[str] = frozenset()


def decide(task: Task, routed: RoutedTask, parts: Parts) -> tuple[RoutingDecision, AgentProfile]:
    """The decision as it would be logged at this moment, and the agent. Nothing is begun.

    Raises:
        NoAgentError: the hard limits leave nobody.
        ConfigurationError: no agent is active.
        DatabaseError: PostgreSQL cannot be used.
    """
    if task.agent_id is not None:
        return _named(task, routed, parts)
    choice, profile = _choice(routed, parts, NOBODY)
    return _logged(task, choice, parts, after=""), profile


def give(
    task: Task, routed: RoutedTask, parts: Parts, *, without: frozenset[str], after: str
) -> tuple[RoutingDecision, AgentProfile, Place]:
    """The same, and a place in the agent's line: the next decision sees it, however soon it comes.

    Args:
        task: what is to be done.
        routed: the same as routing sees it.
        parts: the router and what it needs.
        without: agents that cannot be had.
        after: why an earlier choice came to nothing.
    """
    slots = parts.slots
    if task.agent_id is not None:
        decision, profile = _named(task, routed, parts)
        return decision, profile, slots.enter(profile.id, limit=profile.max_concurrent)
    with slots.deciding:
        choice, profile = _choice(routed, parts, without)
        place = slots.enter(profile.id, limit=profile.max_concurrent)
    return _logged(task, choice, parts, after=after), profile, place


def _named(task: Task, routed: RoutedTask, parts: Parts) -> tuple[RoutingDecision, AgentProfile]:
    """The agent that was named: it has no competitors, and no propensity."""
    assert task.agent_id is not None, "asked for where one is named"
    profile = parts.router.named(routed, task.agent_id)
    decision = no_choice(
        task,
        agent_id=profile.id,
        tenant_id=parts.tenant_id,
        timestamp=parts.clock(),
        reason=f"the caller named {profile.id}; nothing was chosen",
    )
    return decision, profile


def _choice(routed: RoutedTask, parts: Parts, without: frozenset[str]) -> tuple[Choice, AgentProfile]:
    now, loads = days(parts.clock()), parts.slots.all_loads()
    return parts.router.decide(routed, loads=loads, now=now, without=without)


def _logged(task: Task, choice: Choice, parts: Parts, *, after: str) -> RoutingDecision:
    return routing_decision(task, choice, tenant_id=parts.tenant_id, timestamp=parts.clock(), after=after)
