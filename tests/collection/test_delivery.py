"""What cannot be written waits, is tried again, becomes a dead letter or is counted; the agent never notices."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.collection import SegmentWriter, dead_letters, delivery
from flywheel.collection.dead_letters import list_dead_letters, retry_dead_letters
from flywheel.collection.delivery import Delivery
from flywheel.collection.segments import closed_segments
from tests.collection.reading import payloads_in

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


class Disk:
    """Whether segments and dead letters can be written."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.breaks_dead_letters = False

    def breaks(self, code: int = errno.ENOSPC) -> None:
        def broken(*_: object) -> int:
            raise OSError(code, os.strerror(code))

        self._patch.setattr(os, "pwrite", broken)
        if self.breaks_dead_letters:
            self._patch.setattr(dead_letters, "write_closed_segment", broken)

    def works(self) -> None:
        self._patch.undo()


@pytest.fixture
def disk() -> Iterator[Disk]:
    with pytest.MonkeyPatch.context() as patch:
        yield Disk(patch)


def made(folder: Path, **options: float) -> Delivery:
    segments = SegmentWriter(folder / "segments", clock=lambda: START, patience_s=0.1)
    return Delivery(
        segments,
        dead_letters=folder / "letters",
        clock=lambda: START,
        **{"retry_s": 0.05, **options},  # type: ignore[arg-type]
    )


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def closed(folder: Path, sent: Delivery) -> list[bytes]:
    sent.close()
    sent._writer.close()
    return payloads_in(folder / "segments")


