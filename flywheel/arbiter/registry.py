"""The registry of agents: who there is, what each can do, and how each has done so far."""

from typing import Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, RowMapping, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.tables import agents, bandit_state
from flywheel.errors import ConfigurationError
from flywheel.settings import AgentSettings, Settings

Status = Literal["active", "disabled"]


class TrackRecord(Struct, frozen=True, kw_only=True):
    """How an agent did over all its tasks. The means are None before the first one."""

    tasks: int = 0
    success_rate: float | None = None
    mean_quality: float | None = None
    mean_latency_ms: float | None = None


class AgentProfile(Struct, frozen=True, kw_only=True):
    """An agent: what it runs, what it can do, what it costs.

    ``model`` is ``base`` (the pretrained model of the settings), a folder, ``models:/NAME/VERSION`` (the model
    registry), or an endpoint's model name. ``task_types`` empty means all. ``record`` is read, never written.
    """

    id: str
    kind: Literal["local", "reference", "openai"]
    name: str = ""
    model: str = ""
    model_family: str = ""
    task_types: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    prompt: Literal["zero-shot", "few-shot"] = "zero-shot"
    temperature: float = 0.0
    usd_per_million_tokens: float = 0.0
    base_url: str = ""
    api_key_env: str = ""
    timeout_s: float = 60.0
    error_rate: float = 0.0
    version: str = "1"
    status: Status = "active"
    record: TrackRecord = TrackRecord()

    def can_do(self, task_type: str) -> bool:
        """Whether this agent takes tasks of this type."""
        return not self.task_types or task_type in self.task_types


class AgentRegistry:
    """The agents in PostgreSQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def register(self, profile: AgentProfile) -> None:
        """Add an agent, or replace the profile of the one with this id. What was learned about it stays."""
        with self._engine.begin() as connection:
            write_profile(connection, profile)

    def get(self, agent_id: str) -> AgentProfile:
        """One agent.

        Raises:
            ConfigurationError: there is none of this id.
        """
        with self._engine.connect() as connection:
            row = connection.execute(_profiles().where(agents.c.id == agent_id)).mappings().one_or_none()
        if row is None:
            raise _unknown(agent_id)
        return _profile(row)

    def list(self, *, status: Status | None = None) -> tuple[AgentProfile, ...]:
        """All agents by id, or those of one status."""
        query = _profiles() if status is None else _profiles().where(agents.c.status == status)
        with self._engine.connect() as connection:
            return tuple(_profile(row) for row in connection.execute(query.order_by(agents.c.id)).mappings())

    def set_status(self, agent_id: str, status: Status) -> None:
        """Enable or disable an agent. A disabled one gets no new tasks; its record stays.

        Raises:
            ConfigurationError: there is none of this id.
        """
        with self._engine.begin() as connection:
            changed = connection.execute(agents.update().where(agents.c.id == agent_id).values(status=status))
        if changed.rowcount == 0:
            raise _unknown(agent_id)

    def seed_from_settings(self, settings: Settings) -> int:
        """Add the agents of the settings that are not registered yet, and return how many were added.

        Those that are keep their profile: what somebody disabled or changed stays so over a restart.
        """
        profiles = [profile_of(agent, settings) for agent in settings.agents]
        rows = [{k: v for k, v in msgspec.structs.asdict(p).items() if k != "record"} for p in profiles]
        if not rows:
            return 0
        statement = insert(agents).values(rows).on_conflict_do_nothing().returning(agents.c.id)
        with self._engine.begin() as connection:
            return len(connection.execute(statement).all())


def write_profile(connection: Connection, profile: AgentProfile) -> None:
    """Add an agent or replace its profile, in the caller's transaction."""
    values = {name: value for name, value in msgspec.structs.asdict(profile).items() if name != "record"}
    statement = insert(agents).values(values)
    others = {name: statement.excluded[name] for name in values if name != "id"}
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=others))


def profile_of(agent: AgentSettings, settings: Settings) -> AgentProfile:
    """The profile of an agent that the settings describe."""
    return AgentProfile(
        id=agent.id,
        kind=agent.kind,
        name=agent.name or agent.id,
        model=agent.model or ("base" if agent.kind == "local" else ""),
        model_family=settings.model.base if agent.kind == "local" else agent.model or agent.kind,
        task_types=agent.task_types,
        specializations=("function-calling",),
        prompt=agent.prompt,
        temperature=agent.temperature,
        usd_per_million_tokens=agent.usd_per_million_tokens,
        base_url=agent.base_url,
        api_key_env=agent.api_key_env,
        timeout_s=agent.timeout_s,
        error_rate=agent.error_rate,
    )


def _profiles() -> Select[tuple[object, ...]]:
    tasks = func.sum(bandit_state.c.tasks)
    record = (
        select(
            bandit_state.c.agent_id,
            tasks.label("tasks"),
            (func.sum(bandit_state.c.successes) / func.nullif(tasks, 0)).label("success_rate"),
            (func.sum(bandit_state.c.quality_sum) / func.nullif(tasks, 0)).label("mean_quality"),
            (func.sum(bandit_state.c.latency_ms_sum) / func.nullif(tasks, 0)).label("mean_latency_ms"),
        )
        .group_by(bandit_state.c.agent_id)
        .subquery()
    )
    columns = (record.c.tasks, record.c.success_rate, record.c.mean_quality, record.c.mean_latency_ms)
    return select(*agents.c, *columns).join_from(agents, record, agents.c.id == record.c.agent_id, isouter=True)


def _profile(row: RowMapping) -> AgentProfile:
    values = {f"{name}": value for name, value in row.items()}  # plain str: the driver's names are a subclass
    record = {name: values.pop(name) for name in TrackRecord.__struct_fields__}
    measured = {name: float(value) for name, value in record.items() if value is not None and name != "tasks"}
    return msgspec.convert(
        {**values, "record": {"tasks": int(record["tasks"] or 0), **measured}}, type=AgentProfile, from_attributes=False
    )


def _unknown(agent_id: str) -> ConfigurationError:
    return ConfigurationError(f"there is no agent {agent_id!r}; `flywheel agents list` shows those there are")
