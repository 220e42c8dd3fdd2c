"""Power loss: a recorded trace of writes is cut at every place, and of what was not synced any sectors are missing.

The disk may have any of the sectors written since the last sync, in any mixture, and a sector is written whole. What
``machine`` acknowledged must be readable from each such disk, once, and nothing else than what was appended.
"""

import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.collection import SegmentWriter, writer
from flywheel.collection.live_segment import recover_segments
from tests.collection.reading import damages_in, payloads_in

SECTOR = 512
MIXTURES = min(30, int(os.environ.get("FLYWHEEL_SOAK_ROUNDS", "3")))
Step = tuple[str, int, bytes]


class Recorder:
    """Writes, truncations and syncs of one file in their order, and what was acknowledged between them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        pwrite, fdatasync, ftruncate = os.pwrite, os.fdatasync, os.ftruncate

        def write(descriptor: int, data: bytes, offset: int) -> int:
            written = pwrite(descriptor, data, offset)
            self.steps.append(("write", offset, bytes(data[:written])))
            return written

        def sync(descriptor: int) -> None:
            fdatasync(descriptor)
            self.steps.append(("sync", 0, b""))

        def cut(descriptor: int, size: int) -> None:
            ftruncate(descriptor, size)
            self.steps.append(("cut", size, b""))

        patch.setattr(os, "pwrite", write)
        patch.setattr(os, "fdatasync", sync)
        patch.setattr(os, "ftruncate", cut)

    def acknowledge(self, payload: bytes) -> None:
        self.steps.append(("acknowledged", 0, payload))


def disks(steps: list[Step], dice: random.Random) -> Iterator[bytes]:
    """What may be on disk after these steps: all unsynced sectors, none, and mixtures."""
    last = max((place for place, step in enumerate(steps) if step[0] == "sync"), default=-1)
    synced = applied(b"", steps[: last + 1], lambda: True)
    yield applied(synced, steps[last + 1 :], lambda: True)
    yield applied(synced, steps[last + 1 :], lambda: False)
    for _ in range(MIXTURES):
        yield applied(synced, steps[last + 1 :], lambda: dice.random() < 0.5)


def applied(disk: bytes, steps: list[Step], survives: Callable[[], bool]) -> bytes:
    """The disk after those sectors of the steps that survive; a file's size is that of the longest write."""
    content = bytearray(disk)
    for kind, offset, data in steps:
        if kind == "cut":
            del content[offset:]
        elif kind == "write":
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            for start in range(offset - offset % SECTOR, offset + len(data), SECTOR):
                low, high = max(start, offset), min(start + SECTOR, offset + len(data))
                if survives():
                    content[low:high] = data[low - offset : high - offset]
    return bytes(content)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Batches of different sizes by one writer."""
    monkeypatch.setattr(writer.SegmentWriter, "_start_thread", lambda segments: None)
    monkeypatch.setattr("flywheel.collection.live_segment.STEP_BYTES", 4_096)
    dice = random.Random(3)
    segments = SegmentWriter(
        tmp_path / "recorded", clock=lambda: datetime(2025, 3, 1, tzinfo=UTC), durability="machine"
    )
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        for number in range(24):
            batch = [
                b"%d-%d:" % (number, place) + dice.randbytes(dice.randrange(900)) for place in range(1 + number % 3)
            ]
            segments.append_all(batch)
            for payload in batch:
                recorder.acknowledge(payload)
    segments.close()
    return recorder.steps


def test_every_acknowledged_record_is_read_once_from_every_disk_that_a_power_cut_can_leave(
    tmp_path: Path, trace: list[Step]
) -> None:
    dice = random.Random(5)
    appended = {data for kind, _, data in trace if kind == "acknowledged"}
    torn = 0
    for length in range(1, len(trace) + 1):
        acknowledged = [data for kind, _, data in trace[:length] if kind == "acknowledged"]
        for disk in disks([step for step in trace[:length] if step[0] != "acknowledged"], dice):
            folder = tmp_path / "disk"
            folder.mkdir()
            (folder / "20250301T000000000000-1-00000000.open").write_bytes(disk)
            recover_segments(folder)
            found = payloads_in(folder)
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found) <= appended
            torn += len(damages_in(folder))
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    assert torn > 0  # some of these disks did have torn records, and they were counted
