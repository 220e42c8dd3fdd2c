"""Measured changes of what agents can do, in PostgreSQL: found from outcomes, kept with their evidence, applied."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, get_args

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, RowMapping, func, select, text

from flywheel.arbiter.capabilities import (
    BLOCK,
    Field,
    Finding,
    Kind,
    Outcomes,
    Proposal,
    already_added,
    find,
    in_words,
    with_proposal,
)
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry, change_profile
from flywheel.arbiter.settings import CapabilitySettings
from flywheel.arbiter.tables import capability_events
from flywheel.errors import NoSuchEventError

logger = logging.getLogger(__name__)

MEASURED = "measured results"
"""Who changed a profile by configuration, as its history names it."""
LOCK = 0x63617061  # "capa": one look at a time, so that no event is found twice

# Outcomes after the newest event of their capability, numbered in order and counted block by block.
BLOCKS = text("""
WITH named AS (
    SELECT agent_id, 'task_types' AS field, task_type AS name, success, evaluated_at, task_id FROM task_outcomes
    UNION ALL
    SELECT agent_id, 'languages', unnest(languages), success, evaluated_at, task_id FROM task_outcomes
    UNION ALL
    SELECT agent_id, 'specializations', unnest(specializations), success, evaluated_at, task_id FROM task_outcomes
), since AS (
    SELECT agent_id, field, name, max(seen_until) AS seen_until FROM capability_events GROUP BY agent_id, field, name
), numbered AS (
    SELECT named.*, row_number() OVER (
        PARTITION BY agent_id, field, name ORDER BY evaluated_at, task_id
    ) - 1 AS number
    FROM named LEFT JOIN since USING (agent_id, field, name)
    WHERE since.seen_until IS NULL OR named.evaluated_at > since.seen_until
)
SELECT agent_id, field, name, count(*) AS tasks, count(*) FILTER (WHERE success) AS successes,
    max(evaluated_at) AS until
