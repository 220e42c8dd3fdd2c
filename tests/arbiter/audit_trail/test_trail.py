"""The trail in a real PostgreSQL: appended by several at once, and tampered with by one who may do anything."""

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import psycopg.rows
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as with_settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine, func, select

from flywheel.arbiter.audit_trail.chain import Finding, Walk, first_finding, link_hash
from flywheel.arbiter.audit_trail.heads import keep_head, read_head
from flywheel.arbiter.audit_trail.tables import audit_entries
from flywheel.arbiter.audit_trail.trail import append, find, holds, list_keys, newest, present_head, read_of, read_trail
from flywheel.arbiter.audit_trail.verifying import export_trail, verify_file, verify_trail
from flywheel.database import connect
from flywheel.errors import AuditTrailError, SigningKeyError
from tests.arbiter.audit_trail.trails import KEY, OTHER, filled, sealed

LENGTH = 12
Tamper = Callable[[psycopg.Connection[Any]], object]


@pytest.fixture
def superuser(database_url: str) -> Any:
    """One whom nothing binds: he takes the triggers away first."""
    with psycopg.connect(database_url, autocommit=True) as session:
        for table in ("audit_entries", "audit_contents"):
            session.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER ALL").format(sql.Identifier(table)))
        yield session


def found(engine: Engine, **terms: Any) -> Finding | None:
    return verify_trail(engine, **terms).finding


def test_the_first_entry_announces_the_key_and_the_rest_are_verdicts(engine: Engine) -> None:
    head = filled(engine, 3)
    report = verify_trail(engine, heads=[head])
    assert (report.intact, report.entries, report.verdicts, report.keys) == (True, 4, 3, (KEY.id,))
    assert report.last_hash == head.hash
    with engine.connect() as connection:
        [key] = list_keys(connection)
        assert (key.id, key.public_key, key.sequence, key.until) == (KEY.id, KEY.public.hex, 1, None)
        assert [read.entry.sequence for read in newest(connection, limit=2)] == [4, 3]
        assert [read.entry.sequence for read in newest(connection, task_id="t1")] == [3]
        assert newest(connection, tenant_id="globex") == []


def test_an_empty_trail_is_intact_and_has_no_head(engine: Engine) -> None:
    assert verify_trail(engine).intact
    with pytest.raises(AuditTrailError, match="no entry yet"):
        present_head(engine, KEY)


def test_what_was_appended_is_not_appended_again(engine: Engine) -> None:
    one = sealed()
    for _ in range(2):
        with engine.begin() as connection:
            head = append(connection, [one, one], KEY)
    assert head is not None
    assert head.sequence == 2


def test_another_key_appends_nothing_and_is_told_which_one_does(engine: Engine) -> None:
    filled(engine, 1)
    with pytest.raises(SigningKeyError, match=f"{OTHER.id}, and the audit trail is signed with {KEY.id}"):
        filled(engine, 1, key=OTHER)
    assert verify_trail(engine).entries == 2


def test_an_entry_is_found_by_its_place_and_by_its_verdict(engine: Engine) -> None:
    filled(engine, 2)
    with engine.connect() as connection:
        by_place = find(connection, "2")
        assert by_place.index is not None
        assert find(connection, by_place.index.verdict_id or "") == by_place
        for nothing in ("99", "0" * 32, "9" * 40, "x"):
            with pytest.raises(AuditTrailError, match="the audit trail has no"):
                find(connection, nothing)


APPENDER = """
import sys
from flywheel.arbiter.audit_trail.trail import append
from flywheel.database import connect
from tests.arbiter.audit_trail.trails import KEY, sealed

engine = connect(sys.argv[1])
for number in range(40):
    with engine.begin() as connection:
        append(connection, [sealed(f"{sys.argv[2]}-{number}-{part}") for part in range(3)], KEY)
"""


