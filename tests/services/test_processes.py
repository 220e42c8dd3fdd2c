import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flywheel.services.interrupts import Interrupted, interruptible
from flywheel.services.processes import SUPERVISOR_VARIABLE, end, find, last_lines, spawn, supervisor_id

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STUBBORN!r}])"


def test_grandchildren_are_found_and_even_the_stubborn_end(tmp_path: Path) -> None:
    supervisor = supervisor_id(tmp_path)
    environment = {**os.environ, SUPERVISOR_VARIABLE: supervisor}
    parent = spawn([sys.executable, "-c", PARENT], environment=environment, log=tmp_path / "parent.log")
    while "deaf" not in last_lines(tmp_path / "parent.log"):
        time.sleep(0.05)
    found = find(supervisor)
    assert {process.pid for process in found} > {parent.pid}
    assert end(found, grace_s=0.5) == 1
    assert find(supervisor) == []


def test_another_home_is_another_supervisor(tmp_path: Path) -> None:
    environment = {**os.environ, SUPERVISOR_VARIABLE: supervisor_id(tmp_path / "a")}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE) as child:
        assert find(supervisor_id(tmp_path / "b")) == []
        assert [process.pid for process in find(supervisor_id(tmp_path / "a"))] == [child.pid]


def test_the_log_of_the_start_before_is_kept(tmp_path: Path) -> None:
    for word in ("first", "second"):
        spawn(["echo", word], environment={}, log=tmp_path / "echo.log").wait()
    assert last_lines(tmp_path / "echo.log") == "second"
    assert last_lines(tmp_path / "echo.log.1") == "first"


def test_a_signal_unwinds_the_stack_and_the_next_one_does_not_disturb_the_clean_up() -> None:
    cleaned = []

    def be_interrupted_twice() -> None:
        try:
            psutil.Process().terminate()
            time.sleep(5)
        finally:
            psutil.Process().terminate()
            cleaned.append(True)

    with pytest.raises(Interrupted) as raised, interruptible():
        be_interrupted_twice()
    assert cleaned == [True]
    assert raised.value.exit_code == 143
