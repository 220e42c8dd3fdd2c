"""What is known of an agent: its profile, its record, and how they look in PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pydantic import ValidationError
from sqlalchemy import RowMapping

from flywheel.arbiter.settings import AgentKind, AgentSettings, PromptStyle
from flywheel.errors import ProfileError
from flywheel.settings import Settings

Status = Literal["active", "disabled"]
NOT_STORED = frozenset({"record", "revision"})


class TrackRecord(Struct, frozen=True, kw_only=True):
    """How an agent did over all its tasks. The means are None before the first one."""

    tasks: int = 0
    success_rate: float | None = None
    mean_quality: float | None = None
    mean_latency_ms: float | None = None


class AgentProfile(Struct, frozen=True, kw_only=True):
    """An agent: what it runs, what it can do, what it costs. ``AgentSettings`` describes the fields, with units.

    ``model`` is ``base`` (the pretrained model of the settings), a folder, ``models:/NAME/VERSION`` (the model
    registry), or an endpoint's model name. ``task_types`` and ``languages`` empty mean all. ``version`` is its owner's
    name for it. ``revision`` counts the changes of the profile; it and ``record`` are read, never written.
    """

    id: str
    kind: AgentKind
    name: str = ""
    model: str = ""
    model_family: str = ""
    task_types: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    prompt: PromptStyle = "zero-shot"
    temperature: float = 0.0
    base_url: str = ""
    api_key_env: str = ""
    function: str = ""
    command: tuple[str, ...] = ()
    timeout_s: float = 60.0
    max_concurrent: int = 10
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    usd_per_million_input_tokens: float = 0.0
    usd_per_million_output_tokens: float = 0.0
    error_rate: float = 0.0
    version: str = "1"
    status: Status = "active"
    revision: int = 0
    record: TrackRecord = TrackRecord()

    def can_do(self, task_type: str) -> bool:
        """Whether this agent takes tasks of this type."""
        return not self.task_types or task_type in self.task_types

    def cost_usd(self, *, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, in US dollars, at its prices."""
        spent = input_tokens * self.usd_per_million_input_tokens + output_tokens * self.usd_per_million_output_tokens
        return spent / 1e6


class Revision(Struct, frozen=True, kw_only=True):
    """One state of a profile: from when, by whom and why, and what it changed (field: before and after)."""

    agent_id: str
    revision: int
    changed_at: datetime
    changed_by: str
    reason: str
    changes: dict[str, tuple[Any, Any]] = {}


def profile_of(agent: AgentSettings, settings: Settings) -> AgentProfile:
    """The profile of an agent that the settings describe."""
    local = agent.kind == "local"
    model = agent.model or ("base" if local else "")
    family = agent.model_family or (settings.model.base if local else model or agent.kind)
    described = agent.model_dump() | {"name": agent.name or agent.id, "model": model, "model_family": family}
    return AgentProfile(**described)


def settings_of(agent: Mapping[str, Any]) -> AgentSettings:
    """An agent's settings from fields by their names.

    Raises:
        ProfileError: a field is unknown, missing or out of bounds; the message names it.
    """
    try:
        return AgentSettings.model_validate(agent)
    except ValidationError as error:
        problems = [(".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, ")) for e in error.errors()]
        told = "; ".join(f"{where}: {what}" if where else what for where, what in problems)
        raise ProfileError(f"this agent cannot be: {told}") from None


def changed(profile: AgentProfile, changes: Mapping[str, Any], *, status: Status | None = None) -> AgentProfile:
    """The profile with other values of some fields, and another status where one is given.

    Raises:
        ProfileError: a field is unknown or out of bounds; the message names it.
    """
    present = {name: getattr(profile, name) for name in AgentSettings.model_fields}
    described = settings_of(present | dict(changes))
    fields = {name: getattr(described, name) for name in changes}
    return msgspec.structs.replace(profile, **fields, status=status or profile.status)


def stored(profile: AgentProfile) -> dict[str, Any]:
    """The fields that the registry keeps, as the columns of ``agents``."""
    fields = msgspec.structs.asdict(profile)
    return {name: value for name, value in fields.items() if name not in NOT_STORED}


def profile_from(row: RowMapping) -> AgentProfile:
    """The profile and its record from a row of both."""
    values = {f"{name}": value for name, value in row.items()}  # plain str: the driver's names are a subclass
    record = {name: values.pop(name) for name in TrackRecord.__struct_fields__}
    measured = {name: float(value) for name, value in record.items() if value is not None and name != "tasks"}
    return msgspec.convert(
        {**values, "record": {"tasks": int(record["tasks"] or 0), **measured}}, type=AgentProfile, from_attributes=False
    )


def changes_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields that differ between two stored profiles, with both values; one that was not there before was None."""
    return {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}
