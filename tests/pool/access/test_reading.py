"""Reads and decisions of principals through the service."""

import os
import stat
from datetime import timedelta

import pytest

from flywheel.errors import AccessError
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.grants import approve, request_grant, revoke
from flywheel.pool.access.logins import make_login
from flywheel.pool.access.principals import as_principal
from flywheel.pool.access.reading import read_as
from flywheel.pool.access.tokens import issue_token
from flywheel.pool.filters import PointFilter
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.validation import validate_day
from tests.pool.access.conftest import NOW, TERMS, Granted, entries, hashed, hot_ids, new_name
from tests.pool.logs import NOON, task_logs, write_segment


def test_a_read_is_narrowed_bound_and_audited_before_it_is_given_out(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst", tenants=["acme"], since=NOON + timedelta(hours=1))
    issue_token(filled, grant.id, by="bob", now=NOW)
    handed: list[PointFilter] = []

    def read(pool: BenchmarkPool, wanted: PointFilter) -> list[str]:
        handed.append(wanted)
        return hot_ids(pool, wanted)

    asked = PointFilter(agents=("agent-of-acme",))
    assert read_as(filled, grant, "points.read", read, now=NOW, asked=asked) == ["acme-1", "acme-2"]
    (narrowed,) = handed
    assert (narrowed.tenants, narrowed.since) == ((hashed(filled, "acme"),), NOON + timedelta(hours=1))
    entry = entries(filled, grant)[-1]
    assert (entry.principal, entry.role, entry.action, entry.rows, entry.allowed) == (
        grant.principal,
        "analyst",
        "points.read",
        2,
        True,
    )
    assert entry.asked == {"agents": ["agent-of-acme"]}


def test_a_refused_read_asks_nothing_and_is_audited(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst", tenants=["acme"])
    make_login(filled, grant.principal, by="bob", now=NOW)

    def never(pool: BenchmarkPool, wanted: PointFilter) -> list[str]:
        raise AssertionError

    theirs = PointFilter(tenants=(hashed(filled, "globex"),))
    for action, asked, words in (
        ("points.export", None, "is for the role analyst"),
        ("points.read", theirs, "none of the 1 asked for"),
    ):
        with pytest.raises(AccessError, match=words):
            read_as(filled, grant, action, never, now=NOW, asked=asked)
        assert words in list_audit(filled, principal=grant.principal, refused=True)[0].reason
    with pytest.raises(AccessError, match="PostgreSQL refuses this to"):  # a mistake in the service's own code
        read_as(filled, grant, "points.read", lambda pool, wanted: list_quarantine(pool), now=NOW)
    assert list_audit(filled, principal=grant.principal, refused=True)[0].reason.startswith("PostgreSQL refuses")


def test_a_grant_revoked_after_the_caller_was_let_in_reads_nothing(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    issue_token(filled, grant.id, by="bob", now=NOW)
    revoke(filled, grant.id, by="bob", reason="", now=NOW)
    with pytest.raises(AccessError, match="is revoked since"):
        read_as(filled, grant, "points.read", hot_ids, now=NOW)


def test_a_principal_without_a_role_is_told_what_to_do(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    with pytest.raises(AccessError, match=f"no role {grant.principal}; `flywheel access login {grant.principal}`"):
        hot_ids(as_principal(filled, grant), PointFilter())


def test_an_admin_decides_through_the_service_with_its_own_name(filled: BenchmarkPool, granted: Granted) -> None:
    admin = granted("admin")
    issue_token(filled, admin.id, by="bob", now=NOW)
    asked = request_grant(filled, principal=new_name(), role="reviewer", **TERMS)
    bound = as_principal(filled, admin)
    assert approve(bound, asked.id, by="somebody", now=NOW).approved_by == admin.principal
    own = request_grant(bound, principal=new_name(), role="analyst", **TERMS)
    assert (own.requested_by, own.needs_approval) == (admin.principal, True)
    with pytest.raises(AccessError, match="somebody else has to approve it"):
        approve(bound, own.id, by="somebody", now=NOW)
    analyst = granted("analyst")
    issue_token(filled, analyst.id, by="bob", now=NOW)
    with pytest.raises(AccessError, match="PostgreSQL refuses this"):
        approve(as_principal(filled, analyst), own.id, by="somebody", now=NOW)


def test_the_lake_is_made_for_its_owner_alone(pool: BenchmarkPool) -> None:
    previous = os.umask(0)
    try:
        write_segment(pool.settings, "a", task_logs("t1"))
        index_segments(pool, now=NOON + timedelta(days=1))
        validate_day(pool, NOON.date(), now=NOON + timedelta(days=1))
    finally:
        os.umask(previous)
    assert stat.S_IMODE((pool.settings.home / "lake").stat().st_mode) == 0o700
