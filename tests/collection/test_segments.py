"""Segments keep what was acknowledged, whatever happens to their writer."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.collection import SegmentWriter
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.segments import (
    HEADER,
    MAGIC,
    Damage,
    Frame,
    closed_segments,
    encode_frames,
    read_segment,
    write_closed_segment,
)
from flywheel.errors import SegmentError

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


def writer(folder: Path, **options: float) -> SegmentWriter:
    return SegmentWriter(folder, clock=lambda: START, **options)  # type: ignore[arg-type]


def payloads(path: Path) -> list[bytes]:
    return [item.payload for item in read_segment(path) if isinstance(item, Frame)]


def damage(path: Path) -> list[Damage]:
    return [item for item in read_segment(path) if isinstance(item, Damage)]


def test_closed_segments_hold_the_frames_in_order(tmp_path: Path) -> None:
    segment = writer(tmp_path)
    for number in range(5):
        segment.append(b"%d" % number)
    assert closed_segments(tmp_path) == []
    segment.close()
    [path] = closed_segments(tmp_path)
    assert payloads(path) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_writer_without_frames_leaves_no_file(tmp_path: Path) -> None:
    segment = writer(tmp_path)
    segment.close()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_is_closed_by_size(tmp_path: Path) -> None:
    segment = writer(tmp_path, max_bytes=100)
    for _ in range(10):
        segment.append(b"x" * 60)
    segment.close()
    assert [len(payloads(path)) for path in closed_segments(tmp_path)] == [2] * 5


def test_a_segment_is_closed_by_age(tmp_path: Path) -> None:
    now = START
    segment = SegmentWriter(tmp_path, clock=lambda: now, max_age_s=60)
    segment.append(b"old")
    now += timedelta(seconds=61)
    segment.append(b"new")
    segment.tick()
    [path] = closed_segments(tmp_path)
    assert payloads(path) == [b"old"]
    segment.close()


def test_threads_share_a_writer_without_mixing_frames(tmp_path: Path) -> None:
    segment = writer(tmp_path, max_bytes=4_000)

    def append(name: int) -> None:
        for number in range(100):
            segment.append(f"{name}-{number}".encode() * 10)

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    segment.close()
    found = [payload for path in closed_segments(tmp_path) for payload in payloads(path)]
    assert sorted(found) == sorted(f"{name}-{n}".encode() * 10 for name in range(4) for n in range(100))
    assert not any(damage(path) for path in closed_segments(tmp_path))


def test_a_torn_tail_is_reported_and_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    write_closed_segment(path, [b"first", b"second"], compressed=False)
    path.write_bytes(path.read_bytes()[:-3])
    assert payloads(path) == [b"first"]
    assert damage(path) == [
        Damage(offset=len(MAGIC) + HEADER.size + 5, size=HEADER.size + 3, kind="torn-tail"),
    ]


def test_a_corrupt_length_costs_only_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    write_closed_segment(path, [b"first", b"second", b"third"], compressed=False)
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + HEADER.size + 5 + 4] = 0xFF
    path.write_bytes(data)
    assert payloads(path) == [b"first", b"third"]
    assert [found.kind for found in damage(path)] == ["corrupt"]


@given(
    lines=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8),
    position=st.integers(0),
    value=st.integers(0, 255),
)
def test_one_changed_byte_costs_at_most_one_frame_and_is_never_read_as_another(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], position: int, value: int
) -> None:
    data = bytearray(encode_frames(lines, start=MAGIC))
    index = len(MAGIC) + position % (len(data) - len(MAGIC))
    changed = data[index] != value
    data[index] = value
    path = tmp_path_factory.mktemp("segment") / "a.segment"
    path.write_bytes(data)
    found = payloads(path)
    assert len(found) == len(lines) - changed
    assert all(line in lines for line in found)
    assert bool(damage(path)) == changed


def test_a_file_that_is_no_segment_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    path.write_text("hello there")
    with pytest.raises(SegmentError, match=r"a\.segment is not a segment"):
        list(read_segment(path))


def test_recovery_leaves_the_segment_of_a_living_writer_alone(tmp_path: Path) -> None:
    segment = writer(tmp_path)
    segment.append(b"mine")
    assert recover_segments(tmp_path) == []
    segment.append(b"still mine")
    segment.close()
    [path] = closed_segments(tmp_path)
    assert payloads(path) == [b"mine", b"still mine"]


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from flywheel.collection import SegmentWriter

writer = SegmentWriter(Path(sys.argv[1]), clock=lambda: datetime.now(UTC), max_bytes=50_000)
number = 0
while True:
    writer.append(b"%d " % number + b"x" * 200)
    print(number, flush=True)
    number += 1
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged >= 1_000:
            break
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.stdout.close()
    process.wait()
    acknowledged = int(rest[-1]) if rest and rest[-1].isdigit() else acknowledged
    assert list(tmp_path.glob("*.open"))
    assert recover_segments(tmp_path)
    found = {int(payload.split()[0]) for path in closed_segments(tmp_path) for payload in payloads(path)}
    assert set(range(acknowledged)) <= found
    assert not list(tmp_path.glob("*.open"))
