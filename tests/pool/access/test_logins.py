"""Logins, their roles on the server, and services with fewer rights."""

import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from flywheel.database import downgrade, upgrade, url_with
from flywheel.errors import AccessError
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.decisions import GROUPS
from flywheel.pool.access.grants import request_grant, revoke
from flywheel.pool.access.logins import make_login
from flywheel.pool.access.reading import read_as
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings
from tests.pool.access.conftest import NOW, POINTS, TERMS, Connected, Granted, hot_ids, new_name


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
