"""Who may do what with the pool: grants, and pure decisions about them (SPEC section 6).

PostgreSQL holds the same by itself (row-level security, migration ``0008_access``). What is decided here says why in
words before it is asked, and is all there is for the lake, which has no rows of its own to secure.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from flywheel.errors import AccessError
from flywheel.pool.filters import PointFilter
from flywheel.pool.settings import AccessSettings

Role = Literal["rl-trainer", "analyst", "arbiter", "reviewer", "admin"]
Fields = Literal["all", "anonymized"]
Standing = Literal["waiting for approval", "in force", "expired", "revoked"]
ROLES: tuple[Role, ...] = ("rl-trainer", "analyst", "arbiter", "reviewer", "admin")
GROUPS: Mapping[Role, str] = MappingProxyType({role: f"flywheel_{role.replace('-', '_')}" for role in ROLES})
"""The PostgreSQL role that has a role's rights. Nobody logs in as one."""

PRINCIPAL = re.compile(r"[a-z][a-z0-9_.@-]{0,62}")
RESERVED = ("pg_", "flywheel_")
NO_NAMES = frozenset({"none", "public", "user", "current_role", "current_user", "session_user"})


class Grant(Struct, frozen=True, kw_only=True):
    """Access of one principal in one role. ``tenants`` are hashes, None is all of them; ``until`` is not included.

    ``aliases`` are the same tenants' hashes under the other salt, while the salt is rotated.
    """

    id: int
    principal: str
    role: Role
    tenants: tuple[str, ...] | None
    fields: Fields
    since: datetime | None
    until: datetime | None
    reason: str
    requested_at: datetime
    requested_by: str
    needs_approval: bool
    approved_at: datetime | None
    approved_by: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    revoked_because: str | None
    aliases: tuple[str, ...] = ()


class Action(Struct, frozen=True, kw_only=True):
    """Something that grants allow.

    ``whole_pool``: it sums over tenants or mixes them, so it cannot be cut to some; ``of_tenants`` is the action that
    answers for some instead. ``all_time``: it cannot be cut to a time range. ``by_hour``: it is counted by the hour
    unless the filter asks for single points.
    """

    roles: tuple[Role, ...]
    fields: Fields = "anonymized"
    whole_pool: bool = False
    of_tenants: str = ""
    all_time: bool = False
    by_hour: bool = False


ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "points.read": Action(roles=("rl-trainer", "analyst")),
        "points.export": Action(roles=("rl-trainer",), whole_pool=True),
        "export.preview": Action(roles=("rl-trainer",), whole_pool=True),
        "export.make": Action(roles=("rl-trainer",), whole_pool=True),
        "batches.read": Action(roles=("rl-trainer",), whole_pool=True),
        "statistics.read": Action(
            roles=("analyst", "arbiter"), whole_pool=True, of_tenants="statistics.of-tenants", by_hour=True
        ),
        "statistics.of-tenants": Action(roles=("analyst",)),
        "routing.read": Action(roles=("analyst", "arbiter"), whole_pool=True, all_time=True),
        "profiles.read": Action(roles=("arbiter",), whole_pool=True),
        "overview.read": Action(roles=("analyst",), whole_pool=True, by_hour=True),
        "metrics.read": Action(roles=("analyst",), whole_pool=True, all_time=True),
        "quarantine.read": Action(roles=("reviewer",), fields="all"),
        "waiting.read": Action(roles=("reviewer",), fields="all"),
        "verdicts.read": Action(roles=("reviewer",), fields="all"),
        "quarantine.decide": Action(roles=("reviewer",), fields="all"),
        "agents.read": Action(roles=("analyst", "arbiter", "admin"), whole_pool=True, all_time=True),
        "agents.change": Action(roles=("admin",), whole_pool=True, all_time=True),
        "access.manage": Action(roles=("admin",)),
        "audit.read": Action(roles=("admin",)),
    }
)


def standing(grant: Grant, *, now: datetime) -> Standing:
    """Whether the grant counts."""
    if grant.revoked_at is not None:
        return "revoked"
    if grant.needs_approval and grant.approved_at is None:
        return "waiting for approval"
    if grant.expires_at is not None and grant.expires_at <= now:
        return "expired"
    return "in force"


