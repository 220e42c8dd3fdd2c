"""Agents over HTTP: what can be asked of the registry and what it answers. Names are camelCase on the wire."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from flywheel.api.models import Answer
from flywheel.arbiter.listing import ListedAgent, ShownAgent
from flywheel.arbiter.profiles import AgentProfile, settings_of
from flywheel.arbiter.settings import AgentFields, AgentKind, AgentSettings, PromptStyle, Text
from flywheel.errors import ProfileError

KEY_VARIABLE = r"^[A-Z][A-Z0-9_]*_API_KEY$"
"""Whoever names the variable and the endpoint could have any secret of the service sent there: so only such names."""


class NewAgent(AgentFields):
    """An agent to be added. Programs and functions become agents by configuration and the command line alone."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    kind: Literal["openai", "local", "reference"] = Field(description="how it is asked")
    api_key_env: Text = Field("OPENAI_API_KEY", pattern=KEY_VARIABLE, description="openai: the variable with its key")

    @model_validator(mode="after")
    def _is_an_agent(self) -> Self:
        try:
            self.settings()
        except ProfileError as error:
            raise ValueError(str(error)) from None
        return self

    def settings(self) -> AgentSettings:
        """As configuration has it.

        Raises:
            ProfileError: it lacks what its kind needs.
        """
        return settings_of(self.model_dump())


class AgentChanges(BaseModel):
    """What is to be different. Fields that are absent stay as they are; bounds are those of a new agent."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    status: Literal["active", "disabled"] | None = Field(None, description="disabled: it gets no new tasks")
    reason: Text = Field("", max_length=500, description="why, for its history")
    name: str | None = None
    model: str | None = None
    model_family: str | None = None
    task_types: tuple[str, ...] | None = Field(None, description="empty: all")
    languages: tuple[str, ...] | None = Field(None, description="empty: all")
    specializations: tuple[str, ...] | None = None
    prompt: PromptStyle | None = None
    temperature: float | None = None
    base_url: str | None = None
    api_key_env: str | None = Field(None, pattern=KEY_VARIABLE)
    timeout_s: float | None = None
    max_concurrent: int | None = None
    requests_per_minute: int | None = Field(None, description="null: no limit")
    tokens_per_minute: int | None = Field(None, description="null: no limit")
    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None = None
    error_rate: float | None = None
    version: str | None = None

    def fields(self) -> dict[str, Any]:
        """The profile's fields that are to be different."""
        return self.model_dump(exclude_unset=True, exclude={"status", "reason"})


class Record(Answer):
    """How an agent did over all its tasks."""

    tasks: int
    success_rate: float | None
    mean_quality: float | None = Field(description="overall score, 0–1")
    mean_latency_ms: float | None


class Load(Answer):
    """What all processes have an agent do."""

    active: int = Field(description="tasks it works on")
    queued: int = Field(description="tasks that wait for it")
    processes: int = Field(description="that have something to do with it now")
    unavailable_in: int = Field(description="those of them that leave it alone since it kept failing")
    unavailable_until: datetime | None
    unavailable_because: str


class Agent(Answer):
    """An agent as it is now. The variable of its key is named, its key is nowhere."""

    id: str
    kind: AgentKind
    name: str
    model: str
    model_family: str
    task_types: list[str]
    languages: list[str]
    specializations: list[str]
    prompt: str
    temperature: float
    base_url: str
    api_key_env: str
    function: str
    command: list[str]
    timeout_s: float
    max_concurrent: int = Field(description="calls at once in a process")
    requests_per_minute: int | None
    tokens_per_minute: int | None
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    error_rate: float
    version: str
    status: Literal["active", "disabled"]
    revision: int = Field(description="counts the changes of the profile; the ETag")
    record: Record
    load: Load
    availability: Literal["available", "degraded", "unavailable", "disabled"]


class Agents(Answer):
    """All agents, by id."""

    agents: list[Agent]


class Revision(Answer):
    """A change of the profile."""

    revision: int
    changed_at: datetime
    changed_by: str
    reason: str
    changes: dict[str, tuple[Any, Any]] = Field(description="by field: before and after")


class Event(Answer):
    """A measured change of what the agent can do."""

    id: int
    field: Literal["task_types", "languages", "specializations"]
    name: str
    kind: Literal["added", "improved", "degraded"]
    detected_at: datetime
    sentence: str
    evidence: dict[str, Any] = Field(description="the test and its numbers")
    proposal: Literal["add", "remove"] | None = Field(description="of the name in the profile; null: nothing to change")
    applied_at: datetime | None
    applied_by: str | None


class AgentDetails(Agent):
    """The same with its history."""

    history: list[Revision] = Field(description="oldest first")
    events: list[Event] = Field(description="the newest, newest first")


def agent_of(listed: ListedAgent) -> Agent:
    """An agent as it is answered."""
    return Agent.model_validate(_flat(listed.profile, listed))


def details_of(shown: ShownAgent) -> AgentDetails:
    """An agent with its history as it is answered."""
    return AgentDetails.model_validate(
        _flat(shown.profile, shown) | {"history": list(shown.history), "events": list(shown.events)}
    )


def _flat(profile: AgentProfile, listed: ListedAgent | ShownAgent) -> dict[str, Any]:
    fields = {name: getattr(profile, name) for name in AgentProfile.__struct_fields__}
    return fields | {"load": listed.load, "availability": listed.availability}