FROM numbered GROUP BY agent_id, field, name, number / :block ORDER BY agent_id, field, name, number / :block
""")


class CapabilityEvent(Struct, frozen=True, kw_only=True):
    """A measured change. ``proposal`` is what to do in the profile; ``applied_at`` is None where it was not done."""

    id: int
    agent_id: str
    field: Field
    name: str
    kind: Kind
    detected_at: datetime
    evidence: dict[str, Any]
    proposal: Proposal | None
    applied_at: datetime | None
    applied_by: str | None

    @property
    def sentence(self) -> str:
        """What changed, in words."""
        return in_words(self.field, self.name, self.kind, self.evidence)


def look(engine: Engine, settings: CapabilitySettings) -> tuple[CapabilityEvent, ...]:
    """Test all outcomes that are not yet part of an event, and keep what is found; by configuration apply it.

    May be repeated as often as one likes: the error rate holds over all looks together. What cannot be applied, since
    nothing would be left that the agent names, stays proposed.
    """
    with engine.begin() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
        kinds, measured = _kinds(connection), list(_outcomes(connection))
        profiles = {profile.id: profile for profile in AgentRegistry(engine).list()}
        found = []
        for outcomes in measured:
            earlier = kinds[outcomes.agent_id, outcomes.field, outcomes.name]
            finding = find(outcomes, profiles[outcomes.agent_id], settings, already_added=already_added(earlier))
            if finding is not None:
                found.append(_keep(connection, outcomes, finding))
        if settings.apply:
            _apply_all(connection, [event for event in found if event.proposal is not None])
    return events(engine, ids=[event.id for event in found])


def _apply_all(connection: Connection, found: Sequence[CapabilityEvent]) -> None:
    for event in found:
        try:
            _apply(connection, event.id, by=MEASURED)
        except NoSuchEventError as error:  # another of them took the last but one: it stays proposed, the others hold
            logger.warning("%s", error)


def events(
    engine: Engine,
    *,
    agent_id: str | None = None,
    ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
) -> tuple[CapabilityEvent, ...]:
    """The events of an agent, of these ids, detected from ``since`` to before ``until``, or all, newest first."""
    query = select(capability_events).order_by(capability_events.c.id.desc()).limit(limit)
    if agent_id is not None:
        query = query.where(capability_events.c.agent_id == agent_id)
    if ids is not None:
        query = query.where(capability_events.c.id.in_(ids))
    if since is not None:
        query = query.where(capability_events.c.detected_at >= since)
    if until is not None:
        query = query.where(capability_events.c.detected_at < until)
    with engine.connect() as connection:
        return tuple(_event(row) for row in connection.execute(query).mappings())


def apply_event(engine: Engine, event_id: int, *, by: str) -> AgentProfile:
    """Do in the profile what an event proposes; what was done already stays.

    Raises:
        NoSuchEventError: there is none of this id, it proposes nothing, or nothing would be left that the agent names.
    """
    with engine.begin() as connection:
        return _apply(connection, event_id, by=by)


def _apply(connection: Connection, event_id: int, *, by: str) -> AgentProfile:
    query = select(capability_events).where(capability_events.c.id == event_id).with_for_update()
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NoSuchEventError(f"there is no event {event_id}; `flywheel agents events` shows those there are")
    event = _event(row)
    if event.proposal is None:
        raise NoSuchEventError(f"event {event_id} proposes no change of {event.agent_id}: {event.sentence}")
    proposal = event.proposal

    def change(profile: AgentProfile) -> AgentProfile:
        try:
            names = with_proposal(profile, event.field, event.name, proposal)
        except ValueError as error:
            raise NoSuchEventError(f"event {event_id} cannot be applied: {error}") from None
        return msgspec.structs.replace(profile, **{event.field: names})

    changed = change_profile(connection, event.agent_id, change, by=by, reason=f"event {event_id}: {event.sentence}")
    if event.applied_at is None:
        done = capability_events.update().where(capability_events.c.id == event_id)
        connection.execute(done.values(applied_at=func.clock_timestamp(), applied_by=by))
    return changed


def _outcomes(connection: Connection) -> Iterable[Outcomes]:
    blocks: defaultdict[tuple[str, Field, str], list[RowMapping]] = defaultdict(list)
    for row in connection.execute(BLOCKS, {"block": BLOCK}).mappings():
        blocks[row["agent_id"], row["field"], row["name"]].append(row)
    for (agent_id, field, name), rows in blocks.items():
        yield Outcomes(
            agent_id=agent_id,
            field=field,
            name=name,
            tasks=tuple(row["tasks"] for row in rows),
            successes=tuple(row["successes"] for row in rows),
            until=max(row["until"] for row in rows),
        )


def _kinds(connection: Connection) -> defaultdict[tuple[str, str, str], list[Kind]]:
    """The kinds of earlier events by capability, oldest first."""
    found: defaultdict[tuple[str, str, str], list[Kind]] = defaultdict(list)
    for row in connection.execute(select(capability_events).order_by(capability_events.c.id)):
        assert row.kind in get_args(Kind), "the table's check"
        found[row.agent_id, row.field, row.name].append(row.kind)
    return found


def _keep(connection: Connection, outcomes: Outcomes, finding: Finding) -> CapabilityEvent:
    values = {
        "agent_id": outcomes.agent_id,
        "field": outcomes.field,
        "name": outcomes.name,
        "kind": finding.kind,
        "detected_at": func.clock_timestamp(),
        "evidence": finding.evidence,
        "seen_until": outcomes.until,
        "proposal": finding.proposal,
    }
    statement = capability_events.insert().values(values).returning(capability_events)
    return _event(connection.execute(statement).mappings().one())


def _event(row: RowMapping) -> CapabilityEvent:
    return CapabilityEvent(**{name: row[name] for name in CapabilityEvent.__struct_fields__})
