"""Requests, approvals, revocations, and the audit that remembers them."""

from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import (
    InsufficientPrivilege,
)

from flywheel.errors import AccessError
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.grants import approve, grant_of, list_grants, request_grant, revoke
from flywheel.pool.pool import BenchmarkPool
from tests.pool.access.conftest import (
    NOW,
    TERMS,
    Connected,
    Granted,
    count,
    entries,
    hashed,
    new_name,
)


def test_what_the_policy_wants_approved_waits_and_all_of_it_is_audited(pool: BenchmarkPool) -> None:
    name = new_name()
    grant = request_grant(pool, principal=name, role="reviewer", fields="all", **TERMS)
    assert (grant.needs_approval, grant.approved_at) == (True, None)
    assert approve(pool, grant.id, by="carol", now=NOW).approved_by == "carol"
    revoked = revoke(pool, grant.id, by="bob", reason="left", now=NOW)
    assert (revoked.revoked_by, revoked.revoked_because) == ("bob", "left")
    assert list_grants(pool, principal=name) == (revoked,)
    assert [(entry.principal, entry.action, entry.allowed, entry.reason) for entry in entries(pool, grant)] == [
        ("bob", "grant.request", True, "a test"),
        ("carol", "grant.approve", True, ""),
        ("bob", "grant.revoke", True, "left"),
    ]


@pytest.mark.parametrize("approver", ["asker", "principal"])
def test_four_eyes_see_an_approval_and_a_refused_one_is_audited(pool: BenchmarkPool, approver: str) -> None:
    grant = request_grant(pool, principal=new_name(), role="admin", **TERMS)
    by = grant.requested_by if approver == "asker" else grant.principal
    with pytest.raises(AccessError, match=f"{by} asked for grant {grant.id} or is given it; somebody else"):
        approve(pool, grant.id, by=by, now=NOW)
    assert grant_of(pool, grant.id).approved_at is None
    (refused,) = list_audit(pool, refused=True)
    assert (refused.principal, refused.action, refused.asked) == (by, "grant.approve", {"grant": grant.id})


def test_a_decided_grant_is_decided(pool: BenchmarkPool) -> None:
    grant = request_grant(pool, principal=new_name(), role="analyst", **TERMS)
    with pytest.raises(AccessError, match="is in force; only one that waits"):
        approve(pool, grant.id, by="carol", now=NOW)
    revoke(pool, grant.id, by="carol", reason="", now=NOW)
    with pytest.raises(AccessError, match="was revoked at"):
        revoke(pool, grant.id, by="carol", reason="", now=NOW)
    with pytest.raises(AccessError, match="there is no grant 99"):
        approve(pool, 99, by="carol", now=NOW)


def test_tenants_are_kept_as_hashes_and_the_unkeyed_ones_for_reviewers_only(pool: BenchmarkPool) -> None:
    grant = request_grant(pool, principal=new_name(), role="analyst", tenants=["acme"], **TERMS)
    request_grant(pool, principal=new_name(), role="reviewer", tenants=["acme"], **TERMS)
    assert grant.tenants == (hashed(pool, "acme"),)
    with pool.transaction() as connection:
        rows = connection.execute("SELECT role, tenant_keys IS NULL FROM access_grants ORDER BY id").fetchall()
        everything = connection.execute(
            "SELECT (SELECT string_agg(g::text, '') FROM access_grants g), string_agg(a::text, '') FROM access_audit a"
        ).fetchone()
    assert rows == [("analyst", True), ("reviewer", False)]
    assert everything is not None
    assert "acme" not in "".join(everything)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"reason": " "}, "says who asks and why"),
        ({"tenants": []}, "for no tenant"),
        ({"since": NOW, "until": NOW}, "is empty"),
        ({"expires_at": NOW}, "which is past"),
        ({"principal": "postgres"}, "is a superuser"),
        ({"principal": "none"}, "cannot be a principal"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(pool: BenchmarkPool, terms: dict[str, Any], words: str) -> None:
    with pytest.raises(AccessError, match=words):
        request_grant(pool, **{"principal": new_name(), "role": "analyst", **TERMS, **terms})
    assert list_grants(pool) == ()


def test_the_audit_only_grows_for_everybody(filled: BenchmarkPool, granted: Granted, connected: Connected) -> None:
    admin = connected(granted("admin"))
    assert count(admin, "access_audit") > 0
    for statement in (
        "DELETE FROM access_audit",
        "UPDATE access_audit SET principal = 'nobody'",
        "TRUNCATE access_audit",
        "DELETE FROM access_grants",
        "TRUNCATE access_grants CASCADE",
    ):
        with pytest.raises(InsufficientPrivilege):
            admin.execute(statement)
        with filled.transaction() as connection:
            connection.execute("SET LOCAL session_replication_role = replica")
            with pytest.raises(InsufficientPrivilege), connection.transaction():
                connection.execute(statement)
    with pytest.raises(InsufficientPrivilege):
        admin.execute("INSERT INTO access_audit (principal, action, allowed) VALUES ('nobody', 'points.read', true)")
    with filled.transaction() as connection:
        connection.execute(
            "INSERT INTO access_audit (at, session, principal, action, allowed)"
            " VALUES ('2020-01-01', 'nobody', 'nobody', 'points.read', true)"
        )
        row = connection.execute(
            "SELECT at > now() - interval '1 minute', session FROM access_audit ORDER BY id DESC LIMIT 1"
        ).fetchone()
    assert row == (True, "postgres")


def test_an_admin_signs_with_its_own_name_and_needs_a_second(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    first, second = granted("admin"), granted("admin")
    one, other = connected(first), connected(second)
    row = one.execute(
        "INSERT INTO access_grants (principal, role, fields, reason, requested_at, requested_by, needs_approval)"
        " VALUES (%s, 'analyst', 'anonymized', 'mine', '2020-01-01', 'somebody', false)"
        " RETURNING id, requested_by, needs_approval, requested_at > now() - interval '1 minute'",
        (new_name(),),
    ).fetchone()
    assert row is not None
    assert row[1:] == (first.principal, True, True)
    sign = "UPDATE access_grants SET approved_at = now(), approved_by = 'somebody' WHERE id = %s RETURNING approved_by"
    with pytest.raises(psycopg.errors.CheckViolation, match="four_eyes"):
        one.execute(sign, (row[0],))
    assert other.execute(sign, (row[0],)).fetchone() == (second.principal,)
    for column in ("tenants = NULL", "expires_at = NULL", "principal = current_user", "needs_approval = false"):
        with pytest.raises(InsufficientPrivilege):
            other.execute(sql.SQL("UPDATE access_grants SET " + column))
    with pytest.raises(InsufficientPrivilege, match="was decided already"):
        other.execute("UPDATE access_grants SET approved_at = NULL, approved_by = NULL WHERE id = %s", (row[0],))
    entries = one.execute(
        "SELECT principal, action, session FROM access_audit WHERE grant_id = %s ORDER BY id", (row[0],)
    ).fetchall()
    assert entries == [
        (first.principal, "grant.request", first.principal),
        (second.principal, "grant.approve", second.principal),
    ]


def test_the_owner_cannot_change_a_grant_either(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst", tenants=["acme"])
    with pytest.raises(InsufficientPrivilege, match="cannot be changed"), filled.transaction() as connection:
        connection.execute("UPDATE access_grants SET tenants = NULL WHERE id = %s", (grant.id,))
