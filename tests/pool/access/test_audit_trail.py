"""No role changes the audit trail, its owner included; who may read it is shown what its grants show."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.errors import AccessError
from flywheel.pool.access.decisions import Role
from flywheel.pool.pool import BenchmarkPool
from tests.arbiter.audit_trail.trails import filled as fill_trail
from tests.pool.access.conftest import NOW, Connected, Granted, Session, count

ROLES: tuple[Role, ...] = ("rl-trainer", "analyst", "arbiter", "reviewer", "admin")
TABLES = ("audit_entries", "audit_contents")
READABLE: dict[Role, set[str]] = {"reviewer": set(TABLES), "admin": {"audit_entries"}}
CHANGES = (
    "UPDATE {} SET sequence = 99",
    "UPDATE {} SET at = now() WHERE sequence = 2",
    "DELETE FROM {}",
    "DELETE FROM {} WHERE sequence = 3",
    "TRUNCATE {}",
    "TRUNCATE {} CASCADE",
    "INSERT INTO {} SELECT * FROM {}",
)
OF_OWNERS = (
    "DROP TRIGGER keep_{} ON {}",
    "ALTER TABLE {} DISABLE TRIGGER ALL",
    "ALTER TABLE {} DISABLE TRIGGER keep_{}",
    "ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
    "DROP TABLE {}",
    "CREATE OR REPLACE FUNCTION keep_audit_trail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "SET session_replication_role = replica",
)


@pytest.fixture
def trail(filled: BenchmarkPool) -> BenchmarkPool:
    fill_trail(filled.engine, 6, tenants=("acme", "globex"))
    return filled


def statements(table: str, templates: tuple[str, ...]) -> Iterator[str]:
    return (template.replace("{}", table) for template in templates)


@pytest.mark.parametrize("role", ROLES)
def test_no_role_changes_the_trail_or_takes_its_guards_away(
    role: Role, trail: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    session = connected(granted(role, fields="all"))
    for table in TABLES:
        for statement in statements(table, (*CHANGES, *OF_OWNERS)):
            with pytest.raises(InsufficientPrivilege):
                session.execute(statement)
        if table not in READABLE.get(role, set()):
            with pytest.raises(InsufficientPrivilege):
                count(session, table)
    assert verify_trail(trail.engine).intact


@pytest.mark.parametrize("replica", [False, True])
def test_the_owner_changes_nothing_either_not_even_a_superuser_who_plays_a_replica(
    trail: BenchmarkPool, replica: bool
) -> None:
    with psycopg.connect(trail.settings.database_url, autocommit=True) as owner:
        if replica:
            owner.execute("SET session_replication_role = replica")
        for table in TABLES:
            for statement in statements(table, CHANGES[:-1]):
                with pytest.raises(InsufficientPrivilege, match="the audit trail only grows"):
                    owner.execute(statement)
    assert verify_trail(trail.engine).intact


def test_an_owner_who_is_no_superuser_has_no_right_to_change_it_in_the_first_place(
    trail: BenchmarkPool,
) -> None:
    with psycopg.connect(trail.settings.database_url, autocommit=True) as session:
        rights = session.execute(
            "SELECT table_name, privilege_type FROM information_schema.table_privileges"
            " WHERE table_name = ANY (%s) AND privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')",
            (list(TABLES),),
        ).fetchall()
    assert rights == [("audit_contents", "UPDATE")], "for erasures, which a trigger tells from others"


def test_an_entry_that_does_not_follow_the_last_one_is_not_taken(trail: BenchmarkPool) -> None:
    columns = "kind, at, content_digest, verdict_signature, signature"
    with psycopg.connect(trail.settings.database_url, autocommit=True) as owner:
        for sequence, previous in (("9", "hash"), ("7", "hash"), ("8", "previous"), ("0", "hash"), ("-1", "previous")):
            statement = (
                f"INSERT INTO audit_entries (sequence, previous, hash, {columns})"
                f" SELECT {sequence}, {previous}, sha256('x'), kind, at, sha256('y'), verdict_signature, signature"
                " FROM audit_entries WHERE sequence = 7"
            )
            with pytest.raises(InsufficientPrivilege, match="does not follow the last one"):
                owner.execute(statement)


def test_a_content_goes_only_by_an_erasure_that_comes_after_it(trail: BenchmarkPool) -> None:
    gone = "content = NULL, verdict_id = NULL, owner_key = NULL, task_key = NULL"
    with psycopg.connect(trail.settings.database_url, autocommit=True) as owner:
        for change in (
            f"{gone}, erased_in = 7",  # which is a verdict
            f"{gone}, erased_in = 99",
            f"{gone}, erased_in = NULL",
            "content = 'x', verdict_id = NULL",
            "content = NULL, erased_in = 7",
        ):
            with pytest.raises(InsufficientPrivilege, match="the audit trail only grows"):
                owner.execute(f"UPDATE audit_contents SET {change} WHERE sequence = 3")
    assert verify_trail(trail.engine).verdicts == 6


def contents(session: Session) -> set[int]:
    return {number for (number,) in session.execute("SELECT sequence FROM audit_contents")}


def entries(session: Session) -> set[int]:
    return {number for (number,) in session.execute("SELECT sequence FROM audit_entries")}


def test_reviewers_of_all_fields_read_the_verdicts_of_their_tenants(
    trail: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    of_acme = connected(granted("reviewer", fields="all", tenants=["acme"]))
    assert (contents(of_acme), entries(of_acme)) == ({2, 4, 6}, {2, 4, 6})
    of_all = connected(granted("reviewer", fields="all"))
    assert (contents(of_all), entries(of_all)) == (set(range(1, 8)), set(range(1, 8)))
    anonymized = connected(granted("reviewer", fields="anonymized"))
    assert (contents(anonymized), entries(anonymized)) == (set(), set())
    past = connected(granted("reviewer", fields="all", until=NOW.replace(year=2020)))
    assert (contents(past), entries(past)) == (set(), set())


def test_admins_read_the_chain_and_not_what_it_says(
    trail: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    admin = connected(granted("admin"))
    assert entries(admin) == set(range(1, 8))
    with pytest.raises(InsufficientPrivilege):
        contents(admin)


def test_who_is_shown_a_part_cannot_verify_and_is_told_so(
    trail: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    session = connected(granted("reviewer", fields="all", tenants=["acme"]))
    engine = create_engine("postgresql+psycopg://", creator=lambda: session, poolclass=StaticPool)
    session.autocommit = False
    with pytest.raises(AccessError, match="a part of the audit trail alone"):
        verify_trail(engine)
