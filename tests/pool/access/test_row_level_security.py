"""What PostgreSQL itself holds: sessions of principals that try to get around their grants."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    OperationalError,
    RaiseException,
)

from flywheel.database import url_with
from flywheel.errors import AccessError
from flywheel.pool.access.decisions import GROUPS, Role
from flywheel.pool.access.grants import approve, request_grant, revoke
from flywheel.pool.access.logins import make_login
from flywheel.pool.access.principals import as_principal
from flywheel.pool.batches import list_batches
from flywheel.pool.overview import list_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.statistics import agent_statistics
from flywheel.services.postgres import ensure_databases
from tests.pool.access.conftest import DAY, POINTS, TENANTS, Connected, Granted, Session, hashed, new_name
from tests.pool.logs import NOON

TABLES = (
    "hot_points",
    "batches",
    "batch_points",
    "agent_statistics",
    "task_type_profiles",
    "tier_days",
    "quarantine",
    "segments",
    "tasks",
    "halts",
    "erasures",
    "agents",
    "bandit_state",
    "task_outcomes",
    "alias_history",
    "access_grants",
    "access_audit",
    "alembic_version",
)
READABLE: dict[Role, set[str]] = {
    "rl-trainer": {"hot_points", "batches", "batch_points"},
    "analyst": {"hot_points", "agent_statistics", "tier_days"},
    "arbiter": {"agent_statistics", "task_type_profiles"},
    "reviewer": {"quarantine"},
    "admin": {"access_grants", "access_audit"},
}


def count(session: Session, table: str) -> int:
    row = session.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def ids(session: Session) -> set[str]:
    return {name for (name,) in session.execute("SELECT id FROM hot_points")}


@pytest.fixture
def analyst(granted: Granted, connected: Connected) -> Session:
    """A session of an analyst for one of the two tenants."""
    return connected(granted("analyst", tenants=["acme"]))


@pytest.mark.parametrize("role", READABLE)
def test_a_role_reads_what_it_needs_and_nothing_else(role: Role, granted: Granted, connected: Connected) -> None:
    session = connected(granted(role, fields="all"))
    for table in TABLES:
        if table in READABLE[role]:
            assert count(session, table) > 0
        else:
            with pytest.raises(InsufficientPrivilege, match=f"permission denied for table {table}"):
                count(session, table)


def test_columns_that_tell_more_than_a_role_needs_are_out_of_reach(granted: Granted, connected: Connected) -> None:
    analyst, admin = connected(granted("analyst")), connected(granted("admin"))
    assert analyst.execute("SELECT lines, points FROM days").fetchall() == [(0, 0)]
    assert admin.execute("SELECT id, grant_id FROM access_tokens").fetchall() == []
    for session, statement in ((analyst, "SELECT report FROM days"), (admin, "SELECT digest FROM access_tokens")):
        with pytest.raises(InsufficientPrivilege):
            session.execute(statement)


@pytest.mark.parametrize("role", READABLE)
def test_no_role_writes_into_the_pool(role: Role, granted: Granted, connected: Connected) -> None:
    session = connected(granted(role, fields="all"))
    for table in sorted(READABLE[role] - {"access_grants"}):
        for statement in ("DELETE FROM {}", "TRUNCATE {}", "INSERT INTO {} SELECT * FROM {}", "DROP TABLE {}"):
            name = sql.Identifier(table)
            with pytest.raises(InsufficientPrivilege):
                session.execute(sql.SQL(statement).format(name, name))


def test_the_other_tenants_points_are_not_there(analyst: Session, filled: BenchmarkPool) -> None:
    theirs = hashed(filled, "globex")
    assert ids(analyst) == {f"acme-{hour}" for hour in range(POINTS)}
    assert count(analyst, "hot_points") == POINTS
    assert analyst.execute("SELECT id FROM hot_points WHERE tenant_id = %s", (theirs,)).fetchall() == []
    assert analyst.execute("SELECT id FROM hot_points WHERE id = 'globex-0'").fetchall() == []
    joined = "SELECT count(*) FROM hot_points a JOIN hot_points b ON a.id <> b.id OR a.tenant_id <> b.tenant_id"
    assert analyst.execute(joined).fetchone() == (POINTS * (POINTS - 1),)
    assert analyst.execute("SELECT count(DISTINCT tenant_id) FROM hot_points").fetchone() == (1,)


def test_a_function_of_the_principal_is_asked_about_no_hidden_row(analyst: Session) -> None:
    """PostgreSQL would ask the cheaper condition first, were the policy not a barrier."""
    seen: list[str] = []
    analyst.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
    analyst.execute(
        "CREATE FUNCTION pg_temp.tell(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
        " $$ BEGIN RAISE NOTICE '%', value; RETURN true; END $$"
    )
    analyst.execute("SELECT count(*) FROM hot_points WHERE pg_temp.tell(payload)")
    assert seen == ['{"secret of": "acme"}'] * POINTS
    assert analyst.execute("SELECT count(*) FROM hot_points WHERE 1 / (CASE id WHEN 'globex-0' THEN 0 ELSE 1 END) = 1")
    with pytest.raises(InsufficientPrivilege, match="only superuser can define a leakproof function"):
        analyst.execute("ALTER FUNCTION pg_temp.tell LEAKPROOF")


def test_nobody_takes_another_role(
    analyst: Session, granted: Granted, connected: Connected, filled: BenchmarkPool
) -> None:
    other = granted("analyst", tenants=["globex"])
    connected(other)
    me = analyst.info.user
    for role in (other.principal, "postgres", "pg_read_all_data", "pg_database_owner", *GROUPS.values()):
        for statement in ("SET ROLE {}", "SET SESSION AUTHORIZATION {}"):
            with pytest.raises(InsufficientPrivilege):
                analyst.execute(sql.SQL(statement).format(sql.Identifier(role)))
        with pytest.raises((InsufficientPrivilege, FeatureNotSupported)):
            analyst.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(me)))
    for statement in ("RESET ROLE", "SET ROLE NONE", "RESET SESSION AUTHORIZATION", "RESET ALL", "DISCARD ALL"):
        analyst.execute(statement)
        assert count(analyst, "hot_points") == POINTS
    for attribute in ("SUPERUSER", "BYPASSRLS", "CREATEROLE", "REPLICATION", "VALID UNTIL 'infinity'"):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(sql.SQL("ALTER ROLE {} " + attribute).format(sql.Identifier(me)))


def test_a_member_that_may_take_the_group_sees_nothing_as_the_group(analyst: Session, filled: BenchmarkPool) -> None:
    """Servers before PostgreSQL 16 know no other memberships."""
    with filled.transaction() as connection:
        grant = sql.SQL("GRANT flywheel_analyst TO {} WITH SET TRUE")
        connection.execute(grant.format(sql.Identifier(analyst.info.user)))
    analyst.execute("SET ROLE flywheel_analyst")
    assert count(analyst, "hot_points") == 0


def test_row_security_cannot_be_turned_off(analyst: Session) -> None:
    analyst.execute("SET row_security = off")
    with pytest.raises(InsufficientPrivilege, match="would be affected by row-level security"):
        count(analyst, "hot_points")
    for statement in (
        "ALTER TABLE hot_points DISABLE ROW LEVEL SECURITY",
        "DROP POLICY of_grants ON hot_points",
        "CREATE POLICY mine ON hot_points USING (true)",
        "SET session_replication_role = replica",
        "CREATE OR REPLACE VIEW access_in_force AS SELECT 1",
    ):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(statement)


def test_a_principal_sees_its_own_grants_and_changes_none(
    analyst: Session, granted: Granted, filled: BenchmarkPool
) -> None:
    granted("analyst", tenants=["globex"])
    own = analyst.execute("SELECT role, tenants FROM access_in_force").fetchall()
    assert own == [("analyst", [hashed(filled, "acme")])]
    for statement in (
        "SELECT * FROM access_grants",
        "UPDATE access_grants SET tenants = NULL",
        "UPDATE access_in_force SET tenants = NULL",
        "INSERT INTO access_in_force (role) VALUES ('admin')",
        "DELETE FROM access_grants",
        "SELECT digest FROM access_tokens",
        "INSERT INTO access_grants (principal, role, fields, reason, requested_at, requested_by)"
        " VALUES (current_user, 'analyst', 'all', '', now(), 'me')",
    ):
        with pytest.raises((InsufficientPrivilege, ObjectNotInPrerequisiteState, FeatureNotSupported)):
            analyst.execute(statement)


def test_the_setting_that_names_a_grant_only_narrows(analyst: Session, granted: Granted) -> None:
    other = granted("analyst", tenants=["globex"])
    for value in (str(other.id), "0", "' OR true --"):
        analyst.execute("SELECT set_config('flywheel.grant_id', %s, false)", (value,))
        assert count(analyst, "hot_points") == 0
    analyst.execute("RESET flywheel.grant_id")
    assert count(analyst, "hot_points") == POINTS


def test_nothing_can_be_put_in_the_way_of_the_policies(analyst: Session) -> None:
    for statement in (
        "CREATE TABLE public.mine AS SELECT 'analyst' AS role",
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '-infinity' $$",
        "CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '-infinity' $$",
        "CREATE SCHEMA mine",
    ):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(statement)
    analyst.execute(
        "CREATE TEMPORARY TABLE access_in_force AS SELECT 1 AS id, 'analyst' AS role, NULL::text[] AS tenants,"
        " NULL::bytea[] AS tenant_keys, 'all' AS fields, '-infinity'::timestamptz AS since,"
        " 'infinity'::timestamptz AS until, NULL::timestamptz AS expires_at"
    )
    analyst.execute("CREATE FUNCTION pg_temp.texteq(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$")
    analyst.execute("SET search_path = pg_temp, public")
    assert analyst.execute("SELECT count(*) FROM public.hot_points").fetchone() == (POINTS,)


def test_files_programs_and_large_objects_are_out_of_reach(analyst: Session, filled: BenchmarkPool) -> None:
    with filled.transaction() as connection:
        row = connection.execute("SELECT lo_from_bytea(0, 'ours')").fetchone()
    assert row is not None
    for statement in (
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY (SELECT 1) TO '/tmp/out'",
        "CREATE TEMPORARY TABLE t (line text); COPY t FROM '/etc/passwd'",
        "SELECT pg_read_file('postgresql.conf')",
        "SELECT pg_ls_dir('.')",
        "SELECT lo_import('/etc/passwd')",
        f"SELECT lo_get({row[0]})",
        "CREATE FUNCTION pg_temp.run(text) RETURNS integer LANGUAGE c AS 'libc.so.6', 'system'",
        "SELECT rolpassword FROM pg_authid",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'",
        "ALTER SYSTEM SET log_statement = 'none'",
    ):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(statement)


def test_the_planners_statistics_tell_no_values(analyst: Session, filled: BenchmarkPool) -> None:
    with filled.transaction() as connection:
        values = connection.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'hot_points'").fetchone()
    assert values is not None
    assert values[0] > 0
    assert analyst.execute("SELECT * FROM pg_stats WHERE tablename = 'hot_points'").fetchall() == []
    assert analyst.execute("SELECT * FROM pg_stats_ext").fetchall() == []
    for catalog in ("pg_statistic", "pg_statistic_ext_data"):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(catalog)))


def test_lines_of_quarantine_are_for_reviewers_of_all_fields_and_their_tenants(
    granted: Granted, connected: Connected, filled: BenchmarkPool
) -> None:
    def lines(**terms: Any) -> set[bytes]:
        session = connected(granted("reviewer", **terms))
        return {line for (line,) in session.execute("SELECT line FROM quarantine")}

    both = {f"mail of {tenant}".encode() for tenant in TENANTS}
    assert lines(fields="anonymized") == set()
    assert lines(fields="all", tenants=["acme"]) == {b"mail of acme"}
    assert lines(fields="all") == both
    with filled.transaction() as connection:
        connection.execute("UPDATE quarantine SET owner_key = NULL WHERE id = 'acme-line'")
    assert lines(fields="all", tenants=["acme"]) == set()
    assert lines(fields="all") == both


def test_a_grant_for_some_tenants_shows_no_sum_over_all(granted: Granted, connected: Connected) -> None:
    for role, tables in (("analyst", ("agent_statistics", "tier_days")), ("rl-trainer", ("batches", "batch_points"))):
        session = connected(granted(role, tenants=["acme"]))
        assert [count(session, table) for table in tables] == [0, 0]


def test_the_time_range_holds_to_the_microsecond(granted: Granted, connected: Connected) -> None:
    tick = timedelta(microseconds=1)
    last = NOON + timedelta(hours=POINTS - 1)

    def shown(since: datetime, until: datetime) -> int:
        return count(connected(granted("analyst", since=since, until=until)), "hot_points")

    assert shown(NOON, last + tick) == 2 * POINTS
    assert shown(NOON, last) == 2 * (POINTS - 1)
    assert shown(NOON + tick, last + tick) == 2 * (POINTS - 1)
    assert shown(NOON + tick, NOON + 2 * tick) == 0


def test_hours_and_days_are_shown_where_all_of_them_is_in_range(granted: Granted, connected: Connected) -> None:
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    tick = timedelta(microseconds=1)

    def shown(role: Role, table: str, since: datetime, until: datetime) -> int:
        return count(connected(granted(role, fields="all", since=since, until=until)), table)

    shows: tuple[tuple[Role, str, datetime, timedelta], ...] = (
        ("analyst", "agent_statistics", NOON, timedelta(hours=1)),
        ("analyst", "tier_days", midnight, timedelta(days=1)),
        ("arbiter", "task_type_profiles", midnight, timedelta(days=1)),
    )
    for role, table, start, length in shows:
        assert shown(role, table, start, start + length) == 1
        assert shown(role, table, start + tick, start + length) == 0
        assert shown(role, table, start, start + length - tick) == 0
    for start, lines in ((midnight, 2), (midnight + tick, 0)):
        assert shown("reviewer", "quarantine", start, midnight + timedelta(days=1)) == lines
    for until, batches in ((NOON, 0), (NOON + tick, 1)):
        assert shown("rl-trainer", "batches", NOON - tick, until) == batches
        assert shown("rl-trainer", "batch_points", NOON - tick, until) == batches


def test_a_grant_that_waits_shows_nothing_until_it_is_approved(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    now = datetime.now(UTC)
    arbiter = granted("arbiter")
    waiting = request_grant(
        filled, principal=arbiter.principal, role="analyst", fields="all", by="asker", reason="a test", now=now
    )
    session = connected(arbiter)
    with pytest.raises(InsufficientPrivilege):
        count(session, "hot_points")
    with filled.transaction() as connection:  # a membership alone shows nothing either
        connection.execute(sql.SQL("GRANT flywheel_analyst TO {}").format(sql.Identifier(arbiter.principal)))
    assert count(session, "hot_points") == 0
    approve(filled, waiting.id, by="approver", now=now)
    assert count(session, "hot_points") == 2 * POINTS


def test_an_access_ends_within_an_open_transaction(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    """now() stands still in a transaction; the grant does not wait for it."""
    grant = granted("analyst", expires_at=datetime.now(UTC) + timedelta(seconds=1))
    session = connected(grant)
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert count(session, "hot_points") == 2 * POINTS
    loop = (
        "DO $$ DECLARE found bigint; BEGIN PERFORM pg_sleep(1.1); SELECT count(*) INTO found FROM hot_points;"
        " RAISE EXCEPTION '% points', found; END $$"
    )
    with pytest.raises(RaiseException, match="0 points"):
        session.execute(loop)


def test_a_revoked_principal_loses_its_open_sessions_and_cannot_come_back(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    grant = granted("analyst")
    session = connected(grant)
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert count(session, "hot_points") == 2 * POINTS
    revoke(filled, grant.id, by="approver", reason="left", now=datetime.now(UTC))
    with pytest.raises(OperationalError):
        count(session, "hot_points")
    with pytest.raises(AccessError, match="has no grant in force"):
        connected(grant)
    with pytest.raises(OperationalError, match="not permitted to log in"):
        psycopg.connect(filled.settings.database_url, user=grant.principal)


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


def test_statements_of_principals_are_logged_and_they_cannot_stop_it(
    analyst: Session, granted: Granted, connected: Connected
) -> None:
    me = sql.Identifier(analyst.info.user)
    assert analyst.execute("SHOW log_statement").fetchone() == ("all",)
    for statement in ("SET log_statement = 'none'", "ALTER ROLE {} SET log_statement = 'none'"):
        with pytest.raises(InsufficientPrivilege):
            analyst.execute(sql.SQL(statement).format(me))
    with pytest.raises(InsufficientPrivilege):
        analyst.execute(
            sql.SQL("ALTER ROLE {} IN DATABASE {} RESET log_statement").format(me, sql.Identifier(analyst.info.dbname))
        )
    analyst.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} RESET ALL").format(me, sql.Identifier(analyst.info.dbname)))
    again = connected(granted("analyst", principal=analyst.info.user))
    assert again.execute("SHOW log_statement").fetchone() == ("all",)
    with pytest.raises(OperationalError, match="permission denied to set parameter"):
        connected(granted("analyst", principal=analyst.info.user), options="-c log_statement=none")


def test_databases_of_dagster_and_mlflow_are_closed(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    ensure_databases(filled.settings.database_url)
    ensure_databases(filled.settings.database_url)
    session = connected(granted("analyst"))
    for name in ("dagster", "mlflow", "flywheel"):
        url = url_with(filled.settings.database_url, driver="", database=name)
        with pytest.raises(OperationalError, match="permission denied for database"):
            psycopg.connect(url, user=session.info.user)
        psycopg.connect(url).close()


Find = Callable[[BenchmarkPool], object]


@pytest.mark.parametrize(
    ("role", "find"),
    [
        ("rl-trainer", list_batches),
        ("analyst", list_days),
        ("analyst", lambda pool: agent_statistics(pool, "a").tasks),
        ("arbiter", lambda pool: agent_statistics(pool, "a").tasks),
        ("reviewer", list_quarantine),
    ],
)
def test_functions_of_the_service_are_bound_as_well(
    role: Role, find: Find, filled: BenchmarkPool, granted: Granted
) -> None:
    now = datetime.now(UTC)

    def found(**terms: Any) -> object:
        grant = granted(role, fields="all", **terms)
        make_login(filled, grant.principal, by="asker", now=now)
        return find(as_principal(filled, grant))

    whole = find(filled)
    assert whole
    assert found() == whole
    assert not found(until=NOON - timedelta(days=1))
    other: Role = "admin"
    stranger = granted(other)
    make_login(filled, stranger.principal, by="asker", now=now)
    with pytest.raises(AccessError, match=f"PostgreSQL refuses this to {stranger.principal} under grant"):
        find(as_principal(filled, stranger))


def test_a_statement_prepared_by_the_service_is_bound_too(filled: BenchmarkPool, granted: Granted) -> None:
    """The plan is kept by the connection, which the next principal gets."""
    grants = {tenant: granted("analyst", tenants=[tenant]) for tenant in TENANTS}
    for grant in grants.values():
        make_login(filled, grant.principal, by="asker", now=datetime.now(UTC))
    query = "SELECT DISTINCT agent_id FROM hot_points ORDER BY agent_id"
    for _ in range(2):
        bound = [((tenant,), as_principal(filled, grants[tenant])) for tenant in TENANTS]
        views: list[tuple[tuple[str, ...], BenchmarkPool]] = [(TENANTS, filled), *bound]
        for expected, view in views:
            with view.transaction() as connection:
                rows = [name for (name,) in connection.execute(query, prepare=True)]
            assert rows == [f"agent-of-{tenant}" for tenant in expected]


def test_a_principal_of_two_grants_acts_under_the_one_it_came_with(filled: BenchmarkPool, granted: Granted) -> None:
    acme = granted("analyst", tenants=["acme"])
    granted("analyst", tenants=["globex"], principal=acme.principal)
    make_login(filled, acme.principal, by="asker", now=datetime.now(UTC))
    with as_principal(filled, acme) as bound, bound.transaction() as connection:
        assert ids(connection) == {f"acme-{hour}" for hour in range(POINTS)}
    with filled.transaction() as connection:
        assert len(ids(connection)) == 2 * POINTS
