"""The registry of agents: who there is, what each can do, and how each has done so far.

Every change of a profile makes a revision that is kept: when, by whom, why, and the profile as it was from then on.
"""

from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, Engine, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.profiles import (
    AgentProfile,
    Revision,
    Status,
    TrackRecord,
    changes_between,
    profile_from,
    profile_of,
    stored,
)
from flywheel.arbiter.tables import agent_revisions, agents, bandit_state
from flywheel.errors import AgentExistsError, StaleRevisionError, UnknownAgentError
from flywheel.settings import Settings

__all__ = [
    "AgentProfile",
    "AgentRegistry",
    "Status",
    "TrackRecord",
    "change_profile",
    "profile_of",
    "write_profile",
]
Change = Callable[[AgentProfile], AgentProfile]
CONFIGURATION = "configuration"
"""Who changed a profile that came from the settings."""


class AgentRegistry:
    """The agents in PostgreSQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def register(self, profile: AgentProfile, *, by: str = "", reason: str = "registered") -> AgentProfile:
        """Add an agent, or replace the profile of the one with this id. What was learned about it stays.

        Returns:
            the profile with its revision; nothing is written where nothing differs.
        """
        with self._engine.begin() as connection:
            return write_profile(connection, profile, by=by, reason=reason)

    def add(self, profile: AgentProfile, *, by: str = "", reason: str = "added") -> AgentProfile:
        """Add an agent.

        Raises:
            AgentExistsError: there is one of this id.
        """
        with self._engine.begin() as connection:
            if not _insert(connection, profile, by=by, reason=reason):
                raise AgentExistsError(f"there is an agent {profile.id!r} already; change it, or choose another id")
        return msgspec.structs.replace(profile, revision=1)

    def change(
        self, agent_id: str, change: Change, *, by: str = "", reason: str = "", revision: int | None = None
    ) -> AgentProfile:
        """Change a profile; nobody else changes it meanwhile. Id, revision and record stay what they are.

        Args:
            agent_id: whose.
            change: from the present profile to the new one.
            by: who changes it.
            reason: why.
            revision: the one that the change was decided on; None: whichever is present.

        Raises:
            UnknownAgentError: there is none of this id.
            StaleRevisionError: the present revision is another one.
        """
        with self._engine.begin() as connection:
            return change_profile(connection, agent_id, change, by=by, reason=reason, revision=revision)

    def get(self, agent_id: str) -> AgentProfile:
        """One agent.

        Raises:
            UnknownAgentError: there is none of this id.
        """
        with self._engine.connect() as connection:
            return profile_in(connection, agent_id)

    def list(self, *, status: Status | None = None) -> tuple[AgentProfile, ...]:
        """All agents by id, or those of one status."""
        query = _profiles() if status is None else _profiles().where(agents.c.status == status)
        with self._engine.connect() as connection:
            return tuple(profile_from(row) for row in connection.execute(query.order_by(agents.c.id)).mappings())

    def set_status(self, agent_id: str, status: Status, *, by: str = "", reason: str = "") -> None:
        """Enable or disable an agent. A disabled one gets no new tasks; its record stays.

        Raises:
            UnknownAgentError: there is none of this id.
        """
        self.change(agent_id, lambda profile: msgspec.structs.replace(profile, status=status), by=by, reason=reason)

    def history(self, agent_id: str) -> tuple[Revision, ...]:
        """The revisions of an agent's profile, oldest first, each with what it changed.

        Raises:
            UnknownAgentError: there is none of this id.
        """
        query = select(agent_revisions).where(agent_revisions.c.agent_id == agent_id)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(agent_revisions.c.revision)).all()
        if not rows:
            raise unknown(agent_id)
        before = [rows[0].profile, *(row.profile for row in rows[:-1])]
        return tuple(
            Revision(
                agent_id=row.agent_id,
                revision=row.revision,
                changed_at=row.changed_at,
                changed_by=row.changed_by,
                reason=row.reason,
                changes=changes_between(former, row.profile),
            )
            for former, row in zip(before, rows, strict=True)
        )

    def at_revision(self, agent_id: str, revision: int) -> AgentProfile:
        """The profile as a revision made it, without a record.

        Raises:
            UnknownAgentError: there is no such revision.
        """
        query = select(agent_revisions.c.profile).where(
            agent_revisions.c.agent_id == agent_id, agent_revisions.c.revision == revision
        )
        with self._engine.connect() as connection:
            found = connection.execute(query).scalar_one_or_none()
        if found is None:
            raise UnknownAgentError(f"there is no revision {revision} of an agent {agent_id!r}")
        return msgspec.convert({**found, "revision": revision}, type=AgentProfile)

    def seed_from_settings(self, settings: Settings) -> int:
        """Add the agents of the settings that are not registered yet, and return how many were added.

        Those that are keep their profile: what somebody disabled or changed stays so over a restart.
        """
        profiles = sorted((profile_of(agent, settings) for agent in settings.agents), key=lambda profile: profile.id)
        with self._engine.begin() as connection:
            return sum(_insert(connection, profile, by=CONFIGURATION, reason="in the settings") for profile in profiles)


def write_profile(
    connection: Connection, profile: AgentProfile, *, by: str = "", reason: str = "registered"
) -> AgentProfile:
    """Add an agent or replace its profile, in the caller's transaction; the profile with its revision."""
    if _insert(connection, profile, by=by, reason=reason):
        return msgspec.structs.replace(profile, revision=1)
    return change_profile(connection, profile.id, lambda _: profile, by=by, reason=reason)


