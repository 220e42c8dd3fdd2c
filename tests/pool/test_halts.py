import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any

import pytest

from flywheel.errors import PoolError
from flywheel.pool import halts
from flywheel.pool.anonymization import day as anonymization_day
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.violations import suspicions_of
from flywheel.pool.batches import make_batch
from flywheel.pool.halts import halt_on_violations, halted_because, lift, list_halts, open_halts, read_open_halts
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import missing, readiness
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)
PERSONAL = "ann.lee@example.org"  # an agent's name is kept as it is, so this one is found by the check


def prepare(pool: BenchmarkPool, name: str = "a", *, agent: str = PERSONAL) -> None:
    write_segment(pool.settings, name, task_logs(f"t-{name}", agent=agent))
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    anonymize_day(pool, DAY)


def take_the_points_out(pool: BenchmarkPool) -> None:
    pool.replace(ANONYMIZED, DAY, (), schema=arrow_schema(POINT_COLUMNS))


def test_a_clean_day_halts_nothing(pool: BenchmarkPool) -> None:
    prepare(pool, agent="agent-a")
    assert halt_on_violations(pool, DAY, now=LATER).count == 0
    assert open_halts(pool) == ()
    assert halted_because(open_halts(pool)) == ""


def test_a_violation_halts_the_pool_and_says_what_it_is_never_its_value(pool: BenchmarkPool) -> None:
    prepare(pool)
    assert halt_on_violations(pool, DAY, now=LATER).count == 1
    (halt,) = open_halts(pool)
    assert (halt.day, halt.opened_at, halt.lifted_at) == (DAY, LATER, None)
    assert halt.reason == "1 privacy violations in 1 points (1 EMAIL_ADDRESS)"
    sentence = halted_because(open_halts(pool))
    assert "2026-03-02, since 2026-03-03 12:00 UTC" in sentence
    assert "flywheel pool lift 2026-03-02 --by NAME --note TEXT" in sentence
    assert PERSONAL not in sentence


def test_a_day_that_is_checked_often_and_at_once_has_one_open_halt(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(lambda hour: halt_on_violations(pool, DAY, now=LATER + timedelta(hours=hour)), range(1, 5)))
    assert [halt.opened_at for halt in list_halts(pool)] == [LATER]


def wait_for_it_to_end_or_wait(pool: BenchmarkPool, work: "Future[Any]") -> None:
    """Until the work is done or waits for somebody's lock."""
    for _ in range(600):
        with pool.transaction() as connection:
            waiting = connection.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if work.done() or waiting.fetchone():
                return
        time.sleep(0.05)
    raise TimeoutError("it neither ended nor waited")


def test_points_that_are_made_while_the_check_looks_are_not_taken_for_checked(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(pool, agent="agent-a")
    write_segment(pool.settings, "b", task_logs("t-b", agent=PERSONAL))
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    with ThreadPoolExecutor(1) as other:
        made: list[Future[Any]] = []

        def look(content: bytes) -> Any:
            made.append(other.submit(anonymize_day, pool, DAY))
            wait_for_it_to_end_or_wait(pool, made[0])
            return suspicions_of(content)

        with monkeypatch.context() as patched:
            patched.setattr(anonymization_day, "suspicions_of", look)
            assert halt_on_violations(pool, DAY, now=LATER).count == 0
        assert made[0].result().points == 2
    with pool.transaction() as connection:
        assert connection.execute("SELECT privacy_violations FROM days").fetchall() == [(None,)]
    assert halt_on_violations(pool, DAY, now=LATER).count == 1


def test_the_count_and_the_halt_are_entered_together_or_not_at_all(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(pool)
    with monkeypatch.context() as patched:
        patched.setattr(halts, "reason_of", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            halt_on_violations(pool, DAY, now=LATER)
    with pool.transaction() as connection:
        assert connection.execute("SELECT privacy_violations FROM days").fetchall() == [(None,)]
    halt_on_violations(pool, DAY, now=LATER)
    assert len(open_halts(pool)) == 1


def test_no_batch_is_made_while_the_pool_is_halted(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    assert missing(readiness(pool, now=LATER), pool.settings.batch)[0].startswith("the pool is halted by 2026-03-02")
    with pytest.raises(PoolError, match="the pool is halted by 2026-03-02"):
        make_batch(pool, "b1", now=LATER)


def test_the_halt_stays_while_the_violations_do(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    with pytest.raises(PoolError, match="its last check found 1 privacy violations"):
        lift(pool, DAY, by="Ann", note="it is only a test", now=LATER)
    anonymize_day(pool, DAY)
    with pytest.raises(PoolError, match="made anew and not checked since"):
        lift(pool, DAY, by="Ann", note="it is only a test", now=LATER)
    assert len(open_halts(pool)) == 1


def test_a_clean_check_does_not_lift_a_halt_a_person_does_and_it_stays_in_the_history(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    take_the_points_out(pool)
    assert halt_on_violations(pool, DAY, now=LATER).count == 0
    assert len(open_halts(pool)) == 1
    lifted = lift(pool, DAY, by=" Ann ", note="taken out", now=LATER + timedelta(hours=1))
    assert (lifted.lifted_by, lifted.note, lifted.lifted_at) == ("Ann", "taken out", LATER + timedelta(hours=1))
    assert open_halts(pool) == ()
    assert list_halts(pool) == (lifted,)


def test_a_day_whose_points_are_gone_can_be_lifted_without_another_check(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET points_removed_at = %s WHERE day = %s", (LATER, DAY))
    assert lift(pool, DAY, by="Ann", note="too old anyway", now=LATER).lifted_by == "Ann"


def test_a_day_that_violates_again_halts_again(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    take_the_points_out(pool)
    halt_on_violations(pool, DAY, now=LATER)
    lift(pool, DAY, by="Ann", note="taken out", now=LATER)
    prepare(pool, "b")
    halt_on_violations(pool, DAY, now=LATER + timedelta(days=1))
    assert [halt.lifted_by for halt in list_halts(pool)] == [None, "Ann"]


@pytest.mark.parametrize(("by", "note"), [("", "seen"), ("Ann", " ")])
def test_nobody_lifts_a_halt_without_a_name_and_a_reason(pool: BenchmarkPool, by: str, note: str) -> None:
    with pytest.raises(PoolError, match="say who lifts it"):
        lift(pool, DAY, by=by, note=note, now=LATER)


def test_what_does_not_halt_the_pool_cannot_be_lifted(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="2026-03-02 does not halt the pool"):
        lift(pool, DAY, by="Ann", note="seen", now=LATER)


def test_the_hour_of_a_halt_is_in_utc_wherever_the_server_is(pool: BenchmarkPool) -> None:
    prepare(pool)
    halt_on_violations(pool, DAY, now=LATER)
    with pool.transaction() as connection:
        connection.execute("SET LOCAL TIME ZONE 'Asia/Kathmandu'")
        assert "since 2026-03-03 12:00 UTC" in halted_because(read_open_halts(connection))
