"""Changes whose tests are hostile programs: each is contained, reported as evidence, and leaves nothing running."""

import secrets
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.spec_evaluator import GateResult, evaluate_under_spec
from tests.arbiter.evaluation.projects import spec_of

AT = datetime(2026, 11, 22, tzinfo=UTC)
MARK = f"hostile-{secrets.token_hex(6)}"


def tried(program: str, tmp_path: Path, *, timeout_s: float = 2.0) -> GateResult:
    """What the gate says of a change that brings this program as its test."""
    before = tmp_path / "before"
    before.mkdir(exist_ok=True)
    (before / "kept.txt").write_text("kept")
    spec = spec_of(
        {"gate": "tests", "command": [sys.executable, "test.py", MARK], "timeout_s": timeout_s},
        limits={"memory_mb": 128, "disk_mb": 16, "processes": 300},
    )
    change = Change(files=(FileChange(path="test.py", before=None, after=program),))
    found = evaluate_under_spec(spec, change, before=before, at=AT)
    assert [path.name for path in before.iterdir()] == ["kept.txt"]
    assert (before / "kept.txt").read_text() == "kept"
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if MARK in line] == []
    return found.results[-1]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.5)\n",
            "it ran longer than 2 s",
        ),
        ("bytearray(1 << 30)\n", "exit code 1"),
        ("while True: pass\n", "it ran longer than 2 s"),
        ("import os\nwhile True: os.write(1, b'x' * 65536)\n", "kB of output and was ended"),
        ("while True: open(f'{id(object())}', 'ab').write(b'x' * (1 << 20))\n", "16 MB of disk"),
        (
            "import shutil\nshutil.rmtree('.', ignore_errors=True)\nraise SystemExit(open('kept.txt').read())\n",
            "exit code 1",
        ),
        ("import os\nopen('/etc/passwd', 'a').write('x')\n", "exit code 1"),
        ("import os\nos.symlink('/etc/passwd', 'out')\nopen('out', 'a').write('x')\n", "exit code 1"),
    ],
    ids=["fork bomb", "allocation", "loop", "flood", "disk", "deletes its workspace", "writes outside", "link out"],
)
def test_a_hostile_program_is_contained_and_reported(program: str, reason: str, tmp_path: Path) -> None:
    result = tried(program, tmp_path)
    assert (result.status, result.outcome.score) == ("failed", 0.0)
    assert reason in result.outcome.reason
    assert result.outcome.evidence.confined


def test_a_daemon_that_detaches_is_ended_and_counted(tmp_path: Path) -> None:
    program = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\n"
    )
    result = tried(program + "time.sleep(0.2)\n", tmp_path)
    assert result.status == "passed"
    assert result.outcome.reason == "exit code 0; it left 1 processes running, which were ended"


def test_a_listener_of_this_machine_is_not_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        result = tried(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\n", tmp_path)
        assert "ConnectionRefusedError" in result.outcome.evidence.output or "Error" in result.outcome.evidence.output
        with pytest.raises(TimeoutError):
            listener.accept()
    assert result.status == "failed"
