"""The pool as a principal sees it: the service's own statements, under the rights of the principal."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from psycopg import Connection, sql
from psycopg.errors import InsufficientPrivilege, InvalidParameterValue
from typing_extensions import override

from flywheel.errors import AccessError
from flywheel.pool.access.decisions import Grant, check_principal
from flywheel.pool.pool import BenchmarkPool


class PrincipalPool(BenchmarkPool, frozen=True):
    """A pool whose transactions run as a principal, under one grant. Its lake is the service's: see ``read_as``."""

    principal: str
    grant_id: int

    @override
    def close(self) -> None:
        """Nothing: the connections are the service's."""

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing."""

    @override
    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        """A connection in a transaction with the principal's rights and rows.

        Raises:
            AccessError: the principal's rights do not cover a statement, or the server has no such role.
            DatabaseError: PostgreSQL cannot be used; all is undone.
        """
        with self._refused(), BenchmarkPool.transaction(self) as connection:
            self._enter(connection)
            yield connection

    @override
    @contextmanager
    def as_service(self, connection: Connection[Any]) -> Iterator[None]:
        """The service's rights for some statements; where one fails they are undone with it."""
        with connection.transaction():
            connection.execute("SET LOCAL ROLE NONE")
            yield
            take_role(connection, self.principal)

    @override
    @contextmanager
    def as_caller(self, connection: Connection[Any]) -> Iterator[None]:
        """The principal's rights and rows for some statements; where one fails they are undone with it.

        Raises:
            AccessError: as in ``transaction``.
        """
        with self._refused(), connection.transaction():
            self._enter(connection)
            yield
            connection.execute("SET LOCAL ROLE NONE")
            connection.execute("SET LOCAL flywheel.grant_id = ''")

    def _enter(self, connection: Connection[Any]) -> None:
        take_role(connection, self.principal)
        connection.execute(sql.SQL("SET LOCAL flywheel.grant_id = {}").format(str(self.grant_id)))

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except InsufficientPrivilege as error:
            raise AccessError(
                f"PostgreSQL refuses this to {self.principal} under grant {self.grant_id}: {error.diag.message_primary}"
            ) from error


def as_principal(pool: BenchmarkPool, grant: Grant) -> PrincipalPool:
    """The pool as the grant's principal sees it, for functions that ask PostgreSQL by ``pool.transaction()``."""
    return PrincipalPool(
        engine=pool.engine, lake=pool.lake, settings=pool.settings, principal=grant.principal, grant_id=grant.id
    )


def service_of(pool: BenchmarkPool) -> BenchmarkPool:
    """The same pool with the service's rights, also where it is a principal's."""
    return BenchmarkPool(engine=pool.engine, lake=pool.lake, settings=pool.settings)


def take_role(connection: Connection[Any], principal: str) -> None:
    """Give the rest of a transaction the rights of a principal, and no others.

    Raises:
        AccessError: the server has no such role.
    """
    check_principal(principal)  # "none" would give back the service's rights
    try:
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(principal)))
    except InvalidParameterValue as error:
        raise AccessError(
            f"the server has no role {principal}; `flywheel access login {principal}` makes it"
        ) from error
