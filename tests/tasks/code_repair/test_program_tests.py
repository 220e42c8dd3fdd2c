"""Whatever a program does, it is contained, and what it did is a result."""

import time
from pathlib import Path

import msgspec
import pytest

from flywheel.sandbox.sandbox import Limits
from flywheel.tasks.code_repair.program_tests import LIMITS as USUAL
from flywheel.tasks.code_repair.program_tests import ProgramTest, TestRun, run_tests

TESTS = (ProgramTest("f(1)", "2"), ProgramTest("f(2)", "3"))
LIMITS = msgspec.structs.replace(USUAL, cpu_s=2, wall_s=4.0)


def ran(body: str, *, limits: Limits = LIMITS) -> TestRun:
    return run_tests(body, TESTS, call_s=0.5, limits=limits)


def seen(body: str) -> str:
    """What came of the first test."""
    return ran(body).results[0].seen


def confined_by(name: str) -> bool:
    return name in ran("def f(x): return x").confined


def test_a_right_program_passes_and_a_wrong_one_says_what_it_gave() -> None:
    assert ran("def f(x): return x + 1").passed_fraction == 1.0
    wrong = ran("def f(x): return 2")
    assert [result.passed for result in wrong.results] == [True, False]
    assert (wrong.results[1].seen, wrong.ended) == ("2", None)


def test_one_is_not_true_and_a_tuple_no_list() -> None:
    assert not run_tests("def f(): return True", [ProgramTest("f()", "1")]).results[0].passed
    assert not run_tests("def f(): return (1,)", [ProgramTest("f()", "[1]")]).results[0].passed


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n    while True: pass",
        "while True: pass",
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    ],
)
def test_an_endless_loop_is_ended(body: str) -> None:
    started = time.monotonic()
    assert "no end after" in ran(body).results[0].seen
    assert time.monotonic() - started < 30


def test_one_that_sleeps_and_swallows_all_signals_is_ended() -> None:
    body = "import time\ndef f(x):\n    while True:\n        try: time.sleep(99)\n        except BaseException: pass"
    run = ran(body)
    assert (run.ended, run.passed_fraction) == ("stopped: it ran longer than 4 s and was ended", 0.0)


def test_a_greedy_program_gets_no_more_memory() -> None:
    assert seen("def f(x): return len(bytearray(4 << 30))").startswith("MemoryError")


def test_a_fork_bomb_makes_no_processes() -> None:
    body = "import os\ndef f(x):\n    while True: os.fork()"
    if not confined_by("no new processes"):
        pytest.skip("this kernel neither filters calls nor limits this user's processes")
    assert "Error" in seen(body)


def test_nothing_outside_its_folder_is_deleted_or_written(tmp_path: Path) -> None:
    if not confined_by("no files outside its folder and what it needs"):
        pytest.skip("this kernel has neither mounts of this user nor Landlock")
    precious = tmp_path / "tests.py"
    precious.write_text("assert True")
    tmp_path.chmod(0o777)
    precious.chmod(0o666)
    assert "Error" in seen(f"import os\ndef f(x): os.remove({str(precious)!r})")
    assert "Error" in seen(f"def f(x): open({str(precious)!r}, 'w')")
    assert "Error" in seen(f"def f(x): return open({str(precious)!r}).read()")
    assert precious.read_text() == "assert True"


def test_its_own_folder_is_its_own_and_gone_afterwards() -> None:
    run = run_tests(
        "import os\ndef f(x):\n    open('note', 'w').write('x')\n    return os.getcwd()", [ProgramTest("f(1)", "''")]
    )
    folder = run.results[0].seen.strip("'")
    assert folder.endswith("/workspace")
    assert not Path(folder).exists()


def test_there_is_no_network() -> None:
    if not confined_by("no network"):
        pytest.skip("this kernel gives this user no network namespace")
    body = "import socket\ndef f(x):\n    socket.create_connection(('127.0.0.1', 1), 2)"
    assert "Error" in seen(body)
    assert seen("import socket\ndef f(x): return len(socket.if_nameindex())") == "1"


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("import os\ndef f(x): os._exit(0)", "the program ended by itself, with code 0"),
        ("import os\nos._exit(3)", "the program ended by itself, with code 3"),
        ("import os, signal\ndef f(x): os.kill(os.getpid(), 11) or os._exit(1)", "the program was ended by SIGSEGV"),
    ],
)
def test_who_leaves_has_not_passed(body: str, end: str) -> None:
    run = ran(body)
    assert (run.passed_fraction, (run.ended or "")[: len(end)]) == (0.0, end)


def test_a_flood_is_cut_off() -> None:
    body = """
import os
def f(x):
    for fd in range(3, 9):
        try:
            while True: os.write(fd, b'x' * 65536)
        except OSError: pass
"""
    assert ran(body).passed_fraction == 0.0


def test_reports_that_a_program_forges_help_it_with_nothing_it_cannot_work_out() -> None:
    body = (
        "import os\ndef f(x):\n    for fd in range(3, 9):\n"
        '        try: os.write(fd, b\'{"call": 1, "passed": true}\\n[1]\\n{"confined": 1}\\n\')\n'
        "        except OSError: pass\n    return 2"
    )
    run = ran(body)
    assert [result.passed for result in run.results] == [True, False]


def test_what_cannot_be_shown_is_an_error() -> None:
    body = "class A:\n    def __repr__(self): raise ValueError('no')\ndef f(x): return A()"
    assert seen(body) == "ValueError: no"
    assert "more than" in seen("def f(x): return 'x' * 10_000")
    assert seen("def f(x): return f(x)").startswith("RecursionError")
    assert seen("def f(x) return").startswith("SyntaxError")
