"""Grants, logins, tokens and reads through the service."""

import os
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from flywheel.database import downgrade, upgrade, url_with
from flywheel.errors import AccessError
from flywheel.pool.access.audit import AuditEntry, list_audit
from flywheel.pool.access.decisions import GROUPS, Grant
from flywheel.pool.access.grants import approve, grant_of, list_grants, request_grant, revoke
from flywheel.pool.access.logins import make_login
from flywheel.pool.access.principals import as_principal
from flywheel.pool.access.reading import read_as
from flywheel.pool.access.tokens import Refusal, authenticate, issue_token, revoke_token
from flywheel.pool.filters import PointFilter
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.validation import validate_day
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings
from tests.pool.access.conftest import POINTS, Connected, Granted, hashed, new_name
from tests.pool.logs import NOON, task_logs, write_segment

NOW = datetime.now(UTC)
TERMS: dict[str, Any] = {"by": "bob", "reason": "a test", "now": NOW}


def entries(pool: BenchmarkPool, grant: Grant) -> list[AuditEntry]:
    """What the audit holds about a grant, oldest first."""
    return [entry for entry in reversed(list_audit(pool)) if entry.grant_id == grant.id]


def hot_ids(pool: BenchmarkPool, wanted: PointFilter) -> list[str]:
    """Ids of hot points; asks PostgreSQL for everything, whatever is wanted."""
    with pool.transaction() as connection:
        return [name for (name,) in connection.execute("SELECT id FROM hot_points ORDER BY id")]


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


def test_a_role_that_grants_would_not_bind_is_no_principal(pool: BenchmarkPool) -> None:
    reader, team, member = new_name(), new_name(), new_name()
    with pool.transaction() as connection:
        for name in (reader, team, member):
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("GRANT pg_read_all_data TO {}").format(sql.Identifier(reader)))
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(team), sql.Identifier(member)))
    for name, words in ((reader, "is a member of, pg_read_all_data"), (team, f"has 1 members \\({member}\\)")):
        with pytest.raises(AccessError, match=words):
            request_grant(pool, principal=name, role="analyst", **TERMS)


def test_a_login_needs_a_grant_and_its_password_is_shown_once(filled: BenchmarkPool, granted: Granted) -> None:
    with pytest.raises(AccessError, match="has no grant in force"):
        make_login(filled, new_name(), by="bob", now=NOW)
    ends = datetime.now(UTC) + timedelta(days=1)
    grant = granted("analyst", expires_at=ends)
    first = make_login(filled, grant.principal, by="bob", now=NOW)
    assert first.password is not None
    assert make_login(filled, grant.principal, by="bob", now=NOW).password is None
    second = make_login(filled, grant.principal, by="bob", now=NOW, new_password=True)
    assert second.password not in (None, first.password)
    with filled.transaction() as connection:
        row = connection.execute(
            "SELECT rolpassword, rolvaliduntil FROM pg_authid WHERE rolname = %s", (grant.principal,)
        ).fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")
    assert row[1] == ends
    actions = [entry.action for entry in list_audit(filled) if entry.asked.get("principal") == grant.principal]
    assert actions.count("login.make") == 3


