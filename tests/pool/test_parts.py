"""A day's lines are sorted into parts: nothing is lost, tasks stay whole, time goes on from part to part."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.errors import PoolError
from flywheel.pool.intake import index_segments
from flywheel.pool.parts import (
    BUFFER_BYTES,
    GAP_BYTES,
    MAX_PARTS,
    Chunk,
    SegmentLine,
    chunks_in,
    count_of_parts,
    framed,
    gathered,
    payloads_of,
    runs_of,
)
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import OWNERS, plan_day
from tests.pool.logs import NOON, parts_of_day, task_logs, write_segment

DAY = NOON.date()


def fill(pool: BenchmarkPool) -> list[bytes]:
    """40 tasks a minute apart in two segments, with another day's task and a line that is no JSON among them."""
    logs = [log for number in range(40) for log in task_logs(f"t{number}", at=NOON + timedelta(minutes=number))]
    foreign = task_logs("of another day", at=NOON - timedelta(days=1))
    write_segment(pool.settings, "a", [*foreign, *logs[::2], b"no json"])
    write_segment(pool.settings, "b", logs[1::2])
    index_segments(pool, now=NOON + timedelta(days=1))
    whole = [line for part in parts_of_day(pool, DAY, tasks_a_part=1_000) for line in part]
    return sorted(line.payload for line in whole)


def test_the_parts_of_a_day_are_the_day(pool: BenchmarkPool) -> None:
    whole = fill(pool)
    parts = parts_of_day(pool, DAY, tasks_a_part=15)
    assert len(whole) == 3 * 40 + 1
    assert sorted(line.payload for part in parts for line in part) == whole


def test_a_part_holds_whole_tasks_of_a_slice_of_time(pool: BenchmarkPool) -> None:
    fill(pool)
    parts = parts_of_day(pool, DAY, tasks_a_part=15)
    slices = [sorted({int(line.task_id[1:]) for line in part if line.task_id}) for part in parts]
    assert [number for some in slices for number in some] == list(range(40))
    assert [len([line for line in part if line.task_id]) for part in parts] == [3 * len(some) for some in slices]


@given(needed=st.integers(1, 2 * MAX_PARTS), processes=st.integers(1, 70))
def test_no_process_works_on_a_last_part_while_others_have_none(needed: int, processes: int) -> None:
    parts = count_of_parts(needed, processes=processes)
    if parts < MAX_PARTS:
        assert needed <= parts < needed + processes
        assert parts < processes or parts % processes == 0
    else:
        assert parts == MAX_PARTS < needed + processes


def test_a_day_has_as_many_parts_for_one_process_as_for_the_other(pool: BenchmarkPool) -> None:
    fill(pool)
    for processes, parts in ((1, 3), (2, 4), (4, 3)):
        settings = pool.settings.model_copy(update={"pool_processes": processes})
        plan = plan_day(BenchmarkPool(pool.engine, pool.lake, settings), DAY, tasks_a_part=15)
        assert len(plan.owners) == parts


def test_what_waits_on_disk_has_no_name(tmp_path: Path) -> None:
    chunk = framed(Chunk("s", NOON, [SegmentLine(12, 80, "routing", "t" * 2 * BUFFER_BYTES, b"k" * 16, b"")]))
    with gathered([[(0, chunk)], [(1, chunk), (0, chunk)]], parts=2, folder=tmp_path) as contents:
        assert list(tmp_path.iterdir()) == []
        assert [len(list(chunks_in(chunks))) for chunks in contents] == [2, 1]


def test_a_segment_that_lost_its_end_after_it_was_sorted_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    path.write_bytes(b"0123456789")
    lines = [SegmentLine(offset, 4, "routing", "t", b"k" * 16, b"") for offset in (2, 6, 7)]
    assert list(payloads_of(path, lines[:2])) == [b"2345", b"6789"]
    with pytest.raises(PoolError, match="it ends at 10; run it again"):
        list(payloads_of(path, lines))


@given(lines=st.lists(st.tuples(st.integers(0, 4 * BUFFER_BYTES), st.integers(0, 2 * BUFFER_BYTES)), max_size=20))
def test_lines_are_read_at_once_where_they_lie_close_and_each_in_its_turn(lines: list[tuple[int, int]]) -> None:
    some = [SegmentLine(offset, size, "routing", "t", b"k" * 16, b"") for offset, size in lines]
    runs = list(runs_of(some))
    assert [line for run in runs for line in run] == some
    for run in runs:
        read = run[-1].offset + run[-1].size - run[0].offset
        assert read <= max(BUFFER_BYTES, run[0].size)
        assert read <= sum(line.size for line in run) + (len(run) - 1) * GAP_BYTES


def test_lines_that_are_read_at_once_are_those_that_were_sorted(tmp_path: Path) -> None:
    content = bytes(range(256)) * (BUFFER_BYTES // 64)
    (tmp_path / "a.segment").write_bytes(content)
    places = [
        (0, 10),
        (12, 5),
        (GAP_BYTES + 17, 9),
        (3 * GAP_BYTES, BUFFER_BYTES + 1),
        (5, 2),
        (5, 2),
        (len(content), 0),
    ]
    lines = [SegmentLine(offset, size, "routing", "t", b"k" * 16, b"") for offset, size in places]
    read = list(payloads_of(tmp_path / "a.segment", lines))
    assert read == [content[offset : offset + size] for offset, size in places]


def test_a_day_is_planned_without_comparing_every_task_with_every_other_one(pool: BenchmarkPool) -> None:
    fill(pool)
    with pool.transaction() as connection:
        values = {"day": DAY, "tasks": 40, "parts": 3}
        plan = [line for (line,) in connection.execute(f"EXPLAIN {OWNERS}", values)]
        parts = [part for part, *_ in connection.execute(OWNERS, values)]
    assert not [line for line in plan if "Join" in line or "Nested Loop" in line]
    assert sorted(map(parts.count, set(parts))) == sorted(2 * count for count in (13, 13, 14))
