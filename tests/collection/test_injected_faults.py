"""Faults of the kernel's side: errors injected into system calls, short writes, a full disk, one that is read-only."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.collection import Collector
from flywheel.collection.live_segment import recover_segments
from flywheel.records import Feedback
from tests.collection.reading import damages_in, payloads_in

PROGRAM = """
import json, resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from flywheel.collection import SegmentWriter

limit = int(sys.argv[3])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
writer = SegmentWriter(Path(sys.argv[1]), clock=lambda: datetime.now(UTC), durability=sys.argv[2], max_bytes=20_000)
acknowledged, refused = [], {}
for number in range(150):
    payload = b"%d:" % number + b"x" * 400
    for attempt in range(5):
        try:
            writer.append(payload)
        except OSError as error:
            refused[error.errno] = refused.get(error.errno, 0) + 1
        else:
            acknowledged.append(number)
            break
writer.close()
print(json.dumps([acknowledged, refused]))
"""


def run(folder: Path, durability: str, *command: str, file_limit: int = 0) -> tuple[list[int], dict[str, int]]:
    program = [sys.executable, "-c", PROGRAM, str(folder), durability, str(file_limit)]
    result = subprocess.run([*command, *program], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    acknowledged, refused = json.loads(result.stdout.splitlines()[-1])
    return acknowledged, refused


def check(folder: Path, acknowledged: list[int]) -> None:
    recover_segments(folder)
    found = Counter(int(payload.partition(b":")[0]) for payload in payloads_in(folder))
    assert set(found) == set(acknowledged)
    assert set(found.values()) == {1}
    assert not damages_in(folder)


def strace(*inject: str) -> list[str]:
    """The command that injects faults into a program, or a skip where that cannot be done here."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace may not trace here")
    calls = {one.partition(":")[0] for one in inject}
    options = [part for one in inject for part in ("-e", f"inject={one}")]
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", f"trace={','.join(calls)}", *options]


FAULTS = {
    "EIO": 5,
    "ENOSPC": 28,
}


@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("error", FAULTS)
def test_a_write_that_fails_now_and_then_loses_nothing_acknowledged(
    tmp_path: Path, error: str, durability: str
) -> None:
    acknowledged, refused = run(
        tmp_path / "segments", durability, *strace(f"pwrite64:error={error}:when=7+11", "ftruncate:error=EIO:when=2")
    )
    assert refused[str(FAULTS[error])] > 5
    assert len(acknowledged) == 150  # five attempts outlast every eleventh call
    check(tmp_path / "segments", acknowledged)


def test_a_sync_that_fails_now_and_then_acknowledges_nothing_it_did_not_confirm(tmp_path: Path) -> None:
    acknowledged, refused = run(tmp_path / "segments", "machine", *strace("fdatasync:error=EIO:when=5+9"))
    assert refused["5"] > 5
    assert len(acknowledged) == 150
    check(tmp_path / "segments", acknowledged)


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_short_writes_leave_no_half_record(tmp_path: Path, durability: str) -> None:
    """A limit on the size of files makes the kernel take a part of a write and refuse the rest."""
    acknowledged, refused = run(tmp_path / "segments", durability, file_limit=9_000)
    assert refused
    assert len(acknowledged) > 100
    check(tmp_path / "segments", acknowledged)


def note(number: int) -> Feedback:
    at = datetime(2025, 3, 1, tzinfo=UTC)
    return Feedback(task_id=f"t{number}", timestamp=at, source="user", name="note", value=os.urandom(700).hex())


def test_a_full_disk_slows_nobody_and_loses_nothing_that_memory_holds(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200 * 1024))
    collector = Collector(small_disk / "segments", "acme", remove_identifiers=False)
    slowest = 0.0
    for number in range(400):  # 600 kB
        started = time.thread_time()
        collector.log_feedback(note(number))
        slowest = max(slowest, time.thread_time() - started)
    assert collector.waiting > 0
    assert slowest < 0.1
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    deadline = time.monotonic() + 30
    while collector.waiting and time.monotonic() < deadline:
        time.sleep(0.05)
    collector.close()
    assert collector.drops == {}
    found = Counter(payloads_in(small_disk / "segments") + payloads_in(small_disk / "segments" / "dead-letters"))
    assert len(found) == 400
    assert set(found.values()) == {1}


def test_a_disk_that_becomes_read_only_is_counted_and_not_raised(small_disk: Path) -> None:
    collector = Collector(small_disk / "segments", "acme", remove_identifiers=False)
    assert collector.log_feedback(note(0))
    collector.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert not any(collector.log_feedback(note(number)) for number in range(1, 5))
    collector.close()
    assert collector.drops == {"EROFS": 4}
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert collector.log_feedback(note(5))
    collector.close()
    assert len(payloads_in(small_disk / "segments")) == 2


def test_many_threads_on_a_full_disk_account_for_every_log(small_disk: Path) -> None:
    collector = Collector(small_disk / "segments", "acme", remove_identifiers=False, max_waiting_bytes=50_000)
    written: list[bool] = []

    def work(first: int) -> None:
        written.extend([collector.log_feedback(note(first + number)) for number in range(100)])

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    collector.close()
    recover_segments_when_there_is_room(small_disk)
    found = Counter(payloads_in(small_disk / "segments") + payloads_in(small_disk / "segments" / "dead-letters"))
    assert set(found.values()) == {1}
    assert len(found) + sum(collector.drops.values()) == 800
    assert sum(written) <= len(found)
    assert collector.drops


def recover_segments_when_there_is_room(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    recover_segments(disk / "segments")