def test_an_existing_login_keeps_its_password_and_its_validity(filled: BenchmarkPool, granted: Granted) -> None:
    name = new_name()
    with filled.transaction() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'own'").format(sql.Identifier(name)))
    grant = granted("analyst", principal=name, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert make_login(filled, name, by="bob", now=NOW).password is None
    with psycopg.connect(filled.settings.database_url, user=name) as session:
        assert session.execute("SELECT count(*) FROM hot_points").fetchone() == (2 * POINTS,)
    revoke(filled, grant.id, by="bob", reason="", now=NOW)
    with filled.transaction() as connection:
        row = connection.execute(
            "SELECT rolcanlogin, rolvaliduntil FROM pg_roles WHERE rolname = %s", (name,)
        ).fetchone()
    assert row == (True, None)


def test_memberships_follow_the_grants(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    other = granted("arbiter", principal=grant.principal)
    make_login(filled, grant.principal, by="bob", now=NOW)

    def held() -> set[str]:
        with filled.transaction() as connection:
            has = "SELECT name FROM unnest(%s::text[]) AS name WHERE pg_has_role(%s, name, 'USAGE')"
            return {name for (name,) in connection.execute(has, (list(GROUPS.values()), grant.principal))}

    assert held() == {"flywheel_analyst", "flywheel_arbiter"}
    revoke(filled, grant.id, by="bob", reason="", now=NOW)
    assert held() == {"flywheel_arbiter"}
    revoke(filled, other.id, by="bob", reason="", now=NOW)
    assert held() == set()


def test_a_login_says_what_the_installation_leaves_open(
    filled: BenchmarkPool, granted: Granted, tmp_path: Path
) -> None:
    lake = tmp_path / "open-lake"
    lake.mkdir(mode=0o755)
    opened = BenchmarkPool(filled.engine, filled.lake, filled.settings.model_copy(update={"lake_url": str(lake)}))
    with filled.transaction() as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    said = " ".join(make_login(opened, granted("analyst").principal, by="bob", now=NOW).weaknesses)
    for words in (
        "asks for no password (pg_hba.conf trusts",
        "other databases of the server; run REVOKE CONNECT ON DATABASE",
        "may create objects in the schema public",
        f"{lake} is open to other users of this machine (mode 755)",
    ):
        assert words in said
    assert "not logged" not in said
    assert "does not name the user" not in said


@pytest.fixture
def service(filled: BenchmarkPool) -> BenchmarkPool:
    """The pool as a service sees it whose user is no superuser, as on a managed server."""
    name = new_name()
    with filled.transaction() as connection:
        role = sql.Identifier(name)
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE").format(role))
        for group in GROUPS.values():
            connection.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(sql.Identifier(group), role))
        tables = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        for table in (*tables, "access_in_force"):
            connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(sql.Identifier(table), role))
        for function in ("audit_access_grants", "audit_access_tokens"):
            connection.execute(sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(sql.Identifier(function), role))
        database = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
    url = psycopg.conninfo.conninfo_to_dict(filled.settings.database_url)
    database_url = f"postgresql://{name}@/{url['dbname']}?host={url['host']}"
    return BenchmarkPool.open(filled.settings.model_copy(update={"database_url": database_url}))


def test_a_service_that_is_no_superuser_says_what_it_cannot_log(service: BenchmarkPool) -> None:
    with service:
        grant = request_grant(service, principal=new_name(), role="analyst", tenants=["acme"], **TERMS)
        (said,) = [
            s for s in make_login(service, grant.principal, by="bob", now=NOW).weaknesses if "log_statement" in s
        ]
        assert "or on a managed server install pgaudit" in said
        found = read_as(service, grant, "points.read", hot_ids, now=NOW)
        assert found == [f"acme-{hour}" for hour in range(POINTS)]
        assert hot_ids(service, PointFilter()) == sorted(
            f"{tenant}-{hour}" for tenant in ("acme", "globex") for hour in range(POINTS)
        )
        with psycopg.connect(service.settings.database_url, user=grant.principal, autocommit=True) as session:
            assert session.execute("SELECT count(*) FROM hot_points").fetchone() == (POINTS,)
            revoke(service, grant.id, by="bob", reason="", now=NOW)
            with pytest.raises(psycopg.OperationalError):
                session.execute("SELECT 1")


def test_a_service_without_the_rights_for_roles_says_which_and_grants_hold_all_the_same(
    filled: BenchmarkPool, service: BenchmarkPool
) -> None:
    grant = request_grant(filled, principal=new_name(), role="analyst", tenants=["acme"], **TERMS)
    make_login(filled, grant.principal, by="bob", now=NOW)
    with filled.transaction() as connection:
        role = sql.Identifier(str(service.engine.url.username))
        connection.execute(sql.SQL("REVOKE ADMIN OPTION FOR flywheel_arbiter FROM {}").format(role))
        connection.execute(sql.SQL("REVOKE ADMIN OPTION FOR flywheel_analyst FROM {}").format(role))
    with service, psycopg.connect(filled.settings.database_url, user=grant.principal, autocommit=True) as session:
        with pytest.raises(AccessError, match="needs CREATEROLE, ADMIN OPTION on"):
            request_grant(service, principal=grant.principal, role="arbiter", **TERMS)
        with pytest.raises(AccessError, match="could not be ended, everything else is done"):
            revoke(service, grant.id, by="bob", reason="", now=NOW)
        assert session.execute("SELECT count(*) FROM hot_points").fetchone() == (0,)


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


