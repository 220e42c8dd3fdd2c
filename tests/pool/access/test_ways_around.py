"""Sessions of principals that try to get around their grants."""

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    OperationalError,
)

from flywheel.database import url_with
from flywheel.pool.access.decisions import GROUPS
from flywheel.pool.pool import BenchmarkPool
from flywheel.services.postgres import ensure_databases
from tests.pool.access.conftest import POINTS, Connected, Granted, Session, count, hashed


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
