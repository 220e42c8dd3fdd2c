import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest
from pydantic import SecretStr

from flywheel.errors import PoolError
from flywheel.pool.anonymization import canaries
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, read_rows, row_of
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS, VALIDATED
from flywheel.pool.tiers import place_warm
from flywheel.pool.validation import validate_day
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)
CANARIES = ("ann.lee@example.org", "sk-live0123456789abcdef0123", "/home/ann/app/user-file.ts", "4111 1111 1111 1111")


def canary_logs() -> list[Log]:
    said = " and ".join(CANARIES)
    nested = '{"to": "ann.lee\\u0040example.org", "files": ["/home/ann/app/user-file.ts"]}'
    messages = [
        {"role": "user", "content": f"use {said}"},
        {"role": "assistant", "content": None, "toolCalls": [{"name": "send", "arguments": nested}]},
    ]
    logs = task_logs("t1", messages=messages, failureReason=f"refused by {CANARIES[0]}", description=said)
    logs[0] |= {"userId": "ann", "requirements": [said], "secondaryFactors": [said]}
    feedback = {"log": "feedback", "taskId": "t1", "source": "user", "name": "comment", "value": said}
    return [*logs, {**feedback, "timestamp": (NOON + timedelta(hours=1)).isoformat(), "tenantId": "acme"}]


def prepare(pool: BenchmarkPool, logs: list[Log]) -> None:
    write_segment(pool.settings, "a", logs)
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)


def test_no_canary_is_left_wherever_it_was_nested(pool: BenchmarkPool) -> None:
    prepare(pool, canary_logs())
    report = anonymize_day(pool, DAY)
    (row,) = read_rows(pool, ANONYMIZED, DAY)
    everything = " ".join(str(value) for value in row.values())
    assert [canary for canary in (*CANARIES, "acme", "ann") if canary in everything] == []
    assert report.points_changed == 1
    assert report.replaced["EMAIL_ADDRESS"] == 7
    assert find_violations(pool, DAY).count == 0


def test_the_same_value_has_the_same_placeholder_within_a_point(pool: BenchmarkPool) -> None:
    prepare(pool, canary_logs())
    anonymize_day(pool, DAY)
    (row,) = read_rows(pool, ANONYMIZED, DAY)
    point = decode_point(row["payload"])
    assert point.execution.failure_reason == "refused by [EMAIL_ADDRESS_1]"
    assert "[EMAIL_ADDRESS_1]" in point.task.description
    assert "[EMAIL_ADDRESS_1]" in point.execution.messages[1].tool_calls[0].arguments
    assert "/[PATH]/[FILE].ts" in point.task.description


def test_what_the_statistics_are_kept_by_is_never_touched(pool: BenchmarkPool) -> None:
    prepare(pool, canary_logs())
    anonymize_day(pool, DAY)
    (before,) = read_rows(pool, VALIDATED, DAY)
    (after,) = read_rows(pool, ANONYMIZED, DAY)
    changed = {name for name in POINT_COLUMNS if before[name] != after[name]}
    assert changed == {"tenant_id", "payload"}
    assert after["tenant_id"] == tenant_hash("acme", salt=salt_of(pool.settings))
    assert len(after["tenant_id"]) == 64


def test_a_backfilled_day_is_anonymized_to_the_same_rows(pool: BenchmarkPool) -> None:
    prepare(pool, canary_logs() + task_logs("t2"))
    first = anonymize_day(pool, DAY)
    assert anonymize_day(pool, DAY) == first


def test_what_slipped_through_is_found_counted_and_not_repeated(pool: BenchmarkPool) -> None:
    prepare(pool, task_logs("t1", description="write to ann.lee@example.org"))
    (row,) = read_rows(pool, VALIDATED, DAY)
    point = decode_point(row["payload"])
    pool.replace(ANONYMIZED, DAY, [row_of(point, day=DAY)], schema=arrow_schema(POINT_COLUMNS))
    violations = find_violations(pool, DAY)
    assert violations.by_type == {"EMAIL_ADDRESS": 1, "TENANT": 1}
    assert violations.points == 1
    assert not any("ann" in where for where in violations.where)
    with pool.transaction() as connection:
        assert connection.execute("SELECT privacy_violations FROM days").fetchall() == [(2,)]


def test_the_salt_is_made_once_by_many_and_readable_by_its_owner_only(settings: Settings) -> None:
    with ThreadPoolExecutor(8) as threads:
        salts = set(threads.map(lambda _: salt_of(settings), range(8)))
    path = settings.home / "secrets" / "tenant_salt"
    assert len(salts) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["tenant_salt"]
    path.chmod(0o644)
    with pytest.raises(PoolError, match="readable by others"):
        salt_of(settings)


def test_a_configured_salt_makes_another_hash(settings: Settings) -> None:
    rotated = settings.model_copy(update={"tenant_salt": SecretStr("rotated")})
    assert salt_of(rotated) == b"rotated"
    assert tenant_hash("acme", salt=b"rotated") != tenant_hash("acme", salt=b"other")


def test_a_canary_that_survives_blocks_the_day(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(pool, canary_logs())
    anonymize_day(pool, DAY)
    assert find_violations(pool, DAY).count == 0
    for values in (canaries.CANARIES, canaries.TELLING):
        monkeypatch.setitem(values, "UNKNOWN", "zq-unheard-of")
    found = find_violations(pool, DAY)
    assert found.by_type["CANARY"] > 20
    assert found.where[0].startswith("canary ")
    assert found.where[0].endswith(": UNKNOWN")
    with pytest.raises(PoolError, match="takes nothing of"):
        place_warm(pool, DAY, now=LATER)