def test_what_failed_is_delivered_in_its_order_when_the_disk_works_again(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    sent = made(tmp_path, retry_s=0.3)
    assert sent.send(b"first")
    disk.breaks()
    assert not sent.send(b"second")
    disk.works()
    assert not sent.send(b"third")  # it waits behind the second
    assert sent.waiting == 2
    with caplog.at_level(logging.WARNING, "flywheel.collection"):
        until(lambda: "2 delivered late" in caplog.text)
    assert sent.send(b"fourth")
    assert closed(tmp_path, sent) == [b"first", b"second", b"third", b"fourth"]
    assert sent.drops == {}


def test_after_three_deliveries_logs_are_kept_as_dead_letters_and_come_back(tmp_path: Path, disk: Disk) -> None:
    sent = made(tmp_path)
    disk.breaks(errno.EIO)
    for number in range(3):
        assert not sent.send(b"%d" % number)
    until(lambda: sent.waiting == 0)
    disk.works()
    letters = list_dead_letters(tmp_path / "letters")
    assert {letter.reason for letter in letters} == {"EIO"}
    assert sum(letter.logs for letter in letters) == 3
    assert retry_dead_letters(tmp_path / "letters", tmp_path / "segments") == len(letters)
    assert retry_dead_letters(tmp_path / "letters", tmp_path / "segments") == 0
    assert sorted(closed(tmp_path, sent)) == [b"0", b"1", b"2"]
    assert sent.drops == {}


def test_a_log_that_came_later_has_its_three_deliveries_too(tmp_path: Path, disk: Disk) -> None:
    sent = made(tmp_path, retry_s=60)
    disk.breaks(errno.EIO)
    sent.send(b"early")
    with sent._delivering:
        sent._deliver_batch(last=False)
        sent.send(b"late")
        sent._deliver_batch(last=False)
        assert letters(tmp_path) == [b"early"]
        assert sent.waiting == 1
    disk.works()
    assert closed(tmp_path, sent) == [b"late"]


def test_threads_that_fail_side_by_side_cost_nobody_between_them_its_log(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = made(tmp_path, retry_s=60)
    both_fail, goes_on = threading.Barrier(2), threading.Event()

    def broken(payload: bytes) -> None:
        both_fail.wait(20)
        if payload == b"slow":
            goes_on.wait(20)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sent._writer, "append", broken)
    threads = [threading.Thread(target=sent.send, args=(payload,)) for payload in (b"quick", b"slow")]
    for thread in threads:
        thread.start()
    until(lambda: sent.waiting == 1)
    sent.send(b"between")  # it has failed once less than the one that will stand behind it
    goes_on.set()
    for thread in threads:
        thread.join()
    disk.breaks(errno.EIO)
    with sent._delivering:
        sent._deliver_batch(last=False)
        sent._deliver_batch(last=False)
    disk.works()
    assert sorted(closed(tmp_path, sent) + letters(tmp_path)) == [b"between", b"quick", b"slow"]


def test_memory_is_bounded_and_what_does_not_fit_is_counted_by_reason_and_reported(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.breaks_dead_letters = True
    sent = made(tmp_path, max_bytes=1_000)
    disk.breaks(errno.EROFS)
    for number in range(50):
        assert not sent.send(b"%03d" % number + b"x" * 97)
    assert sent.waiting == 10
    assert sent.drops == {"EROFS": 40}
    disk.works()
    with caplog.at_level(logging.WARNING, "flywheel.collection"):
        until(lambda: sent.waiting == 0)
        assert [payload[:3] for payload in closed(tmp_path, sent)] == [b"%03d" % number for number in range(10)]
    assert "10 delivered late, 40 dropped" in caplog.text


def test_closing_on_a_broken_disk_counts_what_is_left(tmp_path: Path, disk: Disk) -> None:
    disk.breaks_dead_letters = True
    sent = made(tmp_path, retry_s=60)
    disk.breaks()
    sent.send(b"lost")
    sent.close()
    assert (sent.waiting, sent.drops) == (0, {"ENOSPC": 1})
    disk.works()
    assert sent.send(b"after")
    assert closed(tmp_path, sent) == [b"after"]


def test_a_disk_that_hangs_costs_a_thread_the_write_it_is_in_and_the_others_their_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = made(tmp_path)
    pwrite, hangs, goes_on = os.pwrite, threading.Event(), threading.Event()

    def hanging(descriptor: int, data: bytes, offset: int) -> int:
        hangs.set()
        goes_on.wait(60)
        return pwrite(descriptor, data, offset)

    sent.send(b"before")
    monkeypatch.setattr(os, "pwrite", hanging)
    stuck = threading.Thread(target=sent.send, args=(b"stuck",))
    stuck.start()
    hangs.wait(20)
    started = time.monotonic()
    for number in range(200):
        assert not sent.send(b"%d" % number)
    assert time.monotonic() - started < 5  # one patience of 0.1 s, and the rest takes no disk
    monkeypatch.undo()
    goes_on.set()
    stuck.join()
    until(lambda: sent.waiting == 0)
    found = closed(tmp_path, sent)
    assert sorted(found + letters(tmp_path)) == sorted([b"before", b"stuck", *(b"%d" % n for n in range(200))])


def letters(folder: Path) -> list[bytes]:
    return payloads_in(folder / "letters")


def test_a_forked_child_leaves_what_waits_to_its_parent(tmp_path: Path, disk: Disk) -> None:
    sent = made(tmp_path, retry_s=0.3)
    disk.breaks()
    sent.send(b"parents")
    disk.works()
    child = os.fork()
    if child == 0:
        try:
            written = sent.waiting == 0 and sent.send(b"childs")
            sent.close()
            sent._writer.close()
            os._exit(0 if written else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    until(lambda: sent.waiting == 0)
    assert sorted(closed(tmp_path, sent)) == [b"childs", b"parents"]


def test_dead_letters_come_back_from_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def across(path: Path, target: Path) -> Path:
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    dead_letters.write_dead_letter(tmp_path / "letters", [b"mine"], reason="EIO", now=START)
    monkeypatch.setattr(Path, "rename", across)
    assert retry_dead_letters(tmp_path / "letters", tmp_path / "segments") == 1
    assert payloads_in(tmp_path / "segments") == [b"mine"]
    assert not closed_segments(tmp_path / "letters")


def test_a_payload_that_no_frame_holds_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_PAYLOAD_BYTES", 10)
    sent = made(tmp_path)
    assert not sent.send(b"x" * 11)
    assert sent.drops == {"too large": 1}
