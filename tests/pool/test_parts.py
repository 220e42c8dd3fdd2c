"""A day's lines are sorted into parts: nothing is lost, tasks stay whole, time goes on from part to part."""

import os
from datetime import timedelta
from pathlib import Path

from flywheel.pool.intake import index_segments
from flywheel.pool.parts import BUFFER_BYTES, SegmentLine, encode_chunk, gathered, lines_in
from flywheel.pool.pool import BenchmarkPool
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


def test_what_waits_on_disk_has_no_name(tmp_path: Path) -> None:
    chunk = encode_chunk([SegmentLine(os.urandom(2 * BUFFER_BYTES), "s", "routing", "t", b"k" * 16, b"")])
    with gathered([[(0, chunk)], [(1, chunk), (0, chunk)]], parts=2, folder=tmp_path) as contents:
        assert list(tmp_path.iterdir()) == []
        assert [len(list(lines_in(chunks))) for chunks in contents] == [2, 1]
