"""A tenant is one tenant while its salt is rotated, and the former salt is forgotten when nothing carries it."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from flywheel.errors import PoolError
from flywheel.pool import salt_rotation, tenant_batches
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.anonymization.tenants import Salts, former_salt_of, salt_file, salt_id, salt_of, salts_of
from flywheel.pool.batches import batch_members, export_batch, list_batches
from flywheel.pool.erasure import erase_tenant, find_tenant
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.exports import preview_export
from flywheel.pool.filters import PointFilter
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.pool.salt_rotation import finish_rotation, rotate_salt, salt_status
from flywheel.pool.salt_usage import Usage
from flywheel.pool.schemas import ANONYMIZED, COLD, WARM
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.pool.erasure.two_tenants import (
    CRITERIA,
    ERASED,
    LATER,
    NEXT_DAY,
    OTHER,
    content_of,
    database_rows,
    fill,
    others,
    run_stale,
)
from tests.pool.kills import KilledError, killing
from tests.pool.logs import NOON, task_logs, write_segment
from tests.pool.test_retention import DAY

CONFIGURED = "".join(map(chr, range(48, 112)))


@pytest.fixture
def filled(pool: BenchmarkPool) -> BenchmarkPool:
    opened = with_settings(pool, batch=CRITERIA)
    fill(opened)
    return opened


def with_settings(pool: BenchmarkPool, **changes: Any) -> BenchmarkPool:
    return BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update=changes))


def rotate(pool: BenchmarkPool) -> salt_rotation.SaltStatus:
    return rotate_salt(pool, now=LATER, by="bob")


def finish(pool: BenchmarkPool, **options: Any) -> Usage:
    return finish_rotation(pool, now=LATER, by="bob", **options)


def traces(pool: BenchmarkPool, *hashes: str) -> set[str]:
    """Where one of these hashes is found: files below home but what was exported, and tables."""
    found = set()
    for needle in (hashed.encode() for hashed in hashes):
        for path in pool.settings.home.rglob("*"):
            if path.is_file() and needle in content_of(path):
                found.add(path.relative_to(pool.settings.home).parts[1])
        found |= {table for table, row in database_rows(pool) if needle in row}
    return found - {"erasures", "tenant_hashes", "access_audit"}


def test_both_salts_are_valid_until_nothing_carries_the_former(filled: BenchmarkPool) -> None:
    former = salt_of(filled.settings)
    old, other = (salts_of(filled.settings).hashes(name)[0] for name in (ERASED, OTHER))
    found = rotate(filled)
    salts = salts_of(filled.settings)
    assert (salts.former, found.former, found.present) == (former, salt_id(former), salt_id(salts.present))
    assert salts.present != former
    assert found.carrying.rows == {ANONYMIZED: 24, WARM: 24, COLD: 8, "hot_points": 24, "training_batches": 0}
    assert found.carrying.days == (DAY, NEXT_DAY) == tuple(stale.day for stale in stale_days(filled))
    with pytest.raises(PoolError, match="24 points and 8 aggregates of 2 days carry it"):
        finish(filled)
    run_stale(filled)
    assert salt_status(filled, now=LATER).carrying.nothing
    assert finish(filled).nothing
    assert salts_of(filled.settings) == Salts(present=salts.present)
    filled.settings.home.joinpath("training").rename(filled.settings.home.parent / "exported")  # keeps what it had
    for table in (ANONYMIZED, WARM, COLD, "training_batches"):
        filled.forget(table)
    assert traces(filled, old, other) == set()
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM tenant_hashes").fetchone() == (0,)
    with pytest.raises(PoolError, match="no salt is rotated"):
        finish(filled)


def test_days_come_out_as_they_were_but_for_the_hash(filled: BenchmarkPool) -> None:
    before = others(filled)
    old = salts_of(filled.settings).hashes(OTHER)[0]
    rotate(filled)
    run_stale(filled)
    new = salts_of(filled.settings).hashes(OTHER)[0]
    expected = {
        table: sorted([{k: renamed(v, old, new) for k, v in row.items()} for row in rows], key=repr)
        for table, rows in before.items()
        if table != "hot"
    }
    after = others(filled)
    assert {table: rows for table, rows in after.items() if table != "hot"} == expected
    assert len(after["hot"]) == len(before["hot"]) == 12


def renamed(value: Any, old: str, new: str) -> Any:
    return value.replace(old, new) if isinstance(value, str) else value


def test_a_tenant_is_found_by_each_of_its_hashes_and_no_other_tenant_is(filled: BenchmarkPool) -> None:
    whole = {point.id for point in filled.get_points() if point.tenant_id == salts_of(filled.settings).hashes(OTHER)[0]}
    rotate(filled)
    for stale in stale_days(filled)[:1]:  # one of two days comes under the new one
        run_chain(filled, stale.day)
    hashes = salts_of(filled.settings).hashes(OTHER)
    assert {point.tenant_id for point in filled.get_points()}.issuperset(hashes)
    for asked in ((hashes[0],), (hashes[1],), hashes):
        where = PointFilter(tenants=asked)
        assert {point.id for point in filled.get_points(PointQuery(where=where))} == whole
        assert filled.get_system_statistics(where=where).total.tasks == 12
        criteria = criteria_for(filled.settings, "sft", min_points=1, only=where, remove_near_duplicates=False)
        batch = preview_export(filled, criteria, now=LATER).batch
        assert batch is not None
        assert batch.criteria["only"]["tenants"] == [hashes[0]]


def run_chain(pool: BenchmarkPool, day: date) -> None:
    for step in chain(pool, day):
        step()


def chain(pool: BenchmarkPool, day: date) -> list[Callable[[], object]]:
    now = NOON + timedelta(days=(day - DAY).days, hours=2)
    return [
        lambda: index_segments(pool, now=now),
        lambda: validate_day(pool, day, now=now),
        lambda: anonymize_day(pool, day),
        lambda: find_violations(pool, day),
        lambda: place_hot(pool, day, now=now),
        lambda: place_warm(pool, day, now=now),
        lambda: aggregate_cold(pool, day, now=now),
        lambda: refresh_statistics(pool, day),
    ]


DAYS = count(1)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(begun=st.integers(0, 8), erased=st.integers(0, 8), after_days=st.booleans())
def test_no_tenant_is_lost_from_erasure_whenever_the_salt_is_rotated(
    pool: BenchmarkPool, begun: int, erased: int, after_days: bool
) -> None:
    day = DAY + timedelta(days=next(DAYS))
    at = NOON + timedelta(days=(day - DAY).days)
    names = [f"{name}-{day}" for name in ("acme", "umbrella")]
    logs = [log for name in names for n in range(3) for log in task_logs(f"{name}-{n}", at=at, tenant=name)]
    write_segment(pool.settings, f"s{day}", logs, written_at=at)
    hashes = set(salts_of(pool.settings).hashes(names[0]))
    for number, step in enumerate([*chain(pool, day), list]):
        if number == begun:
            rotate_salt(pool, now=at, by="bob")
            hashes |= set(salts_of(pool.settings).hashes(names[0]))
        if number == max(begun, erased):  # the day's run ends here
            break
        step()
    if after_days:
        for stale in stale_days(pool):
            run_chain(pool, stale.day)
    assert erase_tenant(pool, names[0], now=at).other_salt == 0
    assert len(hashes) == 2
    assert traces(pool, *hashes) == set()
    index_segments(pool, now=at)
    for stale in stale_days(pool):
        run_chain(pool, stale.day)
    assert traces(pool, *hashes) == set()
    assert set(find_tenant(pool, names[0], now=at).removed.values()) == {0}
    kept = salts_of(pool.settings).hashes(names[1])
    assert len(list(pool.get_points(PointQuery(where=PointFilter(tenants=kept))))) == 3
    assert finish_rotation(pool, now=at, by="bob").nothing


KILLS: list[tuple[Any, str]] = [
    (salt_rotation, "renew"),
    (salt_rotation, "enter_salts"),
    (salt_rotation, "remember_tenants"),
    (tenant_batches, "digest_of"),
    (salt_rotation, "mark_changed"),
]
LAST_KILLS: list[tuple[Any, str]] = [
    (salt_rotation, "forget"),
    (salt_rotation, "record"),
    (salt_rotation, "sync_folder"),
]


def test_a_rotation_that_is_killed_at_every_step_comes_to_the_same_end(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    former = salt_of(filled.settings)
    for kills, step in ((KILLS, rotate), (LAST_KILLS, finish)):
        if step is finish:
            run_stale(filled)
        for owner, name in kills:
            for before in (True, False):
                with monkeypatch.context() as patched:
                    patched.setattr(owner, name, killing(getattr(owner, name), before=before))
                    with suppress(KilledError, PoolError):  # once it is finished there is nothing left to kill
                        step(filled)
        if step is rotate:
            assert rotate(filled).former == salt_id(former)
    (batch,) = list_batches(filled)
    assert (len(batch.criteria["rehashed"]), "rehashing" in batch.criteria) == (1, False)
    assert export_batch(filled, "b1", tmp_path).exists()
    with pytest.raises(PoolError, match="no salt is rotated"):
        finish(filled)
    assert not salt_file(filled.settings, "tenant_salt_previous").exists()
    assert salt_status(filled, now=LATER).carrying.nothing
    assert salt_of(filled.settings) != former


def test_two_at_once_make_one_new_salt(filled: BenchmarkPool) -> None:
    former, made = salt_of(filled.settings), []
    threads = [threading.Thread(target=lambda: made.append(rotate(filled).present)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(set(made))) == (2, 1)
    assert former_salt_of(filled.settings) == former
    assert rotate(filled).present == made[0]


def test_batches_keep_their_points_and_say_what_their_digest_was(filled: BenchmarkPool, tmp_path: Path) -> None:
    (before,) = list_batches(filled)
    members = batch_members(filled, "b1")
    rotate(filled)
    (batch,) = list_batches(filled)
    assert batch.criteria["rehashed"] == [{"at": LATER.isoformat(), "formerDigest": before.digest}]
    assert (batch.size, batch_members(filled, "b1")) == (before.size, members)
    exported = (export_batch(filled, "b1", tmp_path) / "sft.jsonl").read_text()
    assert salts_of(filled.settings).hashes(OTHER)[0] in exported
    rotate(filled)
    assert list_batches(filled) == (batch,)


def test_a_process_with_another_salt_makes_no_second_tenant(filled: BenchmarkPool) -> None:
    own = with_settings(filled, tenant_salt=SecretStr("own" * 12))
    salt_file(filled.settings).rename(filled.settings.home / "elsewhere")
    with pytest.raises(PoolError, match="which this process does not have: its own is"):
        anonymize_day(own, DAY)
    (filled.settings.home / "elsewhere").rename(salt_file(filled.settings))
    left_behind = with_settings(filled, home=filled.settings.home.parent / "left")
    salt_file(left_behind.settings).parent.mkdir(parents=True)
    salt_file(left_behind.settings).write_bytes(salt_of(filled.settings))
    salt_file(left_behind.settings).chmod(0o600)
    rotate(filled)
    with pytest.raises(PoolError, match="which is rotated away for"):
        anonymize_day(left_behind, DAY)
    run_stale(filled)
    finish(filled)
    with pytest.raises(PoolError, match="which was forgotten at"):
        anonymize_day(left_behind, DAY)


def test_force_forgets_what_is_still_carried_and_erasure_then_goes_by_ids(filled: BenchmarkPool) -> None:
    rotate(filled)
    assert finish(filled, force=True).days == (DAY, NEXT_DAY)
    report = erase_tenant(filled, ERASED, now=LATER)
    assert (report.other_salt, report.removed[COLD]) == (12, 0)


def test_a_salt_that_is_lost_can_only_be_forgotten_by_force(filled: BenchmarkPool) -> None:
    salt_file(filled.settings).unlink()
    with pytest.raises(PoolError, match="which this process does not have"):
        anonymize_day(filled, DAY)
    with pytest.raises(PoolError, match="give it back, or forget it with --force"):
        finish(filled)
    assert finish(filled, force=True).days == (DAY, NEXT_DAY)
    anonymize_day(filled, DAY)


def configured(pool: BenchmarkPool, present: str, former: str = "") -> BenchmarkPool:
    return with_settings(pool, tenant_salt=SecretStr(present), tenant_salt_previous=SecretStr(former))


def test_a_salt_of_the_environment_is_checked_and_never_written(pool: BenchmarkPool) -> None:
    old = configured(with_settings(pool, batch=CRITERIA), "old" * 12)
    fill(old)
    with pytest.raises(PoolError, match="set FLYWHEEL_TENANT_SALT_PREVIOUS to what FLYWHEEL_TENANT_SALT is now"):
        rotate(old)
    with pytest.raises(PoolError, match="are the same"):
        rotate(configured(old, "old" * 12, "old" * 12))
    with pytest.raises(PoolError, match="has 5 characters, which can be guessed"):
        rotate(configured(old, "short", "old" * 12))
    with pytest.raises(PoolError, match="which this process does not have"):
        rotate(configured(old, CONFIGURED, "wrong" * 9))
    new = configured(old, CONFIGURED, "old" * 12)
    rotate(new)
    run_stale(new)
    assert finish(new).nothing
    assert not salt_file(new.settings).exists()
    assert anonymize_day(configured(old, CONFIGURED), DAY).points == 12
    with pytest.raises(PoolError, match="which was forgotten at"):
        anonymize_day(old, DAY)


def test_a_salt_moves_from_its_file_into_the_environment(filled: BenchmarkPool) -> None:
    former = salt_of(filled.settings)
    moved = configured(filled, CONFIGURED)
    assert salts_of(moved.settings).former == former
    rotate(moved)
    run_stale(moved)
    finish(moved)
    assert not salt_file(moved.settings).exists()
    assert salts_of(moved.settings).former is None


def test_an_erasure_that_was_begun_under_the_former_salt_is_gone_on_with(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("flywheel.pool.erasure.erase_points", killing(lambda: None, before=True))
        with pytest.raises(KilledError):
            erase_tenant(filled, ERASED, now=LATER)
    rotate(filled)
    assert erase_tenant(filled, ERASED, now=LATER).batches == ("b1",)
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*), count(finished_at) FROM erasures").fetchone() == (1, 1)
    assert traces(filled, *salts_of(filled.settings).hashes(ERASED)) == set()


def test_an_empty_pool_rotates_at_once(pool: BenchmarkPool, settings: Settings) -> None:
    former = salt_of(settings)
    assert rotate(pool).carrying.nothing
    assert finish(pool).nothing
    assert salt_of(settings) != former
