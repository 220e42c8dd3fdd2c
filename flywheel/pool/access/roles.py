"""The PostgreSQL roles of principals, kept in line with their grants."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from psycopg import Connection, sql
from psycopg.errors import DuplicateObject, InsufficientPrivilege

from flywheel.errors import AccessError
from flywheel.pool.access.decisions import GROUPS, Grant, check_principal
from flywheel.pool.access.principals import take_role

MANAGED = "principal of flywheel"
MEMBERSHIPS_WITH_OPTIONS = 160000
"""The version of PostgreSQL since which a membership says whether its member may take the role."""


class RoleState(Struct, frozen=True, kw_only=True):
    """What the server knows of a principal's role. ``managed``: it was made here."""

    can_login: bool
    managed: bool


@contextmanager
def rights_needed(principal: str) -> Iterator[None]:
    """Say what the service's user lacks, where PostgreSQL refuses it something about the principal's role.

    Raises:
        AccessError: it was refused.
    """
    try:
        yield
    except InsufficientPrivilege as error:
        raise AccessError(
            f"the role {principal} could not be brought in line with its grants, which are entered and hold: "
            f"{error.diag.message_primary}. The service's database user needs CREATEROLE, ADMIN OPTION on "
            f"{', '.join(GROUPS.values())}, and the database as its own"
        ) from error


def may_manage_roles(connection: Connection[Any]) -> bool:
    """Whether this database user may create roles and give them rights."""
    row = connection.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user").fetchone()
    return bool(row and row[0])


def role_of(connection: Connection[Any], principal: str) -> RoleState | None:
    """The principal's role, if the server has it, after making sure that nothing but its grants gives it rights.

    Raises:
        AccessError: row security would not bind it, or others may act as it.
    """
    check_principal(principal)
    row = connection.execute(
        "SELECT rolcanlogin, coalesce(shobj_description(oid, 'pg_authid') = %s, false),"
        " rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication FROM pg_roles WHERE rolname = %s",
        (MANAGED, principal),
    ).fetchone()
    if row is None:
        return None
    if row[2]:
        raise AccessError(
            f"the role {principal} is a superuser, bypasses row security, creates roles or replicates; no grant "
            f"would bind it. Choose another name for the principal"
        )
    names = {"principal": principal}
    stronger = [name for (name,) in connection.execute(STRONGER, names)]
    if stronger:
        raise AccessError(
            f"the role {principal} is, or is a member of, {', '.join(stronger)}, which may do more than a grant says. "
            f"Choose another name for the principal, or revoke the membership"
        )
    members = [name for (name,) in connection.execute(MEMBERS, names)]
    if members:
        raise AccessError(
            f"the role {principal} has {len(members):,} members ({', '.join(members[:5])}), who could act as it. "
            f"A principal is one person or program; name that"
        )
    return RoleState(can_login=row[0], managed=row[1])


def ensure_role(connection: Connection[Any], principal: str) -> RoleState:
    """The principal's role, made now where the server has none. It cannot log in yet.

    Raises:
        AccessError: this database user may not create it, or a role of the name is there that grants would not bind.
    """
    found = role_of(connection, principal)
    if found is not None:
        return found
    if not may_manage_roles(connection):
        raise AccessError(
            f"this database user may not create roles. Let an administrator of the server run: "
            f'CREATE ROLE "{principal}" LOGIN; GRANT ROLE_OF_THE_GRANT TO "{principal}"; GRANT "{principal}" TO the '
            f"user of the service; with ROLE_OF_THE_GRANT one of {', '.join(GROUPS.values())}"
        )
    role = sql.Identifier(principal)
    try:
        with connection.transaction():
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
    except DuplicateObject:  # another database of the server was first
        return ensure_role(connection, principal)
    connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, MANAGED))
    options = sql.SQL(" WITH INHERIT FALSE, SET TRUE" if has_options(connection) else "")
    if not is_superuser(connection):
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role) + options)
    return RoleState(can_login=False, managed=True)