def test_processes_and_threads_that_append_at_once_make_one_chain_without_gaps(
    engine: Engine, database_url: str
) -> None:
    command = [sys.executable, "-c", APPENDER, database_url]
    running = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    threads = [threading.Thread(target=lambda: [filled(engine, 1) for _ in range(30)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in running] == [0, 0]
    report = verify_trail(engine)
    assert (report.intact, report.entries) == (True, 1 + 2 * 40 * 3 + 3 * 30)


TAMPERINGS: dict[str, tuple[str, int]] = {
    "UPDATE audit_entries SET at = at + interval '1 microsecond' WHERE sequence = 5": ("hash", 5),
    "UPDATE audit_contents SET content = convert_to(replace(convert_from(content, 'UTF8'), '0.9', '1.0'), 'UTF8')"
    " WHERE sequence = 6": ("content", 6),
    "UPDATE audit_contents SET content = '\\xff' WHERE sequence = 6": ("content", 6),
    "UPDATE audit_contents SET verdict_id = 'x' WHERE sequence = 7": ("columns", 7),
    "UPDATE audit_contents SET owner_key = '\\x00' WHERE sequence = 7": ("columns", 7),
    "UPDATE audit_entries SET signature = (SELECT max(signature) FROM audit_entries WHERE sequence = 4)"
    " WHERE sequence = 5": ("signature", 5),
    "DELETE FROM audit_contents WHERE sequence = 8": ("content", 8),
    "UPDATE audit_contents SET content = NULL, verdict_id = NULL, owner_key = NULL, task_key = NULL, erased_in = 9"
    " WHERE sequence = 8": ("erasure", 8),
    "DELETE FROM audit_entries WHERE sequence = 1": ("missing", 1),
    "DELETE FROM audit_entries WHERE sequence BETWEEN 4 AND 6": ("missing", 4),
    "DELETE FROM audit_entries WHERE sequence > 10": ("missing", 11),
    "DELETE FROM audit_entries": ("missing", 1),
    "UPDATE audit_entries SET sequence = sequence + 100 WHERE sequence = 3;"
    " UPDATE audit_entries SET sequence = 3 WHERE sequence = 4;"
    " UPDATE audit_entries SET sequence = 4 WHERE sequence = 103": ("link", 3),
}


def test_what_a_superuser_changes_is_found_where_he_did(engine: Engine, superuser: psycopg.Connection[Any]) -> None:
    head = filled(engine, LENGTH)
    for table in ("audit_entries", "audit_contents"):
        superuser.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(*map(sql.Identifier, (f"kept_{table}", table))))
    for statement, (problem, sequence) in TAMPERINGS.items():
        superuser.execute(statement)
        finding = found(engine, heads=[head])
        assert finding is not None, statement
        assert (finding.problem, finding.sequence) == (problem, sequence), statement
        superuser.execute(
            "TRUNCATE audit_entries, audit_contents; INSERT INTO audit_entries TABLE kept_audit_entries;"
            " INSERT INTO audit_contents TABLE kept_audit_contents"
        )
        assert found(engine, heads=[head]) is None


@with_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_the_tables_is_found(
    engine: Engine, superuser: psycopg.Connection[Any], data: st.DataObject
) -> None:
    """Edits, removals and swaps, with every hash after them made again, by one who has no key."""
    if found(engine) is None and verify_trail(engine).entries == 0:
        filled(engine, LENGTH)
    head = present_head(engine, KEY)
    place = data.draw(st.integers(1, LENGTH + 1))
    change = data.draw(st.sampled_from(["edit", "remove", "swap", "truncate"]))
    with superuser.transaction(force_rollback=True):
        if change == "edit":
            columns = (
                "at = at - interval '1 day'",
                "content_digest = sha256('x')",
                "signature = 'x'",
            )
            column = data.draw(st.sampled_from(columns))
            superuser.execute(f"UPDATE audit_entries SET {column} WHERE sequence = {place}")
        elif change == "swap":
            other = data.draw(st.integers(1, LENGTH + 1).filter(lambda number: number != place))
            for old, new in ((place, 0), (other, place), (0, other)):
                superuser.execute("UPDATE audit_entries SET sequence = %s WHERE sequence = %s", (new, old))
                superuser.execute("UPDATE audit_contents SET sequence = %s WHERE sequence = %s", (new, old))
        else:
            what = ">=" if change == "truncate" else "="
            superuser.execute(f"DELETE FROM audit_entries WHERE sequence {what} {place}")
            if change == "remove":
                superuser.execute(f"UPDATE audit_entries SET sequence = -sequence WHERE sequence > {place}")
                superuser.execute("UPDATE audit_entries SET sequence = -sequence - 1 WHERE sequence < 0")
        if data.draw(st.booleans()):
            rehash(superuser)
        reads = list(reads_of(superuser))
    assert first_finding(reads, Walk(heads=[head])) is not None, (change, place)
    assert found(engine) is None


def reads_of(session: psycopg.Connection[Any]) -> Any:
    """The trail as this session sees it, with what was not committed."""
    with session.cursor(row_factory=psycopg.rows.namedtuple_row) as cursor:
        rows = cursor.execute(
            "SELECT e.*, c.verdict_id, c.owner_key, c.task_key, c.content, c.erased_in"
            " FROM audit_entries AS e LEFT JOIN audit_contents AS c USING (sequence) ORDER BY sequence"
        ).fetchall()
        return [read_of(row) for row in rows]  # type: ignore[arg-type]


def rehash(session: psycopg.Connection[Any]) -> None:
    previous = bytes(32)
    for read in reads_of(session):
        hashed = ("sequence", "kind", "at", "content_digest", "verdict_signature")
        made = link_hash(previous=previous, **{name: getattr(read.entry, name) for name in hashed})
        session.execute(
            "UPDATE audit_entries SET previous = %s, hash = %s WHERE sequence = %s",
            (previous, made, read.entry.sequence),
        )
        previous = made


def test_triggers_that_were_taken_away_are_named(engine: Engine, superuser: psycopg.Connection[Any]) -> None:
    filled(engine, 1)
    report = verify_trail(engine)
    assert (report.intact, report.finding) == (False, None)
    assert set(report.guards) == {
        "keep_audit_entries",
        "follow_audit_entries",
        "keep_audit_contents",
        "erase_audit_contents",
    }
    superuser.execute("ALTER TABLE audit_entries ENABLE TRIGGER keep_audit_entries")
    assert "keep_audit_entries" in verify_trail(engine).guards, "it would not hold in a session that plays a replica"


def test_a_trail_is_verified_without_a_database_and_without_a_private_key(engine: Engine, tmp_path: Path) -> None:
    head = filled(engine, LENGTH)
    assert export_trail(engine, tmp_path / "trail.jsonl") == LENGTH + 1
    report = verify_file(tmp_path / "trail.jsonl", heads=[head], trusted=[KEY.id])
    assert (report.intact, report.entries) == (True, LENGTH + 1)
    lines = (tmp_path / "trail.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:-2]))
    cut = verify_file(tmp_path / "cut.jsonl", heads=[head]).finding
    assert cut is not None
    assert (cut.problem, cut.sequence) == ("missing", LENGTH)
    edited = msgspec.json.decode(lines[4])
    edited["content"] = edited["content"].replace("0.9", "1.0")
    (tmp_path / "edited.jsonl").write_bytes(b"".join([*lines[:4], msgspec.json.encode(edited), b"\n", *lines[5:]]))
    finding = verify_file(tmp_path / "edited.jsonl").finding
    assert finding is not None
    assert (finding.problem, finding.sequence) == ("content", 4)


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\xfe", b'{"format":"flywheel-audit-trail","version":1}\n{}\n'])
def test_a_file_that_is_no_trail_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trail.jsonl"
    path.write_bytes(content)
    with pytest.raises(AuditTrailError, match="no exported audit trail"):
        verify_file(path)


def test_a_newer_head_is_kept_and_an_older_one_does_not_take_its_place(engine: Engine, tmp_path: Path) -> None:
    older, newer = filled(engine, 1), filled(engine, 1)
    for head in (older, newer, older):
        keep_head(tmp_path / "head.json", head, holds=partial(holds, engine))
    assert read_head(tmp_path / "head.json") == newer
    (tmp_path / "head.json").write_text("{}")
    with pytest.raises(AuditTrailError, match="holds no head"):
        read_head(tmp_path / "head.json")


def test_verifying_reads_some_at_a_time_and_what_is_appended_meanwhile_does_not_matter(engine: Engine) -> None:
    filled(engine, 2_500)
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        reads = read_trail(connection)
        walk = Walk()
        assert walk.step(next(reads)) is None
        filled(engine, 5)
        assert first_finding(reads, walk) is None
        assert walk.sequence == 2_501
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(audit_entries)).scalar_one() == 2_506


def test_the_trail_survives_a_restart_of_everything_that_reads_it(engine: Engine, database_url: str) -> None:
    head = filled(engine, 3)
    engine.dispose()
    again = connect(database_url)
    assert verify_trail(again, heads=[head]).intact
    again.dispose()
