"""A tenant that is erased is gone from the trail, and the trail says so and verifies."""

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail import erasing
from flywheel.arbiter.audit_trail.contents import Erasure, Sealed, digest_of, read_content
from flywheel.arbiter.audit_trail.erasing import (
    count_verdicts,
    erase_verdicts,
    erase_verdicts_of_day,
    verdicts_by_day,
)
from flywheel.arbiter.audit_trail.trail import append, find, newest
from flywheel.arbiter.audit_trail.verifying import export_trail, verify_file, verify_trail
from flywheel.errors import AuditTrailError, SigningKeyError
from tests.arbiter.audit_trail.trails import KEY, OTHER, filled, sealed

TENANTS = ("acme", "globex")


def erase(engine: Engine, tenant: str, **terms: Any) -> int:
    return erase_verdicts(engine, tenant, key_of_trail=lambda: KEY, by="ann", **terms)


def test_the_chain_verifies_after_an_erasure_and_says_how_many_went_by_whom(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    head = filled(engine, 10, tenants=TENANTS)
    assert erase(engine, "acme") == 5
    report = verify_trail(engine, heads=[head])
    assert (report.intact, report.verdicts, report.erased, report.entries) == (True, 5, 5, 12)
    with engine.connect() as connection:
        said = read_content(find(connection, "12").content or b"")
        assert isinstance(said, Erasure)
        assert (said.by, said.erased) == ("ann", 5)
        left = [read for read in newest(connection, limit=20) if read.entry.kind == "verdict"]
    assert {read.erased_in for read in left if read.content is None} == {12}
    assert all(b"acme" not in (read.content or b"") for read in left)
    with psycopg.connect(database_url) as session:
        rows = session.execute("SELECT * FROM audit_contents WHERE erased_in IS NOT NULL").fetchall()
    assert all(row[2:6] == (None, None, None, None) for row in rows)
    export_trail(engine, tmp_path / "trail.jsonl")
    assert b"acme" not in (tmp_path / "trail.jsonl").read_bytes()
    assert verify_file(tmp_path / "trail.jsonl").intact
    assert erase(engine, "acme") == 0
    assert verify_trail(engine).entries == 12


def test_an_erasure_of_single_tasks_leaves_the_others(engine: Engine) -> None:
    filled(engine, 10, tenants=TENANTS)
    assert count_verdicts(engine, "acme", tasks=["t0", "t1", "t2"]) == 2
    assert erase(engine, "acme", tasks=["t0", "t1", "t2"]) == 2
    assert (count_verdicts(engine, "acme"), count_verdicts(engine, "globex")) == (3, 5)
    assert verify_trail(engine).intact


def test_many_contents_go_in_several_erasures(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "ERASED_AT_ONCE", 2)
    filled(engine, 10, tenants=TENANTS)
    assert erase(engine, "acme") == 5
    report = verify_trail(engine)
    assert (report.intact, report.erased, report.entries) == (True, 5, 14)


def test_a_verdict_that_was_erased_does_not_come_back_by_a_file_that_was_left(engine: Engine) -> None:
    one = sealed()
    for expected in (1, 0):
        with engine.begin() as connection:
            append(connection, [one], KEY)
        assert count_verdicts(engine, "acme") == expected
        erase(engine, "acme")
    assert verify_trail(engine).intact


def test_what_was_erased_cannot_be_guessed_from_its_digest(engine: Engine) -> None:
    """Whoever knows the task and all that was decided still lacks the nonce, which went with the content."""
    one = sealed("t1")
    with engine.begin() as connection:
        append(connection, [one], KEY)
    nonce = read_content(one.content).nonce  # type: ignore[union-attr]
    guessed = one.content.replace(nonce.encode(), b"0" * 32)
    assert digest_of(guessed) != Sealed(kind="verdict", content=one.content).digest
    erase(engine, "acme")
    with engine.connect() as connection, pytest.raises(AuditTrailError, match="it was erased, or never appended"):
        find(connection, read_content(one.content).verdict_id)  # type: ignore[union-attr]


def test_without_the_key_of_the_trail_nothing_is_erased(engine: Engine) -> None:
    filled(engine, 2)
    with pytest.raises(SigningKeyError):
        erase_verdicts(engine, "acme", key_of_trail=lambda: OTHER, by="ann")
    assert count_verdicts(engine, "acme") == 2
    assert erase_verdicts(engine, "nobody", key_of_trail=lambda: OTHER, by="ann") == 0


def test_what_came_into_the_trail_on_a_day_goes_by_its_day(engine: Engine) -> None:
    filled(engine, 4, tenants=TENANTS)
    with engine.connect() as connection:
        day = newest(connection)[0].entry.at.astimezone(UTC).date()
    assert verdicts_by_day(engine, before=day) == {}
    assert verdicts_by_day(engine, before=day + timedelta(days=1)) == {day: 4}
    assert erase_verdicts_of_day(engine, day - timedelta(days=1), key_of_trail=lambda: KEY, by="retention") == 0
    assert erase_verdicts_of_day(engine, day, key_of_trail=lambda: KEY, by="retention") == 4
    assert verdicts_by_day(engine, before=day + timedelta(days=1)) == {}
    report = verify_trail(engine)
    assert (report.intact, report.verdicts, report.erased) == (True, 0, 4)


def test_contents_whose_entries_somebody_removed_end_an_erasure_that_says_so(engine: Engine, database_url: str) -> None:
    filled(engine, 6, tenants=TENANTS)
    with psycopg.connect(database_url) as session:
        session.execute("ALTER TABLE audit_entries DISABLE TRIGGER ALL")
        session.execute("DELETE FROM audit_entries WHERE sequence IN (2, 4)")
        session.execute("ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER keep_audit_entries")
    with pytest.raises(AuditTrailError, match="2 contents cannot be erased, from entry 2 on: their entries are gone"):
        erase(engine, "acme")
    assert count_verdicts(engine, "acme") == 2
