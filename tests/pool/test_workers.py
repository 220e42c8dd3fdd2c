"""What is made ahead or by threads is the same, in the same order, with its errors; no process outlives its parent."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from threading import Barrier, Event

import pytest

from flywheel.errors import PoolError
from flywheel.pool.workers import ahead, mapped, threaded

ORPHAN = """
import sys, time
from flywheel.pool.workers import prepare

prepare(int(sys.argv[1]))
time.sleep(60)
print("left behind")
"""


def test_a_process_whose_parent_was_killed_before_it_was_ready_ends_too() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as parent:
        parent.wait()
    program = [sys.executable, "-c", ORPHAN, str(parent.pid)]
    orphan = subprocess.run(program, check=False, capture_output=True, text=True, timeout=50)
    assert (orphan.returncode, orphan.stdout, orphan.stderr) == (1, "", "")


def test_libraries_start_no_threads_beside_a_process_that_has_a_core_to_itself() -> None:
    assert list(mapped(os.getenv, ["OMP_NUM_THREADS"] * 3, processes=2)) == ["1"] * 3


def test_the_next_item_is_made_while_one_is_worked_on() -> None:
    made = [Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in ahead(items()):
        assert all(event.wait(10) for event in made[: number + 2])
        assert not any(event.is_set() for event in made[number + 2 :])


def test_nothing_is_lost_and_an_error_comes_after_what_was_made_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise PoolError("the lake is gone")

    assert list(ahead(iter(()))) == []
    assert list(islice(ahead(items()), 3)) == [0, 1, 2]
    taken: list[int] = []
    with pytest.raises(PoolError, match="the lake is gone"):
        taken.extend(ahead(items()))
    assert taken == [0, 1, 2, 3, 4]


def test_threads_work_side_by_side_and_results_keep_the_items_order() -> None:
    met = Barrier(2)

    def slow_first(number: int) -> int:
        if number < 2:
            met.wait(10)  # nobody comes where one is worked on at a time
        return number * number

    assert list(threaded(slow_first, range(9), threads=2)) == [number * number for number in range(9)]
    assert list(threaded(slow_first, (), threads=2)) == []


def test_no_more_items_are_taken_than_threads_have_to_do() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    assert list(islice(threaded(str, items(), threads=2), 3)) == ["0", "1", "2"]
    assert len(taken) == 7


def test_the_error_of_a_thread_is_raised_in_its_items_turn() -> None:
    def refusing(number: int) -> int:
        if number == 2:
            raise PoolError("the lake is gone")
        return number

    given: list[int] = []
    with pytest.raises(PoolError, match="the lake is gone"):
        given.extend(threaded(refusing, range(9), threads=2))
    assert given == [0, 1]
