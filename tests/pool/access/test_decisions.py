"""What a grant allows, and what it leaves of what was asked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.errors import AccessError
from flywheel.pool.access.decisions import (
    ACTIONS,
    ROLES,
    Grant,
    check_principal,
    narrow,
    needs_approval,
    standing,
    why_refused,
)
from flywheel.pool.filters import PointFilter
from flywheel.pool.settings import AccessSettings

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def grant(**terms: Any) -> Grant:
    whole: dict[str, Any] = {
        "id": 7,
        "principal": "alice",
        "role": "analyst",
        "tenants": None,
        "fields": "anonymized",
        "since": None,
        "until": None,
        "reason": "a test",
        "requested_at": NOW,
        "requested_by": "bob",
        "needs_approval": False,
        "approved_at": None,
        "approved_by": None,
        "expires_at": None,
        "revoked_at": None,
        "revoked_by": None,
        "revoked_because": None,
    }
    return Grant(**(whole | terms))


def test_a_grant_is_in_force_once_approved_until_it_ends() -> None:
    assert standing(grant(), now=NOW) == "in force"
    assert standing(grant(needs_approval=True), now=NOW) == "waiting for approval"
    assert standing(grant(needs_approval=True, approved_at=NOW), now=NOW) == "in force"
    assert standing(grant(expires_at=NOW + timedelta(microseconds=1)), now=NOW) == "in force"
    assert standing(grant(expires_at=NOW), now=NOW) == "expired"
    assert standing(grant(approved_at=NOW, revoked_at=NOW), now=NOW) == "revoked"


def test_every_role_has_an_action_and_every_refusal_says_why() -> None:
    assert {role for action in ACTIONS.values() for role in action.roles} == set(ROLES)
    assert why_refused(grant(), "points.read", now=NOW) == ""
    refusals = {
        "is for the role analyst; points.export needs rl-trainer": (grant(), "points.export"),
        "is for anonymized fields; quarantine.read shows lines": (grant(role="reviewer"), "quarantine.read"),
        "is for 2 tenants; statistics.read cannot be told apart": (grant(tenants=(A, B)), "statistics.read"),
        "is expired since 2026-06-01T00:00:00+00:00": (grant(expires_at=NOW), "points.read"),
        "is waiting for approval": (grant(needs_approval=True), "points.read"),
    }
    for words, (held, action) in refusals.items():
        assert words in why_refused(held, action, now=NOW)


def test_what_the_policy_names_waits_for_approval() -> None:
    policy = AccessSettings()
    waits = {
        (role, fields) for role in ROLES for fields in ("all", "anonymized") if needs_approval(policy, role, fields)
    }
    assert waits == {(role, "all") for role in ROLES} | {("reviewer", "anonymized"), ("admin", "anonymized")}
    assert not needs_approval(AccessSettings(approval_for_roles=(), approval_for_fields=()), "admin", "all")


def test_what_was_asked_is_cut_to_the_grant() -> None:
    held = grant(tenants=(A, B), since=NOW, until=NOW + 2 * HOUR)
    asked = PointFilter(tenants=(B, C), since=NOW + HOUR, agents=("x",), min_quality=0.0, success=False)
    assert narrow(asked, held) == PointFilter(
        tenants=(B,), since=NOW + HOUR, until=NOW + 2 * HOUR, agents=("x",), min_quality=0.0, success=False
    )
    assert narrow(PointFilter(), held) == PointFilter(tenants=(A, B), since=NOW, until=NOW + 2 * HOUR)
    assert narrow(asked, grant()) == asked


def test_nothing_left_is_refused_and_never_everything() -> None:
    with pytest.raises(AccessError, match="grant 7 of alice is for 2 tenants, and none of the 1 asked for"):
        narrow(PointFilter(tenants=(C,)), grant(tenants=(A, B)))
    with pytest.raises(AccessError, match=r"is for points before 2026-06-01.* those from 2026-06-01"):
        narrow(PointFilter(since=NOW), grant(until=NOW))


instants = st.none() | st.integers(0, 4).map(lambda hours: NOW + hours * HOUR)
tenants = st.lists(st.sampled_from((A, B, C)), unique=True).map(tuple)


def holds(points: PointFilter | Grant, tenant: str, at: datetime) -> bool:
    return (
        (not points.tenants or tenant in points.tenants)
        and (points.since is None or at >= points.since)
        and (points.until is None or at < points.until)
    )


@given(
    asked=st.builds(PointFilter, since=instants, until=instants, tenants=tenants),
    limits=st.tuples(instants, instants),
    of=tenants,
)
def test_a_point_is_left_if_it_was_asked_for_and_granted(
    asked: PointFilter, limits: tuple[datetime | None, datetime | None], of: tuple[str, ...]
) -> None:
    held = grant(tenants=of or None, since=limits[0], until=limits[1])
    points = [(tenant, NOW + hours * HOUR) for tenant in (A, B, C) for hours in range(-1, 6)]
    both = [point for point in points if holds(asked, *point) and holds(held, *point)]
    try:
        left = narrow(asked, held)
    except AccessError:
        assert not both
    else:
        assert [point for point in points if holds(left, *point)] == both


@pytest.mark.parametrize(
    "name",
    ["", "none", "public", "Alice", "pg_monitor", "flywheel_admin", "a" * 64, "a b", 'a"b', "1a", "current_user"],
)
def test_a_name_that_means_something_else_to_postgresql_is_no_principal(name: str) -> None:
    with pytest.raises(AccessError, match="cannot be a principal"):
        check_principal(name)


def test_an_address_is_a_principal() -> None:
    check_principal("alice@example.org")
