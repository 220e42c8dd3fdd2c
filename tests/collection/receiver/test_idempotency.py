"""Requests that name themselves: once, by whichever receiver, also without PostgreSQL."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from flywheel.collection.receiver.idempotency import (
    ABANDONED,
    Answer,
    IdempotentRequests,
    Request,
    ReusedNameError,
    UnderWayError,
)
from flywheel.collection.receiver.keys import create_key, forget_keys
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
DONE = Answer(200, b"{}")


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened


@pytest.fixture
def request_1(pool: BenchmarkPool) -> Request:
    key = create_key(pool, "acme", name="", by="tester", now=NOW)
    return Request(key.id, "request-1", b"digest")


def test_a_retry_is_answered_as_before_here_and_elsewhere(pool: BenchmarkPool, request_1: Request) -> None:
    here, elsewhere = (IdempotentRequests(pool, kept=DAY) for _ in range(2))
    assert here.begin(request_1, now=NOW) is None
    for requests in (here, elsewhere):
        with pytest.raises(UnderWayError):
            requests.begin(request_1, now=NOW)
    here.end(request_1, DONE)
    assert here.begin(request_1, now=NOW) == elsewhere.begin(request_1, now=NOW) == DONE
    other = Request(request_1.key_id, request_1.name, b"another")
    for requests in (here, elsewhere):
        with pytest.raises(ReusedNameError):
            requests.begin(other, now=NOW)


def test_what_was_not_stored_is_worked_on_anew(pool: BenchmarkPool, request_1: Request) -> None:
    here, elsewhere = (IdempotentRequests(pool, kept=DAY) for _ in range(2))
    assert here.begin(request_1, now=NOW) is None
    here.release(request_1)
    assert elsewhere.begin(request_1, now=NOW) is None


def test_the_claim_of_a_dead_receiver_is_taken_over_and_a_late_end_of_it_changes_nothing(
    pool: BenchmarkPool, request_1: Request
) -> None:
    dead, heir, third = (IdempotentRequests(pool, kept=DAY) for _ in range(3))
    assert dead.begin(request_1, now=NOW) is None
    later = NOW + ABANDONED + timedelta(seconds=1)
    assert heir.begin(request_1, now=later) is None
    dead.end(request_1, Answer(200, b"dead"))
    heir.end(request_1, DONE)
    assert third.begin(request_1, now=later) == DONE


def test_names_are_free_again_after_a_day_and_rows_go(pool: BenchmarkPool, request_1: Request) -> None:
    here, elsewhere = (IdempotentRequests(pool, kept=DAY) for _ in range(2))
    here.begin(request_1, now=NOW)
    here.end(request_1, DONE)
    assert elsewhere.begin(request_1, now=NOW + DAY + timedelta(seconds=1)) is None
    assert elsewhere.forget_old(now=NOW + 3 * DAY) == 1
    assert elsewhere.forget_old(now=NOW + 3 * DAY) == 0


def test_without_postgresql_memory_answers(pool: BenchmarkPool, request_1: Request, settings: Settings) -> None:
    nowhere = settings.model_copy(update={"database_url": "postgresql://nobody@127.0.0.1:1/none"})
    with BenchmarkPool.open(nowhere) as away:
        requests = IdempotentRequests(away, kept=DAY)
        assert requests.begin(request_1, now=NOW) is None
        requests.end(request_1, DONE)
        assert requests.begin(request_1, now=NOW) == DONE


def test_a_tenant_s_answers_go_with_its_keys(pool: BenchmarkPool, request_1: Request) -> None:
    here = IdempotentRequests(pool, kept=DAY)
    here.begin(request_1, now=NOW)
    here.end(request_1, DONE)
    assert forget_keys(pool, "acme") == 1
    with pool.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM received_requests").fetchone() == (0,)
