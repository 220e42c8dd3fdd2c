"""Who serves: a promoted version becomes an agent, its predecessor retires, and both are written down at once.

The model registry keeps the present value of an alias; the history of who served when is ours
(docs/decisions/0003). Routing and history change in one transaction: there is no moment at which they disagree.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, func, select

from flywheel.arbiter.registry import AgentProfile, change_profile, write_profile
from flywheel.arbiter.tables import agents, alias_history

MODEL_NAME = "flywheel-agent"
CANDIDATE = "candidate"
CHAMPION = "champion"
PROMOTION_LOCK = 0x666C7972  # one promotion at a time: the command line and the sensor may both see a new alias


class AliasChange(Struct, frozen=True, kw_only=True):
    """An alias came to name a version."""

    model_name: str
    alias: str
    version: str
    set_at: datetime
    actor: str
    reason: str


def promote(
    engine: Engine, *, version: str, tags: Mapping[str, str], now: datetime, actor: str, reason: str
) -> AgentProfile:
    """Let the arbiter route to a version, and to no earlier one. Promoting who serves already changes nothing.

    Args:
        engine: of our database.
        version: of ``flywheel-agent`` in the model registry.
        tags: the version's tags there; its batch and pretrained model name the agent.
        now: when.
        actor: who decided.
        reason: why.
    """
    profile = agent_of(version, tags)
    with engine.begin() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(PROMOTION_LOCK)))
        predecessor = champion_in(connection)
        if predecessor == version:
            return profile
        if predecessor is not None:
            retire(connection, agent_id_of(predecessor), by=actor, reason=f"version {version} took its place: {reason}")
        write_profile(connection, profile, by=actor, reason=reason)
        change = AliasChange(
            model_name=MODEL_NAME, alias=CHAMPION, version=version, set_at=now, actor=actor, reason=reason
        )
        connection.execute(alias_history.insert().values(msgspec.structs.asdict(change)))
    return profile


def retire(connection: Connection, agent_id: str, *, by: str, reason: str) -> None:
    """Route nothing more to an agent, if the registry has it."""
    if connection.execute(select(agents.c.id).where(agents.c.id == agent_id)).one_or_none() is not None:
        change_profile(
            connection, agent_id, lambda p: msgspec.structs.replace(p, status="disabled"), by=by, reason=reason
        )


def agent_of(version: str, tags: Mapping[str, str]) -> AgentProfile:
    """The agent that a version becomes: asked without demonstrations, as it was trained, and greedily."""
    base = tags.get("flywheel.base_model", "")
    return AgentProfile(
        id=agent_id_of(version),
        kind="local",
        name=f"{base or MODEL_NAME}, trained on {tags.get('flywheel.training_batch', 'an unknown batch')}",
        model=f"models:/{MODEL_NAME}/{version}",
        model_family=base,
        version=version,
        status="active",
    )


def agent_id_of(version: str) -> str:
    """The agent's id."""
    return f"{MODEL_NAME}-v{version}"


def current_champion(engine: Engine) -> str | None:
    """The version that the arbiter routes to now."""
    with engine.connect() as connection:
        return champion_in(connection)


def champion_in(connection: Connection) -> str | None:
    """The same, within a transaction."""
    query = (
        select(alias_history.c.version)
        .where(alias_history.c.model_name == MODEL_NAME, alias_history.c.alias == CHAMPION)
        .order_by(alias_history.c.id.desc())
        .limit(1)
    )
    return connection.execute(query).scalar_one_or_none()


def champion_at(engine: Engine, moment: datetime) -> str | None:
    """The version that served at a moment."""
    query = (
        select(alias_history.c.version)
        .where(
            alias_history.c.model_name == MODEL_NAME,
            alias_history.c.alias == CHAMPION,
            alias_history.c.set_at <= moment,
        )
        .order_by(alias_history.c.set_at.desc(), alias_history.c.id.desc())
        .limit(1)
    )
    with engine.connect() as connection:
        return connection.execute(query).scalar_one_or_none()


def history(engine: Engine) -> tuple[AliasChange, ...]:
    """Every change of an alias, oldest first."""
    columns = [alias_history.c[name] for name in AliasChange.__struct_fields__]
    with engine.connect() as connection:
        rows = connection.execute(select(*columns).order_by(alias_history.c.id)).mappings()
        return tuple(AliasChange(**row) for row in rows)
