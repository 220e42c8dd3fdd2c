"""Grants and tokens while the tenant salt is rotated: a tenant's points are shown under both hashes, others' never."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from flywheel.errors import AccessError, PoolError
from flywheel.pool.access.decisions import Grant, narrow
from flywheel.pool.access.grants import approve, grant_of, request_grant
from flywheel.pool.access.reading import read_as
from flywheel.pool.access.tokens import Refusal, authenticate, issue_token
from flywheel.pool.anonymization.tenants import salts_of
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.pool.salt_rotation import finish_rotation, rotate_salt
from tests.pool.access.conftest import (
    POINTS,
    TENANTS,
    TERMS,
    Connected,
    Granted,
    entries,
    hashed,
    hot_ids,
    ids,
    new_name,
)

ACME = {f"acme-{hour}" for hour in range(POINTS)}


def now() -> datetime:
    return datetime.now(UTC)


def rotate(pool: BenchmarkPool) -> None:
    """Begin, and let the first of each tenant's points come under the new salt."""
    rotate_salt(pool, now=now(), by="bob", names=TENANTS)
    with pool.transaction() as connection:
        for tenant in TENANTS:
            connection.execute(
                "UPDATE hot_points SET tenant_id = %s WHERE id = %s", (hashed(pool, tenant), f"{tenant}-0")
            )


def finish(pool: BenchmarkPool) -> None:
    """Let the others follow, and forget the former salt."""
    with pool.transaction() as connection:
        for tenant in TENANTS:
            connection.execute(
                "UPDATE hot_points SET tenant_id = %s WHERE id LIKE %s", (hashed(pool, tenant), f"{tenant}-%")
            )
    finish_rotation(pool, now=now(), by="bob", names=TENANTS)


def test_a_grant_shows_its_tenants_points_under_both_hashes_and_no_others(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    before = granted("analyst", tenants=["acme"])
    session = connected(before)
    rotate(filled)
    during = granted("analyst", tenants=["acme"])
    for shown in (session, connected(during)):
        assert ids(shown) == ACME
        assert shown.execute("SELECT count(DISTINCT tenant_id) FROM hot_points").fetchone() == (2,)
        theirs = list(salts_of(filled.settings).hashes("globex"))
        assert shown.execute("SELECT id FROM hot_points WHERE tenant_id = ANY(%s)", (theirs,)).fetchall() == []
    for grant in (before, during):
        assert set(read_as(filled, grant, "points.read", hot_ids, now=now())) == ACME
    finish(filled)
    for grant in (before, during):
        stored = grant_of(filled, grant.id)
        assert (stored.tenants, stored.aliases) == ((hashed(filled, "acme"),), ())
    assert ids(session) == ACME


def test_a_filter_by_either_hash_is_cut_to_the_grant_and_finds_all(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst", tenants=["acme"])
    issue_token(filled, grant.id, by="bob", now=now())  # makes the role
    rotate(filled)
    current = grant_of(filled, grant.id)

    def found(pool: BenchmarkPool, where: PointFilter) -> list[str]:
        rows: list[str] = pool.get_points(PointQuery(where=where, columns=("id",))).table().column("id").to_pylist()
        return rows

    both = salts_of(filled.settings).hashes("acme")
    for asked in (*both, ""):
        where = PointFilter(tenants=(asked,) if asked else ())
        assert set(read_as(filled, grant, "points.read", found, now=now(), asked=where)) == ACME
    for theirs in salts_of(filled.settings).hashes("globex"):
        with pytest.raises(AccessError, match="is for 1 tenant, and none of the 1 asked for"):
            narrow(PointFilter(tenants=(theirs,)), current)


def test_a_grant_asked_for_in_sql_by_one_hash_shows_both_once_it_is_approved(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    old = hashed(filled, "acme")
    admin = connected(granted("admin"))
    rotate(filled)
    name = new_name()
    admin.execute(
        "INSERT INTO access_grants (principal, role, tenants, fields, reason, requested_at, requested_by)"
        " VALUES (%s, 'analyst', %s, 'anonymized', 'a test', now(), 'me')",
        (name, [old]),
    )
    with filled.transaction() as connection:
        row = connection.execute("SELECT id FROM access_grants WHERE principal = %s", (name,)).fetchone()
    assert row is not None
    grant = approve(filled, row[0], by="approver", now=now())
    assert ids(connected(grant)) == ACME


def test_the_guard_lets_nobody_change_whose_points_a_grant_shows(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    grant, everyone = granted("analyst", tenants=["acme"]), granted("analyst")
    admin = connected(granted("admin"))
    rotate(filled)
    globex, acme = hashed(filled, "globex"), hashed(filled, "acme")
    changes: list[tuple[str, object, Grant]] = [
        ("tenants", [globex], grant),
        ("tenants", [acme, globex], grant),
        ("tenants", None, grant),
        ("aliases", [globex], grant),
        ("tenants", [acme], everyone),
    ]
    for column, value, changed in changes:
        with (
            pytest.raises(InsufficientPrivilege, match="to be for other tenants"),
            filled.transaction() as connection,
        ):
            connection.execute(f"UPDATE access_grants SET {column} = %s WHERE id = %s", (value, changed.id))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute(f"UPDATE access_grants SET {column} = %s WHERE id = %s", (value, changed.id))
    assert {entry.action for entry in entries(filled, grant)} == {"grant.request"}


def test_a_grant_whose_tenant_nobody_names_holds_the_former_salt(filled: BenchmarkPool) -> None:
    terms = {**TERMS, "now": now()}
    grant = request_grant(filled, principal=new_name(), role="analyst", tenants=["initech"], **terms)
    rotate(filled)
    with pytest.raises(PoolError, match=rf"1 grants carry it.*grants {grant.id}\."):
        finish(filled)
    rotate_salt(filled, now=now(), by="bob", names=["initech"])
    finish(filled)
    assert grant_of(filled, grant.id).tenants == (hashed(filled, "initech"),)


def test_a_token_is_good_under_both_salts_and_comes_under_the_present_one_when_it_is_used(
    filled: BenchmarkPool, granted: Granted
) -> None:
    grant = granted("analyst", tenants=["acme"])
    used, unused = (issue_token(filled, grant.id, by="bob", now=now()) for _ in range(2))
    rotate(filled)
    during = issue_token(filled, grant.id, by="bob", now=now())
    for token in (used, used, during):
        assert isinstance(authenticate(filled, token.token, now=now()), Grant)
    assert isinstance(authenticate(filled, used.token[:-1] + "?", now=now()), Refusal)
    with pytest.raises(PoolError, match=rf"1 tokens carry it.*others for {unused.id}"):
        finish(filled)
    assert isinstance(authenticate(filled, unused.token, now=now()), Grant)
    finish(filled)
    for token in (used, unused, during):
        assert isinstance(authenticate(filled, token.token, now=now()), Grant)
        assert isinstance(authenticate(filled, token.token, now=now() + timedelta(days=91)), Refusal)
    assert [entry.action for entry in entries(filled, grant)].count("token.revoke") == 0
