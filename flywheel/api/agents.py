"""``/v1/agents``: the registry of agents. Whoever may change it is named in each agent's history."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from flywheel.api.access import Access, allowed, refusals
from flywheel.api.agent_models import AgentChanges, AgentDetails, Agents, NewAgent, agent_of, details_of
from flywheel.api.callers import authorized
from flywheel.api.models import Parameters
from flywheel.api.pool import COMMON, NAMED
from flywheel.api.problems import documented
from flywheel.arbiter.listing import ShownAgent, list_agents, show_agent
from flywheel.arbiter.profiles import Status, profile_of
from flywheel.arbiter.registry import AgentRegistry
from flywheel.errors import NotInPoolError, StaleRevisionError, UnknownAgentError
from flywheel.settings import Settings

LONGEST_REVISION = 10  # digits of a PostgreSQL integer
router = APIRouter(prefix="/v1/agents", tags=["agents"], dependencies=[Depends(authorized)], responses=COMMON)
Reading = Annotated[Access, Depends(allowed("agents.read"))]
Changing = Annotated[Access, Depends(allowed("agents.change"))]


class ListParameters(Parameters):
    """Which agents."""

    status: Status | None = None


def settings_of(request: Request) -> Settings:
    """The settings of the installation."""
    found: Settings = request.app.state.pool.settings
    return found


@router.get("", summary="List the agents", responses=refusals("agents.read"))
def list_all(parameters: Annotated[ListParameters, Query()], access: Reading) -> Agents:
    """All agents by id: profile, record, load in all processes, and whether they can be asked."""
    found = access.read(
        lambda *_: list_agents(access.pool.engine, status=parameters.status), details={"status": parameters.status}
    )
    return Agents(agents=[agent_of(listed) for listed in found])


@router.post(
    "",
    summary="Add an agent",
    status_code=HTTPStatus.CREATED,
    responses=documented(HTTPStatus.CONFLICT) | refusals("agents.change"),
)
def add(
    agent: NewAgent, response: Response, access: Changing, settings: Annotated[Settings, Depends(settings_of)]
) -> AgentDetails:
    """Add an agent. The arbiter routes to it from its next task on."""
    profile = profile_of(agent.settings(), settings)

    def write() -> ShownAgent:
        AgentRegistry(access.pool.engine).add(profile, by=access.caller.name, reason="added over HTTP")
        return show_agent(access.pool.engine, profile.id)

    return answered(access, write, agent.id, response)


@router.get("/{agent_id:path}", summary="Show an agent", responses=NAMED | refusals("agents.read"))
def show(agent_id: str, response: Response, access: Reading) -> AgentDetails:
    """One agent with its history and its newest measured changes. `ETag` is its revision."""
    return answered(access, lambda: show_agent(access.pool.engine, agent_id), agent_id, response)


@router.patch(
    "/{agent_id:path}",
    summary="Change an agent, enable or disable it",
    responses=NAMED | documented(HTTPStatus.PRECONDITION_FAILED) | refusals("agents.change"),
)
def change(
    agent_id: str,
    changes: AgentChanges,
    response: Response,
    access: Changing,
    if_match: Annotated[str | None, Header(description="the ETag of the revision that the change is meant for")] = None,
) -> AgentDetails:
    """Change an agent, or enable or disable it. Fields that are absent stay as they are."""
    revision = revision_of(if_match)

    def write() -> ShownAgent:
        AgentRegistry(access.pool.engine).change(
            agent_id,
            changes.applied_to,
            by=access.caller.name,
            reason=changes.reason,
            revision=revision,
        )
        return show_agent(access.pool.engine, agent_id)

    return answered(access, write, agent_id, response)


def answered(access: Access, do: Callable[[], ShownAgent], agent_id: str, response: Response) -> AgentDetails:
    """The agent that is read or written, audited, with its revision as ETag.

    Raises:
        NotInPoolError: there is none of this id.
    """

    def read(*_: object) -> ShownAgent:
        try:
            return do()
        except UnknownAgentError:
            raise NotInPoolError(f"there is no agent {agent_id!r}; /v1/agents lists those there are") from None

    details = details_of(access.read(read, details={"agent": agent_id}))
    response.headers["ETag"] = f'"{details.revision}"'
    return details


def revision_of(if_match: str | None) -> int | None:
    """The revision that ``If-Match`` names; None where any is meant.

    Raises:
        StaleRevisionError: it is none of ours.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().strip('"')
    if not number.isdecimal() or len(number) > LONGEST_REVISION:
        raise StaleRevisionError(f"If-Match {if_match[:80]!r} is no ETag of an agent; send that of your last GET")
    return int(number)
