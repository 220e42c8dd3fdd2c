"""What is gathered waits on disk, and nobody else sees it there."""

import os
import resource
from pathlib import Path

import pytest

from flywheel.collection.gathering import gathering
from flywheel.collection.importers.interface import Group, Row

ROW_BYTES, ROWS = 1024 * 1024, 40


def deleted_files() -> list[str]:
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    targets = [str(link.readlink()) for link in links if link.is_symlink()]
    return [target for target in targets if target.endswith(" (deleted)")]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells which files are open")
def test_rows_wait_in_a_file_that_a_killed_process_cannot_leave_behind() -> None:
    held = deleted_files()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with gathering() as gathered:
        for number in range(ROWS):
            gathered.add(Row(key=f"{number % 4}", line=number, raw=os.urandom(ROW_BYTES)), 0)
        assert len(deleted_files()) == len(held) + 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
        assert grown < ROWS * ROW_BYTES // 2 // 1024
        groups = [group for _, group in gathered.groups()]
    assert [len(group.rows) for group in groups if isinstance(group, Group)] == [ROWS // 4] * 4
