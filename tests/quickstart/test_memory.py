import os
import subprocess
import sys
import time

from flywheel.quickstart.memory import PeakMemory, total_memory

HOLD = "data = bytearray(b'x') * {size}; print('held', flush=True); input()"


def test_memory_of_children_counts_and_each_process_once() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(size=80_000_000)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    before = total_memory([])
    child.stdout.readline()
    held = total_memory([child.pid])
    assert before == 0
    assert held > 80_000_000
    together = total_memory([os.getpid(), child.pid])
    child.communicate(b"\n")
    assert held < together < held + total_memory([os.getpid()]) * 1.2


def test_the_peak_stays_when_the_process_has_ended() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(size=60_000_000)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    with PeakMemory(lambda: [child.pid]) as peak:
        deadline = time.monotonic() + 10
        while not peak.bytes and time.monotonic() < deadline:
            time.sleep(0.05)
        child.communicate(b"\n")
    assert peak.bytes > 60_000_000
    assert total_memory([child.pid]) == 0
