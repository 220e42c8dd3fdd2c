"""Logins: a principal's own way into PostgreSQL."""

from datetime import datetime

from msgspec import Struct

from flywheel.errors import AccessError
from flywheel.pool.access.audit import record
from flywheel.pool.access.grants import grants_in_force
from flywheel.pool.access.principals import service_of
from flywheel.pool.access.roles import ensure_role, rights_needed, set_password, sync_role
from flywheel.pool.access.weaknesses import weaknesses
from flywheel.pool.pool import BenchmarkPool


class Login(Struct, frozen=True, kw_only=True):
    """A principal that can log in. ``password`` is None where the principal has one; it is shown this once.

    ``weaknesses`` are what would let it around its grants, each with its remedy.
    """

    principal: str
    database: str
    password: str | None
    weaknesses: tuple[str, ...]


def make_login(pool: BenchmarkPool, principal: str, *, by: str, now: datetime, new_password: bool = False) -> Login:
    """Let a principal with a grant in force log in to PostgreSQL itself, with the rights of its grants.

    A role that can log in already keeps its password and gets the memberships.

    Raises:
        AccessError: it has no grant in force, this user may not make roles, or no grant would bind the role.
        DatabaseError: PostgreSQL cannot be used.
    """
    with rights_needed(principal), service_of(pool).exclusive("access") as connection:
        grants = grants_in_force(connection, principal, now=now)
        if not grants:
            raise AccessError(f"{principal} has no grant in force; `flywheel access request {principal} ROLE` asks")
        state = ensure_role(connection, principal)
        password = set_password(connection, principal) if new_password or not state.can_login else None
        sync_role(connection, principal, grants)
        found = weaknesses(connection, principal, pool.settings)
        database = connection.info.dbname
    record(pool, "login.make", principal=by, asked={"principal": principal, "new_password": password is not None})
    return Login(principal=principal, database=database, password=password, weaknesses=found)
