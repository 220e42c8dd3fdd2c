"""What chosen points say, judged in several turns."""

from operator import attrgetter

import pytest

from flywheel.pool.contents import Compared, Contents, Judgement
from flywheel.pool.offers import read_offers
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Offer
from flywheel.settings import Settings
from tests.pool.filling import fill
from tests.pool.logs import NOON, task_logs


@pytest.fixture
def pool(settings: Settings) -> BenchmarkPool:
    return BenchmarkPool.open(settings)


def answered(pool: BenchmarkPool, *answers: str) -> list[Offer]:
    """A point per answer to the same prompt, in this order."""
    asked_for = {"role": "user", "content": "the same question"}
    logs = []
    for number, answer in enumerate(answers):
        said = [asked_for, {"role": "assistant", "content": answer}]
        logs += task_logs(f"task{number}", at=NOON, messages=said)
    fill(pool, "a", logs)
    return sorted(read_offers(pool, since=NOON), key=attrgetter("source_task"))


def contents(pool: BenchmarkPool, compared: Compared = "answer") -> Contents:
    return Contents(pool, version=pool.lake.version(WARM), usable=attrgetter("asked"), compared=compared)


def test_a_point_that_was_alone_is_compared_with_one_that_comes_later(pool: BenchmarkPool) -> None:
    first, other, again = answered(pool, "the answer", "something else", "the answer")
    judged = contents(pool)
    assert judged.judge([first]) == Judgement()
    assert judged.judge([first, other]) == Judgement()
    assert judged.judge([first, other, again]) == Judgement(near_duplicates=frozenset({again.id}))


def test_of_points_that_do_not_stay_no_content_is_kept(pool: BenchmarkPool) -> None:
    first, again, reserve = answered(pool, "the answer", "the answer", "something else")
    judged = contents(pool)
    judged.judge([first, again, reserve])
    assert set(judged.payloads) == {first.id, reserve.id}
    judged.keep([first])
    assert set(judged.payloads) == {first.id}
    assert first.id.encode() in bytes(judged.payloads[first.id])


def test_conversations_that_are_sketched_in_several_parts_are_compared_with_each_other(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flywheel.pool.contents.TEXTS_AT_ONCE", 2)
    points = answered(pool, "one", "two", "three", "four", "five", "one", "two")
    judgement = contents(pool, "conversation").judge(points)
    assert judgement.near_duplicates == {points[5].id, points[6].id}


def test_of_conversations_the_first_stays_and_is_compared_in_later_turns(pool: BenchmarkPool) -> None:
    first, other, again = answered(pool, "the answer", "something else", "the answer")
    judged = contents(pool, "conversation")
    assert judged.judge([first, other]) == Judgement()
    assert judged.judge([first, other, again]) == Judgement(near_duplicates=frozenset({again.id}))
    assert set(judged.payloads) == {first.id, other.id}