def test_a_token_lets_in_its_grant_until_it_or_the_grant_ends(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    token = issue_token(filled, grant.id, by="bob", now=NOW)
    assert authenticate(filled, token.token, now=NOW) == grant
    assert token.expires_at == NOW + timedelta(days=filled.settings.access.token_days)
    assert "ended at" in refused(filled, token.token, now=token.expires_at)
    with filled.transaction() as connection:
        stored = connection.execute("SELECT t::text FROM access_tokens t").fetchall()
    assert len(stored) == 1
    assert token.token.rpartition("_")[2] not in stored[0][0]
    revoke_token(filled, token.id, by="bob", now=NOW)
    assert "the token was revoked" in refused(filled, token.token)
    with pytest.raises(AccessError, match="there is no token"):
        revoke_token(filled, token.id, by="bob", now=NOW)
    second = issue_token(filled, grant.id, by="bob", now=NOW)
    revoke(filled, grant.id, by="bob", reason="", now=NOW)
    assert f"grant {grant.id} is revoked" in refused(filled, second.token)
    assert [entry.action for entry in entries(filled, grant) if entry.action.startswith("token")] == [
        "token.issue",
        "token.revoke",
        "token.issue",
    ]


def refused(pool: BenchmarkPool, token: str, *, now: datetime = NOW) -> str:
    answer = authenticate(pool, token, now=now)
    assert isinstance(answer, Refusal)
    return answer.reason


def test_a_wrong_token_learns_nothing_and_only_real_ones_fill_the_audit(
    filled: BenchmarkPool, granted: Granted
) -> None:
    grant = granted("analyst")
    token = issue_token(filled, grant.id, by="bob", now=NOW).token
    before = len(list_audit(filled))
    unknown = f"fwt_{'0' * 12}_{token.rpartition('_')[2]:0<43}"
    for guess in ("", "x", "fwt__", token[:-1], token + "x", unknown, "fwt_\0", "\ud800"):
        assert refused(filled, guess) == "the token is not known here"
    assert len(list_audit(filled)) == before
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert refused(filled, wrong) == "the token is not known here"
    assert entries(filled, grant)[-1].reason == "the secret of the token is wrong"


def test_a_token_ends_with_its_grant_and_a_waiting_grant_has_none(pool: BenchmarkPool) -> None:
    ends = NOW + timedelta(days=2)
    grant = request_grant(pool, principal=new_name(), role="analyst", expires_at=ends, **TERMS)
    assert issue_token(pool, grant.id, by="bob", now=NOW).expires_at == ends
    waiting = request_grant(pool, principal=new_name(), role="admin", **TERMS)
    with pytest.raises(AccessError, match="is waiting for approval; it gets no token"):
        issue_token(pool, waiting.id, by="bob", now=NOW)


def test_a_principal_of_tokens_cannot_log_in(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    issue_token(filled, grant.id, by="bob", now=NOW)
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        psycopg.connect(filled.settings.database_url, user=grant.principal)


def test_the_lake_is_made_for_its_owner_alone(pool: BenchmarkPool) -> None:
    previous = os.umask(0)
    try:
        write_segment(pool.settings, "a", task_logs("t1"))
        index_segments(pool, now=NOON + timedelta(days=1))
        validate_day(pool, NOON.date(), now=NOON + timedelta(days=1))
    finally:
        os.umask(previous)
    assert stat.S_IMODE((pool.settings.home / "lake").stat().st_mode) == 0o700


def test_going_down_takes_rights_back_and_leaves_roles_that_others_use(
    settings: Settings, database_url: str, connected: Connected, granted: Granted
) -> None:
    session = connected(granted("analyst"))
    downgrade(database_url, "0007_erasures")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("SELECT count(*) FROM hot_points")
    with psycopg.connect(database_url) as connection:
        left = connection.execute("SELECT count(*) FROM pg_roles WHERE rolname = ANY (%s)", (list(GROUPS.values()),))
        assert left.fetchone() == (len(GROUPS),)  # the template's tables name them
        secured = "SELECT count(*) FROM pg_class WHERE relrowsecurity"
        assert connection.execute(secured).fetchone() == (0,)
    upgrade(database_url)
    assert settings.database_url == database_url


def test_databases_of_one_server_share_the_roles_and_the_last_one_drops_them() -> None:
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "data")
        url = server.start()
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                names = ("one", "two", "three")
                for name in names:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                urls = [url_with(url, driver="", database=name) for name in names]
                migrate = "import sys; from flywheel.database import upgrade; upgrade(sys.argv[1])"
                started = [subprocess.Popen([sys.executable, "-c", migrate, each]) for each in urls]
                assert [process.wait() for process in started] == [0, 0, 0]
                for left, each in ((5, urls[0]), (5, urls[1]), (0, urls[2])):
                    downgrade(each, "0007_erasures")
                    roles = "SELECT count(*) FROM pg_roles WHERE rolname = ANY (%s)"
                    assert connection.execute(roles, (list(GROUPS.values()),)).fetchone() == (left,)
        finally:
            server.stop()
