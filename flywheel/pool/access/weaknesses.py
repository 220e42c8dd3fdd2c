"""What of an installation would let a login around its grants, or hide what it reads; each with its remedy."""

from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.errors import InsufficientPrivilege

from flywheel.settings import Settings


def weaknesses(connection: Connection[Any], principal: str, settings: Settings) -> tuple[str, ...]:
    """What the administrator should mend before the principal logs in."""
    found = (
        unlogged(connection, principal),
        nameless_log(connection),
        unasked_password(connection),
        open_schema(connection, principal),
        other_databases(connection, principal),
        *(readable_folder(path) for path in (Path(settings.lake), settings.segments_dir)),
    )
    return tuple(sentence for sentence in found if sentence)


def unlogged(connection: Connection[Any], principal: str) -> str:
    """Direct reads that nobody writes down: setting ``log_statement`` takes a superuser."""
    row = connection.execute(
        "SELECT count(*) FROM pg_db_role_setting WHERE setrole = (SELECT oid FROM pg_roles WHERE rolname = %s)"
        " AND 'log_statement=all' = ANY (setconfig)",
        (principal,),
    ).fetchone()
    if row and row[0]:
        return ""
    return (
        f"what {principal} reads in SQL is not logged: this database user may not set log_statement. Let a superuser "
        f"run ALTER ROLE \"{principal}\" SET log_statement = 'all', or on a managed server install pgaudit and set "
        f"pgaudit.log = 'read, write' for the role"
    )


def nameless_log(connection: Connection[Any]) -> str:
    """A log of statements that does not say whose they are."""
    row = connection.execute("SELECT current_setting('log_line_prefix'), current_setting('log_destination')").fetchone()
    if row is None or "%u" in row[0] or "csv" in row[1] or "json" in row[1]:
        return ""
    return (
        f"the server's log does not name the user: log_line_prefix is {row[0]!r}. Let a superuser run "
        f"ALTER SYSTEM SET log_line_prefix = '%m [%p] %q%u@%d '; SELECT pg_reload_conf()"
    )


def unasked_password(connection: Connection[Any]) -> str:
    """A server that lets anybody in as anybody, as the embedded one does for those who reach its socket."""
    try:
        with connection.transaction():
            row = connection.execute(
                "SELECT string_agg(DISTINCT type || coalesce(' ' || address, ''), ', ') FROM pg_hba_file_rules"
                " WHERE auth_method = 'trust' AND NOT 'replication' = ANY (database)"
            ).fetchone()
    except InsufficientPrivilege:  # only a superuser can look; managed servers do not trust
        return ""
    if row is None or row[0] is None:
        return ""
    return (
        f"the server asks for no password (pg_hba.conf trusts {row[0]}): whoever reaches it can be anybody. Give "
        f"logins to people on a server of your own that demands scram-sha-256"
    )


def open_schema(connection: Connection[Any], principal: str) -> str:
    """A place where the principal could leave functions for others to stumble upon."""
    row = connection.execute(
        "SELECT current_schema(), has_schema_privilege(%s, current_schema(), 'CREATE')", (principal,)
    ).fetchone()
    if row is None or not row[1]:
        return ""
    return f"{principal} may create objects in the schema {row[0]}; run REVOKE CREATE ON SCHEMA {row[0]} FROM PUBLIC"


def other_databases(connection: Connection[Any], principal: str) -> str:
    """Databases that the principal has no business in. PostgreSQL's own ones are empty."""
    rows = connection.execute(
        "SELECT datname FROM pg_database WHERE datname NOT IN (current_database(), 'postgres')"
        " AND NOT datistemplate AND datallowconn AND has_database_privilege(%s, oid, 'CONNECT') ORDER BY datname",
        (principal,),
    ).fetchall()
    if not rows:
        return ""
    names = [name for (name,) in rows]
    statements = "; ".join(f'REVOKE CONNECT ON DATABASE "{name}" FROM PUBLIC' for name in names[:3])
    return f"{principal} may connect to {len(names):,} other databases of the server; run {statements}"


def readable_folder(path: Path) -> str:
    """Points or raw logs that other users of this machine can read as files."""
    if not path.is_dir() or not path.stat().st_mode & 0o077:
        return ""
    return f"{path} is open to other users of this machine (mode {path.stat().st_mode & 0o777:o}); run chmod 700 {path}"
