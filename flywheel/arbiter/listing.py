"""Agents as people and programs are shown them: profile, record, load, whether they can be asked, and their history."""

from typing import Literal

from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.capability_events import CapabilityEvent, events
from flywheel.arbiter.loads import UNUSED, AgentLoad, shared_loads
from flywheel.arbiter.profiles import AgentProfile, Revision, Status
from flywheel.arbiter.registry import AgentRegistry

Availability = Literal["available", "degraded", "unavailable", "disabled"]
SHOWN_EVENTS = 50


class ListedAgent(Struct, frozen=True, kw_only=True):
    """An agent as it is now.

    ``availability``: disabled (by its status); unavailable, where every process that has to do with it leaves it alone
    since it kept failing; degraded, where some do; else available.
    """

    profile: AgentProfile
    load: AgentLoad
    availability: Availability


class ShownAgent(Struct, frozen=True, kw_only=True):
    """The same with its revisions, oldest first, and its newest measured changes, newest first."""

    profile: AgentProfile
    load: AgentLoad
    availability: Availability
    history: tuple[Revision, ...]
    events: tuple[CapabilityEvent, ...]


def list_agents(engine: Engine, *, status: Status | None = None) -> tuple[ListedAgent, ...]:
    """All agents by id, or those of one status.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    loads = shared_loads(engine)
    return tuple(
        _listed(profile, loads.get(profile.id, UNUSED)) for profile in AgentRegistry(engine).list(status=status)
    )


def show_agent(engine: Engine, agent_id: str) -> ShownAgent:
    """One agent.

    Raises:
        UnknownAgentError: there is none of this id.
        DatabaseError: PostgreSQL cannot be used.
    """
    registry = AgentRegistry(engine)
    listed = _listed(registry.get(agent_id), shared_loads(engine).get(agent_id, UNUSED))
    return ShownAgent(
        profile=listed.profile,
        load=listed.load,
        availability=listed.availability,
        history=registry.history(agent_id),
        events=events(engine, agent_id=agent_id, limit=SHOWN_EVENTS),
    )


def _listed(profile: AgentProfile, load: AgentLoad) -> ListedAgent:
    return ListedAgent(profile=profile, load=load, availability=_availability(profile, load))


def _availability(profile: AgentProfile, load: AgentLoad) -> Availability:
    if profile.status == "disabled":
        return "disabled"
    if not load.available:
        return "unavailable"
    return "degraded" if load.unavailable_in else "available"
