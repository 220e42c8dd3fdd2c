"""``flywheel audit`` and ``flywheel keys signing``: what people and cron see of the trail."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.pool.access.audit import list_audit
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.arbiter.audit_trail.trails import evaluation
from tests.cli.conftest import Invoke


@pytest.fixture
def pool(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    """A trail of four verdicts of two tenants behind its first key."""
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as opened:
        with Notary(settings, opened.engine, every_s=1e6) as notary:
            for number in range(4):
                notary.sign(evaluation(f"t{number}", tenant=("acme", "globex")[number % 2]))
        yield opened


def verified(flywheel: Invoke, *arguments: str) -> tuple[int, Any]:
    result = flywheel("audit", "verify", *arguments, "--json")
    return result.exit_code, json.loads(result.output)


def tamper(pool: BenchmarkPool, statement: str) -> None:
    with psycopg.connect(pool.settings.database_url) as session:
        for table in ("audit_entries", "audit_contents"):
            session.execute(f"ALTER TABLE {table} DISABLE TRIGGER keep_{table}")
        session.execute(statement)
        for table in ("audit_entries", "audit_contents"):
            session.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER keep_{table}")


def test_an_intact_trail_is_verified_against_the_head_that_the_home_keeps(
    flywheel: Invoke, pool: BenchmarkPool
) -> None:
    code, report = verified(flywheel)
    assert (code, report["intact"], report["entries"], report["verdicts"], report["heads"]) == (0, True, 5, 4, 1)
    said = flywheel("audit", "verify")
    assert said.exit_code == 0
    assert re.findall(r"^(from|to) +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", said.output, re.MULTILINE) == ["from", "to"]
    assert said.output.rstrip().endswith("intact")


def test_a_tampered_trail_is_named_by_its_first_bad_entry_with_exit_code_1(
    flywheel: Invoke, pool: BenchmarkPool
) -> None:
    tamper(pool, "UPDATE audit_entries SET at = at + interval '1 hour' WHERE sequence IN (3, 4)")
    code, report = verified(flywheel)
    assert (code, report["intact"]) == (1, False)
    assert (report["finding"]["sequence"], report["finding"]["problem"]) == (3, "hash")
    said = flywheel("audit", "verify")
    assert said.exit_code == 1
    assert "NOT INTACT from entry 3 on (hash)" in said.output


def test_a_cut_tail_is_found_by_the_homes_head_by_a_given_one_and_not_without(
    flywheel: Invoke, pool: BenchmarkPool, tmp_path: Path
) -> None:
    kept = tmp_path / "head.json"
    assert flywheel("audit", "head", "--output", str(kept)).exit_code == 0
    assert json.loads(kept.read_text())["sequence"] == 5
    tamper(pool, "DELETE FROM audit_entries WHERE sequence > 3")
    code, report = verified(flywheel)
    assert (code, report["finding"]["sequence"], report["finding"]["problem"]) == (1, 4, "missing")
    pool.settings.audit_head.unlink()
    assert verified(flywheel, "--head", str(kept))[0] == 1
    said = flywheel("audit", "verify")
    assert said.exit_code == 0
    assert "no head was given, so what was cut off its end would not be noticed" in said.output


def test_a_cut_tail_is_found_though_the_trail_has_grown_beyond_it_since(
    flywheel: Invoke, pool: BenchmarkPool, caplog: pytest.LogCaptureFixture
) -> None:
    kept = pool.settings.audit_head.read_bytes()
    tamper(pool, "DELETE FROM audit_entries WHERE sequence > 3")
    tamper(pool, "DELETE FROM audit_contents WHERE sequence > 3")
    for number in range(2):
        with Notary(pool.settings, pool.engine, every_s=1e6) as notary:
            for part in range(3):
                notary.sign(evaluation(f"new-{number}-{part}"))
    assert "does not hold its head of" in caplog.text
    assert pool.settings.audit_head.read_bytes() == kept
    code, report = verified(flywheel)
    assert (code, report["finding"]["sequence"], report["finding"]["problem"]) == (1, 5, "head")
    refused = flywheel("audit", "head")
    assert refused.exit_code == 1
    assert "was tampered with, or restored from an earlier backup" in refused.output


def test_a_head_is_printed_where_no_file_is_given(flywheel: Invoke, pool: BenchmarkPool) -> None:
    head = json.loads(flywheel("audit", "head").output)
    assert (head["sequence"], head["version"], len(head["hash"])) == (5, 1, 64)


def test_an_exported_trail_is_verified_with_exported_keys_and_no_database(
    flywheel: Invoke, pool: BenchmarkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail, keys, head = (str(tmp_path / name) for name in ("trail.jsonl", "keys.json", "head.json"))
    for command in (
        ("audit", "export", trail),
        ("keys", "signing", "export", keys),
        ("audit", "head", "--output", head),
    ):
        assert flywheel(*command).exit_code == 0
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    code, report = verified(flywheel, "--file", trail, "--keys", keys, "--head", head)
    assert (code, report["entries"], report["heads"]) == (0, 5, 1)
    code, report = verified(flywheel, "--file", trail, "--trust", "0" * 32)
    assert (code, report["finding"]["problem"]) == (1, "key")
    result = flywheel("audit", "verify", "--file", trail, "--keys", trail)
    assert result.exit_code == 1
    assert "holds no keys" in result.output


def test_entries_are_listed_and_shown_by_tenant_task_place_and_verdict(flywheel: Invoke, pool: BenchmarkPool) -> None:
    listed = json.loads(flywheel("audit", "list", "--json").output)
    assert [one["sequence"] for one in listed] == [5, 4, 3, 2, 1]
    of_tenant = json.loads(flywheel("audit", "list", "--tenant", "acme", "--json").output)
    assert {one["content"]["tenantId"] for one in of_tenant} == {"acme"}
    [one] = json.loads(flywheel("audit", "list", "--task", "t2", "--json").output)
    assert one in of_tenant
    assert len(json.loads(flywheel("audit", "list", "--limit", "2", "--json").output)) == 2
    by_id = json.loads(flywheel("audit", "show", one["content"]["verdictId"], "--json").output)
    assert by_id == json.loads(flywheel("audit", "show", str(one["sequence"]), "--json").output) == one
    people = flywheel("audit", "list").output
    assert "t3 by agent-a: passed, 0.900" in people
    assert "signs from here on" in people
    shown = flywheel("audit", "show", str(one["sequence"])).output
    assert re.search(r"taskId +t2\n", shown)
    assert re.search(r"qualityGates +mandatory=yes name=tests passed=yes score=1\.000 threshold=1\.000\n", shown)
    missing = flywheel("audit", "show", "99")
    assert missing.exit_code == 1
    assert "has no entry 99" in missing.output


def test_who_reads_what_verdicts_say_is_in_the_audit_of_access(flywheel: Invoke, pool: BenchmarkPool) -> None:
    flywheel("audit", "list", "--tenant", "acme")
    flywheel("audit", "show", "2")
    first, second = reversed(list_audit(pool, action="verdicts.read"))
    assert (first.asked["tenant"], first.rows) == ("acme", 2)
    assert second.asked["entry"] == "2"
    flywheel("audit", "verify")
    assert len(list_audit(pool)) == 2, "verifying gives nothing out"


def test_what_was_erased_is_listed_as_that(flywheel: Invoke, pool: BenchmarkPool) -> None:
    assert flywheel("pool", "erase", "--tenant", "acme", "--yes").exit_code == 0
    listed = flywheel("audit", "list").output
    assert listed.count("erased by entry 6") == 2
    assert re.search(r"\S+ erased 2 contents", listed)
    code, report = verified(flywheel)
    assert (code, report["erased"]) == (0, 2)


def test_keys_are_listed_rotated_and_exported(flywheel: Invoke, pool: BenchmarkPool, tmp_path: Path) -> None:
    [before] = json.loads(flywheel("keys", "signing", "list", "--json").output)
    assert "signed with the key" in flywheel("keys", "signing", "rotate").output
    old, new = json.loads(flywheel("keys", "signing", "list", "--json").output)
    assert (old["id"], old["until"], new["until"]) == (before["id"], new["since"], None)
    assert old["id"] in flywheel("keys", "signing", "list").output
    flywheel("keys", "signing", "export", str(tmp_path / "keys.json"))
    assert verified(flywheel, "--keys", str(tmp_path / "keys.json"))[0] == 0
    assert "is here and not lost" in flywheel("keys", "signing", "rotate", "--lost").output


def test_what_waits_below_a_home_is_delivered(flywheel: Invoke, pool: BenchmarkPool) -> None:
    notary = Notary(pool.settings, pool.engine, every_s=1e6)
    notary.sign(evaluation("late"))
    notary._writer.close()
    assert flywheel("audit", "deliver").output == "1 verdicts waited and are in the audit trail now\n"
    assert flywheel("audit", "deliver").output == "0 verdicts waited and are in the audit trail now\n"
    assert verified(flywheel)[1]["verdicts"] == 5
