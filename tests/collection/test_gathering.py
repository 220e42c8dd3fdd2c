"""What is gathered waits on disk, and nobody else sees it there."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flywheel.collection import gathering as gathering_of_rows
from flywheel.collection.gathering import gathering
from flywheel.collection.importers.interface import Group, Rejected, Row

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


@contextmanager
def small_files() -> Iterator[None]:
    """A limit of what a file may hold stands for a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROW_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def put_down_too_much() -> None:
    with gathering() as gathered:
        for number in range(ROWS):
            gathered.add(Row(key="a", line=number, raw=bytes(ROW_BYTES // 4)), 0)


def test_a_full_disk_is_named() -> None:
    with small_files(), pytest.raises(OSError, match="TMPDIR needs room"):
        put_down_too_much()


def test_the_rows_of_a_run_are_in_order_and_the_document_is_that_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering_of_rows, "MAX_RUN_BYTES", 10)
    with gathering() as gathered:
        for document, (key, at, raw) in enumerate([("b", "2", b"x"), ("b", "1", b"y"), ("a", "", b"z" * 11)]):
            gathered.add(Row(key=key, kind=key, at=at, line=7, raw=raw), document)
        gathered.add(Row(key="b", kind="b", at="1", line=8, raw=b"v"), 5)
        (of_a, too_large), (of_b, run) = gathered.groups()
    assert (of_a, of_b) == (2, 0)
    assert isinstance(too_large, Rejected)
    assert (too_large.reason, too_large.item) == ("record too large", "a")
    assert run == Group(key="b", line=7, rows=(("b", b"y"), ("b", b"v"), ("b", b"x")))
