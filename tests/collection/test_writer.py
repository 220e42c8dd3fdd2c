"""The writer: groups that are durable together, rotation without appends, failing syncs, forks."""

import errno
import gc
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flywheel.collection import SegmentWriter, live_segment, writer
from flywheel.collection.group_commit import GroupCommit
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.segments import OPEN_SUFFIX, closed_segments, encode_frames, read_segment
from flywheel.collection.writer import Durability
from tests.collection.reading import damages_in, payloads_in

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
MODES: tuple[Durability, ...] = ("process", "machine")


def made(folder: Path, durability: Durability = "process", **options: float) -> SegmentWriter:
    return SegmentWriter(folder, clock=lambda: START, durability=durability, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("durability", MODES)
def test_a_batch_is_in_one_segment_in_its_order(tmp_path: Path, durability: Durability) -> None:
    with made(tmp_path, durability, max_bytes=300) as segments:
        batches = [[b"%d-%d" % (batch, number) for number in range(30)] for batch in range(5)]
        for batch in batches:
            segments.append_all(batch)
        segments.append_all([])
    found = [[item.payload for item in read_segment(path)] for path in closed_segments(tmp_path)]  # type: ignore[union-attr]
    assert sorted(found) == sorted(batches)  # names of the same moment are in no order


def test_machine_durability_returns_after_a_sync_that_covers_the_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.pread(descriptor, 1 << 20, 0)))
    with made(tmp_path, "machine") as segments:
        segments.append(b"mine")
        assert len(synced) == 1
        assert b"mine" in synced[0]