def sync_role(connection: Connection[Any], principal: str, in_force: Sequence[Grant]) -> None:
    """Bring memberships, the right to connect, validity and logging in line with the grants in force.

    Does nothing where the server has no such role yet. The memberships alone show no row: the grants do.

    Raises:
        AccessError: the role is one that grants would not bind.
    """
    state = role_of(connection, principal)
    if state is None:
        return
    role = sql.Identifier(principal)
    database = sql.Identifier(connection.info.dbname)
    held = {name for (name,) in connection.execute(HELD, {"principal": principal, "groups": list(GROUPS.values())})}
    due = {GROUPS[grant.role] for grant in in_force}
    options = sql.SQL(" WITH INHERIT TRUE, SET FALSE" if has_options(connection) else "")
    for group in sorted(due - held):
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), role) + options)
    for group in sorted(held - due):
        connection.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(group), role))
    change = "GRANT CONNECT ON DATABASE {} TO {}" if due else "REVOKE CONNECT ON DATABASE {} FROM {}"
    connection.execute(sql.SQL(change).format(database, role))
    if state.managed:
        connection.execute(sql.SQL("ALTER ROLE {} VALID UNTIL {}").format(role, valid_until(in_force)))
        if not due:
            connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
    if due:
        log_statements(connection, principal)


def valid_until(in_force: Sequence[Grant]) -> str:
    """Until when a password is good: the last of the grants' ends, as PostgreSQL writes it."""
    ends = [grant.expires_at for grant in in_force if grant.expires_at is not None]
    if not in_force:
        return "-infinity"
    return max(ends).isoformat() if len(ends) == len(in_force) else "infinity"


def log_statements(connection: Connection[Any], principal: str) -> bool:
    """Have the server log every statement of the principal, also of transactions that it undoes.

    Only a superuser may set it, so the principal cannot unset it. Returns whether it was set.
    """
    statement = sql.SQL("ALTER ROLE {} IN DATABASE {} SET log_statement = 'all'").format(
        sql.Identifier(principal), sql.Identifier(connection.info.dbname)
    )
    try:
        with connection.transaction():
            connection.execute(statement)
    except InsufficientPrivilege:  # flywheel.pool.access.weaknesses says it
        return False
    return True


def set_password(connection: Connection[Any], principal: str) -> str:
    """Let the principal log in with a new password, which only the caller learns: the server gets a SCRAM verifier."""
    password = secrets.token_urlsafe(24)
    verifier = connection.pgconn.encrypt_password(password.encode(), principal.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(principal), verifier))
    return password


def end_sessions(connection: Connection[Any], principal: str) -> int:
    """End the principal's own sessions in this database, as the principal may. Returns how many.

    Raises:
        AccessError: this database user may not act as the principal.
    """
    if role_of(connection, principal) is None:
        return 0
    try:
        take_role(connection, principal)
    except InsufficientPrivilege as error:
        raise AccessError(
            f"the sessions of {principal} could not be ended, everything else is done. Let an administrator end them "
            f"with pg_terminate_backend(pid) for its rows of pg_stat_activity"
        ) from error
    return len(connection.execute(TERMINATE, (principal,)).fetchall())


def is_superuser(connection: Connection[Any]) -> bool:
    """Whether this database user is bound by nothing."""
    row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    return bool(row and row[0])


def has_options(connection: Connection[Any]) -> bool:
    """Whether memberships of this server say if their member may take the role."""
    return connection.info.server_version >= MEMBERSHIPS_WITH_OPTIONS


STRONGER = """
SELECT other.rolname FROM pg_roles AS other
WHERE pg_has_role(%(principal)s, other.oid, 'MEMBER') AND (
    other.oid = (SELECT relowner FROM pg_class WHERE oid = 'access_grants'::regclass)
    OR other.rolname <> %(principal)s AND (
        other.rolsuper OR other.rolbypassrls OR other.rolcreaterole OR other.rolreplication
        OR starts_with(other.rolname, 'pg_')
        OR EXISTS (SELECT FROM access_grants WHERE access_grants.principal = other.rolname)
    )
)
ORDER BY other.rolname
"""

MEMBERS = """
SELECT member.rolname FROM pg_auth_members
JOIN pg_roles AS taken ON taken.oid = pg_auth_members.roleid
JOIN pg_roles AS member ON member.oid = pg_auth_members.member
WHERE taken.rolname = %(principal)s AND NOT member.rolsuper
    AND member.oid <> (SELECT relowner FROM pg_class WHERE oid = 'access_grants'::regclass)
ORDER BY member.rolname
"""

HELD = """
SELECT taken.rolname FROM pg_auth_members
JOIN pg_roles AS taken ON taken.oid = pg_auth_members.roleid
JOIN pg_roles AS member ON member.oid = pg_auth_members.member
WHERE member.rolname = %(principal)s AND taken.rolname = ANY (%(groups)s)
"""

TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename = %s AND datname = current_database() AND pid <> pg_backend_pid()
"""
