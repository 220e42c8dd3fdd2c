from datetime import timedelta
from pathlib import Path

from flywheel.pool.intake import index_segments
from flywheel.pool.parts import sorted_into_parts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import RawLine, plan_day, read_day
from tests.pool.logs import NOON, task_logs, write_segment


def lines_of_a_day(pool: BenchmarkPool) -> list[RawLine]:
    logs = [log for number in range(40) for log in task_logs(f"t{number}")]
    write_segment(pool.settings, "a", [*logs[::2], b"no json"])
    write_segment(pool.settings, "b", logs[1::2])
    index_segments(pool, now=NOON + timedelta(days=1))
    return list(read_day(pool, plan_day(pool, NOON.date())))


def test_the_parts_of_a_day_are_the_day_and_hold_whole_tasks(pool: BenchmarkPool, tmp_path: Path) -> None:
    lines = lines_of_a_day(pool)
    folder = tmp_path / "scratch"
    folder.mkdir()
    with sorted_into_parts(lines, parts=3, folder=folder) as found:
        parts = [list(part) for part in found]
        assert list(folder.iterdir()) == []  # what lies there has no name to be found by
    assert sorted(line.payload for part in parts for line in part) == sorted(line.payload for line in lines)
    assert [line for line in lines if line.task_id == "t7"] in [
        [line for line in part if line.task_id == "t7"] for part in parts
    ]
    tasks = [{line.task_id for line in part if line.task_id} for part in parts]
    assert all(tasks)
    assert sum(map(len, tasks)) == 40


def test_a_small_day_is_one_part(pool: BenchmarkPool, tmp_path: Path) -> None:
    lines = lines_of_a_day(pool)
    with sorted_into_parts(iter(lines), parts=1, folder=tmp_path / "nowhere") as parts:
        assert [list(part) for part in parts] == [lines]
