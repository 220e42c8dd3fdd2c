"""Whatever kills a writer, every acknowledged record is read once, and what is torn is skipped and counted.

``FLYWHEEL_SOAK_ROUNDS`` kills more often than the continuous integration has time for (``make soak``).
"""

import itertools
import os
import random
import signal
import struct
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flywheel.collection import SegmentWriter, writer
from flywheel.collection.forks import DESCRIPTORS
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.writer import Durability
from tests.collection.reading import payloads_in

ROUNDS = int(os.environ.get("FLYWHEEL_SOAK_ROUNDS", "200"))
WRITERS: tuple[Durability, ...] = ("process", "machine", "process")
START = datetime(2025, 3, 1, tzinfo=UTC)
NUMBER = struct.Struct("<II")


def agent(folder: Path, acknowledged: Path, *, durability: Durability, name: int) -> None:
    """A process of three threads that append until it is killed; each notes what was acknowledged."""
    segments = SegmentWriter(folder, clock=lambda: datetime.now(UTC), durability=durability, max_bytes=200_000)
    notes = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def work(thread: int) -> None:
        dice = random.Random(name * 10 + thread)
        number = 0
        while True:
            batch = [NUMBER.pack(name * 10 + thread, number + extra) for extra in range(dice.choice((1, 1, 1, 5)))]
            segments.append_all([payload + b"\xee" * dice.randrange(1_500) for payload in batch])
            os.write(notes, b"".join(batch))
            number += len(batch)
            time.sleep(0.0005)  # more than the disk of a shared machine takes would only wait

    for thread in range(3):
        threading.Thread(target=work, args=(thread,)).start()


def forked_agent(folder: Path, acknowledged: Path, **options: object) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            agent(folder, acknowledged, **options)  # type: ignore[arg-type]
            time.sleep(60)
        finally:
            os._exit(1)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_what_was_acknowledged_survives_kill_9_at_any_moment_and_is_read_once(tmp_path: Path) -> None:
    """Each round kills one of several writers at a random moment, and another takes its place."""
    folder, acknowledged = tmp_path / "segments", tmp_path / "acknowledged"
    dice = random.Random(7)
    names = itertools.count()
    alive = [forked_agent(folder, acknowledged, durability=mode, name=next(names)) for mode in WRITERS]
    for _ in range(ROUNDS):
        time.sleep(0.01 + dice.random() * 0.05)
        if dice.random() < 0.5:
            recover_segments(folder)  # as the pool's intake does while they write
        place = dice.randrange(len(alive))
        end(alive[place])
        alive[place] = forked_agent(folder, acknowledged, durability=WRITERS[place], name=next(names))
    for pid in alive:
        end(pid)
    recover_segments(folder)
    assert not list(folder.glob("*.open"))
    notes = acknowledged.read_bytes()
    wanted = {notes[start : start + NUMBER.size] for start in range(0, len(notes), NUMBER.size)}
    found = Counter(payload[: NUMBER.size] for payload in payloads_in(folder))
    assert len(wanted) > ROUNDS
    assert not wanted - found.keys()
    assert set(found.values()) == {1}


class SegmentStates(RuleBasedStateMachine):
    """Append, sync, crash, rotate, reopen in any order: nothing acknowledged is lost, nothing is there twice."""

    @staticmethod
    def _folder() -> Path:
        import tempfile

        return Path(tempfile.mkdtemp(prefix="flywheel-segments-"))

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(writer.SegmentWriter, "_start_thread", lambda segments: None)  # the rules are its steps
        self.folder = self._folder()
        self.acknowledged: list[bytes] = []
        self.segments = self._made("process")

    def _made(self, durability: Durability) -> SegmentWriter:
        return SegmentWriter(self.folder, clock=lambda: START, durability=durability, max_bytes=2_000)

    @rule(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=4), fill=st.binary(min_size=1, max_size=1))
    def append(self, sizes: list[int], fill: bytes) -> None:
        batch = [b"%d:" % (len(self.acknowledged) + place) + fill * size for place, size in enumerate(sizes)]
        self.segments.append_all(batch)
        self.acknowledged += batch

    @rule()
    def sync(self) -> None:
        self.segments.tick()

    @rule()
    def rotate(self) -> None:
        self.segments.close()

    @rule(durability=st.sampled_from(["process", "machine"]), torn=st.binary(max_size=60))
    def crash(self, durability: Durability, torn: bytes) -> None:
        current = self.segments._segment
        if current is not None and torn:  # the write that the kill interrupted
            os.pwrite(current.descriptor, b"\xf1\x79\xf1\x79" + torn, current.size)
        for descriptor in list(DESCRIPTORS):
            os.close(descriptor)
        DESCRIPTORS.clear()
        self.segments = self._made(durability)

    @rule()
    def reopen(self) -> None:
        recover_segments(self.folder)

    @invariant()
    def closed_segments_hold_nothing_twice_and_nothing_else(self) -> None:
        found = Counter(payloads_in(self.folder))
        assert not found - Counter(self.acknowledged)

    def teardown(self) -> None:
        self.segments.close()
        recover_segments(self.folder)
        assert sorted(payloads_in(self.folder)) == sorted(self.acknowledged)
        self.patch.undo()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


SegmentStates.TestCase.settings = settings(max_examples=100 * max(1, ROUNDS // 200), stateful_step_count=20)
TestSegmentStates = SegmentStates.TestCase