def change_profile(
    connection: Connection, agent_id: str, change: Change, *, by: str, reason: str, revision: int | None = None
) -> AgentProfile:
    """Change a profile in the caller's transaction, which holds it from then on; see ``AgentRegistry.change``."""
    profile_in(connection, agent_id)
    connection.execute(select(agents.c.id).where(agents.c.id == agent_id).with_for_update())
    present = profile_in(connection, agent_id)
    if revision is not None and revision != present.revision:
        raise StaleRevisionError(
            f"agent {agent_id!r} is at revision {present.revision}, the change was decided on {revision}; "
            f"read it again and decide anew"
        )
    read = {"id": present.id, "revision": present.revision, "record": present.record}
    changed = msgspec.structs.replace(change(present), **read)
    if changed == present:
        return present
    changed = msgspec.structs.replace(changed, revision=present.revision + 1)
    values = stored(changed) | {"revision": changed.revision}
    connection.execute(agents.update().where(agents.c.id == agent_id).values(values))
    _keep(connection, changed, by=by, reason=reason)
    return changed


def _insert(connection: Connection, profile: AgentProfile, *, by: str, reason: str) -> bool:
    """Add an agent; whether there was none of this id."""
    statement = insert(agents).values(stored(profile) | {"revision": 1}).on_conflict_do_nothing()
    if connection.execute(statement.returning(agents.c.id)).one_or_none() is None:
        return False
    _keep(connection, msgspec.structs.replace(profile, revision=1), by=by, reason=reason)
    return True


def _keep(connection: Connection, profile: AgentProfile, *, by: str, reason: str) -> None:
    connection.execute(
        agent_revisions.insert().values(
            agent_id=profile.id,
            revision=profile.revision,
            changed_at=func.clock_timestamp(),
            changed_by=by,
            reason=reason,
            profile=msgspec.to_builtins(stored(profile)),
        )
    )


def profile_in(connection: Connection, agent_id: str) -> AgentProfile:
    """The profile of an agent, in the caller's transaction.

    Raises:
        UnknownAgentError: there is none.
    """
    if "\0" in agent_id:  # PostgreSQL has no such text
        raise unknown(agent_id)
    row = connection.execute(_profiles().where(agents.c.id == agent_id)).mappings().one_or_none()
    if row is None:
        raise unknown(agent_id)
    return profile_from(row)


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


def unknown(agent_id: str) -> UnknownAgentError:
    """What is said of an id that nobody has."""
    return UnknownAgentError(f"there is no agent {agent_id!r}; `flywheel agents list` shows those there are")