def needs_approval(policy: AccessSettings, role: Role, fields: Fields) -> bool:
    """Whether a grant waits for somebody's approval."""
    return role in policy.approval_for_roles or fields in policy.approval_for_fields


def why_refused(grant: Grant, action: str, *, now: datetime) -> str:
    """Why the grant does not allow the action (a key of ``ACTIONS``); empty where it does."""
    demanded = ACTIONS[action]
    state = standing(grant, now=now)
    if state != "in force":
        when = {"expired": grant.expires_at, "revoked": grant.revoked_at}.get(state)
        return f"grant {grant.id} of {grant.principal} is {state}" + (f" since {when.isoformat()}" if when else "")
    if grant.role not in demanded.roles:
        return (
            f"grant {grant.id} of {grant.principal} is for the role {grant.role}; {action} needs "
            f"{' or '.join(demanded.roles)}"
        )
    if demanded.fields == "all" and grant.fields != "all":
        return f"grant {grant.id} of {grant.principal} is for anonymized fields; {action} shows lines as they arrived"
    if demanded.whole_pool and grant.tenants is not None:
        return (
            f"grant {grant.id} of {grant.principal} is for {tenants_in_words(grant.tenants)}; {action} cannot be "
            f"told apart by tenant and needs a grant for all"
        )
    if demanded.all_time and (grant.since is not None or grant.until is not None):
        return (
            f"grant {grant.id} of {grant.principal} is for points {range_of(grant.since, grant.until)}; {action} "
            f"cannot be told apart by time and needs a grant without a time range"
        )
    return ""


def action_of(action: str, grant: Grant) -> str:
    """The action that a grant needs for what is asked: statistics of some tenants are another one than of all."""
    other = ACTIONS[action].of_tenants
    return other if other and grant.tenants is not None and grant.role in ACTIONS[other].roles else action


def narrow(asked: PointFilter, grant: Grant) -> PointFilter:
    """What was asked, cut to the grant's tenants and time range.

    Raises:
        AccessError: nothing is left of it.
    """
    tenants = asked.tenants
    if grant.tenants is not None:
        known = (*grant.tenants, *grant.aliases)
        tenants = tuple(name for name in asked.tenants or known if name in known)
        if not tenants:  # an empty tuple would ask for all of them
            raise AccessError(
                f"grant {grant.id} of {grant.principal} is for {tenants_in_words(grant.tenants)}, and none of the "
                f"{len(asked.tenants):,} asked for is among them"
            )
    since = max((at for at in (asked.since, grant.since) if at is not None), default=None)
    until = min((at for at in (asked.until, grant.until) if at is not None), default=None)
    if since is not None and until is not None and since >= until:
        raise AccessError(
            f"grant {grant.id} of {grant.principal} is for points {range_of(grant.since, grant.until)}; "
            f"asked for were those {range_of(asked.since, asked.until)}"
        )
    return PointFilter(
        since=since,
        until=until,
        task_types=asked.task_types,
        complexities=asked.complexities,
        agents=asked.agents,
        tenants=tenants,
        min_quality=asked.min_quality,
        success=asked.success,
        rl_ready=asked.rl_ready,
    )


def tenants_in_words(tenants: Sequence[str]) -> str:
    """How many tenants."""
    return f"{len(tenants):,} tenant{'' if len(tenants) == 1 else 's'}"


def range_of(since: datetime | None, until: datetime | None) -> str:
    """A time range in words."""
    named = (("from", since), ("before", until))
    parts = [f"{word} {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" for word, moment in named if moment]
    return " and ".join(parts) or "of any time"


def check_principal(name: str) -> None:
    """Make sure that a name can be that of a principal: a role of PostgreSQL that is none of its own or of ours.

    Raises:
        AccessError: it cannot.
    """
    if not PRINCIPAL.fullmatch(name) or name.startswith(RESERVED) or name in NO_NAMES:
        raise AccessError(
            f"{name!r} cannot be a principal: up to 63 of a-z, 0-9 and _.@-, a letter first, and not beginning with "
            f"{' or '.join(RESERVED)}"
        )