def test_threads_that_come_during_a_sync_share_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []

    def slow(descriptor: int) -> None:
        syncs.append(descriptor)
        time.sleep(0.05)

    monkeypatch.setattr(os, "fdatasync", slow)
    with made(tmp_path, "machine") as segments:
        threads = [threading.Thread(target=segments.append, args=(b"%d" % number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(syncs) <= 4
    assert sorted(payloads_in(tmp_path)) == sorted(b"%d" % number for number in range(16))


def test_a_leader_that_is_interrupted_tells_nobody_that_the_group_is_durable() -> None:
    groups = GroupCommit()
    joined = threading.Event()
    told: list[object] = []

    def interrupted(data: bytes) -> None:
        joined.wait(20)
        raise KeyboardInterrupt

    def commit(write: Callable[[bytes], None]) -> None:
        try:
            groups.commit(b"x", write)
            told.append("durable")
        except (OSError, KeyboardInterrupt) as error:
            told.append(type(error))

    with groups._writing:  # so that all three are in one group
        threads = [threading.Thread(target=commit, args=(interrupted,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(groups._group.data) < 3:
            time.sleep(0.01)
    joined.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, told)) == sorted(map(str, [KeyboardInterrupt, InterruptedError, InterruptedError]))


def test_a_segment_that_got_old_is_handed_over_without_another_append(tmp_path: Path) -> None:
    segments = made(tmp_path, max_age_s=0.1)
    segments.append(b"alone")
    deadline = time.monotonic() + 20
    while not closed_segments(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert payloads_in(tmp_path) == [b"alone"]
    segments.close()


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(days=400)])
def test_a_clock_that_jumps_closes_a_segment_early_and_loses_nothing(tmp_path: Path, jump: timedelta) -> None:
    now = START
    segments = SegmentWriter(tmp_path, clock=lambda: now)
    segments.append(b"before")
    now += jump
    segments.append(b"after")
    segments.close()
    assert len(closed_segments(tmp_path)) == 2
    assert sorted(payloads_in(tmp_path)) == [b"after", b"before"]


@pytest.mark.parametrize("durability", MODES)
def test_after_a_failed_sync_another_segment_is_opened_and_no_sync_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    failed: list[str] = []
    repeated: list[str] = []

    def sync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        repeated.extend([name] if name in failed else [])
        if not failed:
            failed.append(name)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", sync)
    with made(tmp_path, durability) as segments:
        if durability == "machine":
            with pytest.raises(OSError, match="Input/output"):
                segments.append(b"refused")
        else:
            segments.append(b"first")
            segments.tick()
        segments.append(b"second")
        segments.tick()
    assert (len(failed), repeated) == (1, [])
    assert sorted(payloads_in(tmp_path)) == ([b"second"] if durability == "machine" else [b"first", b"second"])
    assert not list(tmp_path.glob("*.open"))


def test_a_refused_batch_leaves_nothing_that_could_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, left = os.pwrite, [150]

    def short(descriptor: int, data: bytes, offset: int) -> int:
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data[: left.pop()], offset)

    segments = made(tmp_path)
    segments.append(b"before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        with pytest.raises(OSError, match="No space"):
            segments.append_all([b"x" * 40] * 10)
    [path] = tmp_path.glob("*.open")
    assert [item.payload for item in read_segment(path)] == [b"before"]  # type: ignore[union-attr]
    segments.append(b"after")
    segments.close()
    assert payloads_in(tmp_path) == [b"before", b"after"]


def test_a_segment_for_whose_compressed_copy_there_is_no_room_is_handed_over_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    segments = made(tmp_path)
    segments.append(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(live_segment, "write_whole", full)
        segments.close()
    assert payloads_in(tmp_path) == [b"mine"]
    assert not damages_in(tmp_path)


def test_what_cannot_be_handed_over_stays_and_is_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    segments = made(tmp_path)
    segments.append(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(live_segment, "write_whole", broken)
        segments.close()
    assert not closed_segments(tmp_path)
    assert len(recover_segments(tmp_path)) == 1
    assert payloads_in(tmp_path) == [b"mine"]


def test_a_disk_slower_than_the_agents_costs_a_bounded_number_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_SEALED", 3)
    segments = made(tmp_path, max_bytes=1)
    with segments._housekeeping:  # the background thread is stuck in a sync
        for number in range(20):
            segments.append(b"%d" % number)
        assert len(segments._sealed) == 3
        recover_segments(tmp_path)
    segments.close()
    assert sorted(payloads_in(tmp_path)) == sorted(b"%d" % number for number in range(20))


def test_an_append_waits_for_others_no_longer_than_its_patience(tmp_path: Path) -> None:
    segments = made(tmp_path, patience_s=0.05)
    with segments._lock:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            segments.append(b"late")
        assert time.monotonic() - started < 5
    segments.append(b"now")
    segments.close()
    assert payloads_in(tmp_path) == [b"now"]


@pytest.mark.parametrize("durability", MODES)
def test_a_forked_child_goes_on_in_a_segment_of_its_own(tmp_path: Path, durability: Durability) -> None:
    segments = made(tmp_path, durability)
    segments.append(b"parent before")
    child = os.fork()
    if child == 0:
        try:
            segments.append(b"child")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    segments.append(b"parent after")
    assert len(list(tmp_path.glob(f"*{OPEN_SUFFIX}"))) == 2
    assert [payloads_in(tmp_path) for _ in recover_segments(tmp_path)] == [[b"child"]]
    segments.close()
    assert sorted(payloads_in(tmp_path)) == [b"child", b"parent after", b"parent before"]


def test_a_child_that_lives_on_does_not_keep_its_dead_parents_segment_locked(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            made(tmp_path).append(b"parent")
            if os.fork() == 0:
                os.close(write_end)
                os.read(read_end, 1)  # until the test is over
                os._exit(0)
            os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    os.close(read_end)
    os.waitpid(parent, 0)
    assert len(recover_segments(tmp_path)) == 1
    os.close(write_end)
    assert payloads_in(tmp_path) == [b"parent"]


def test_a_kill_between_hand_over_and_removal_reads_nothing_twice(tmp_path: Path) -> None:
    segments = made(tmp_path)
    segments.append(b"mine")
    [path] = tmp_path.glob("*.open")
    left = path.read_bytes()
    segments.close()
    path.write_bytes(left)
    recover_segments(tmp_path)
    assert payloads_in(tmp_path) == [b"mine"]
    assert not list(tmp_path.glob("*.open"))


def test_half_of_a_hand_over_that_a_kill_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    old, young = (tmp_path / f"x.segment.{number}-a.partial" for number in (1, 2))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    recover_segments(tmp_path)
    assert (old.exists(), young.exists()) == (False, True)


def test_only_appends_sync_where_appends_are_promised_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of a write error once: a sync beside theirs could take it away from them."""
    segments = made(tmp_path, "machine")
    segments.append(b"mine")
    segment = segments._segment
    assert segment is not None
    segment.write(encode_frames([b"between write and sync"]))
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: pytest.fail("the background synced"))
    segments.tick()
    monkeypatch.undo()
    segments.close()


def test_a_writer_that_nobody_holds_ends_its_thread(tmp_path: Path) -> None:
    segments = made(tmp_path)
    segments.append(b"mine")
    thread = segments._thread
    assert thread is not None
    segments.close()
    del segments
    gc.collect()
    thread.join(timeout=20)
    assert not thread.is_alive()
