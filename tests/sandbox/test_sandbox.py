"""Whatever a command does, it is contained, what it did is a result, and nothing of it is left."""

import os
import secrets
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from flywheel.errors import SandboxError
from flywheel.sandbox import sandbox
from flywheel.sandbox.fences import Fence
from flywheel.sandbox.sandbox import Limits, Ran, run
from flywheel.sandbox.workspace import Workspace

MB = 1 << 20
LIMITS = Limits(wall_s=3.0, cpu_s=3, memory_bytes=256 * MB, disk_bytes=32 * MB, processes=300)


def python(body: str, fence: Fence, *, limits: Limits = LIMITS, collect: tuple[str, ...] = ()) -> Ran:
    argv = [sandbox.PYTHON, "-I", "-S", "-c", textwrap.dedent(body)]
    return run(argv, Workspace(), limits=limits, fence=fence, collect=collect)


def processes_named(mark: str) -> list[str]:
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if mark in line]


def eventually(holds: Callable[[], bool], *, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def mark() -> Iterator[str]:
    """A word on the command line of every process of a test, by which those that are left are found."""
    word = f"mark-{secrets.token_hex(8)}"
    yield word
    assert processes_named(word) == []


def test_a_command_runs_in_a_copy_and_says_what_held_it(tmp_path: Path, fence: Fence) -> None:
    (tmp_path / "note.txt").write_text("before")
    workspace = Workspace(folder=tmp_path, files={"sub/new.txt": "new"})
    script = "cat note.txt sub/new.txt; echo after > note.txt; echo out > made.txt; exit 3"
    ran = run(["sh", "-c", script], workspace, limits=LIMITS, fence=fence, collect=["made.txt", "absent.txt"])
    assert (ran.exit_code, ran.output, ran.ended, ran.left) == (3, b"beforenew", None, 0)
    assert ran.files == {"made.txt": b"out\n"}
    assert (tmp_path / "note.txt").read_text() == "before"
    assert not (tmp_path / "made.txt").exists()
    assert {f"by {fence}", "no network", "no files outside its folder and what it needs"} <= set(ran.confined)
    assert any(word.startswith("at most 300 processes") for word in ran.confined)


def test_a_program_that_is_not_there_is_said_to_be_missing(fence: Fence) -> None:
    ran = run(["no-such-program"], Workspace(), limits=LIMITS, fence=fence)
    assert ran.exit_code is None
    assert "No such file" in (ran.not_started or "")
    assert not ran.succeeded


def test_a_fork_bomb_gets_no_further_than_its_cap_and_leaves_nothing(fence: Fence, mark: str) -> None:
    bomb = "import os, time\nfor _ in range(20):\n    try: os.fork()\n    except OSError: pass\ntime.sleep(30)"
    argv = [sandbox.PYTHON, "-I", "-S", "-c", bomb, mark]
    ran = run(argv, Workspace(), limits=Limits(wall_s=1.5, processes=300), fence=fence)
    assert ran.ended is not None
    assert 2 <= ran.left <= 300


def test_a_test_runner_may_have_processes_of_its_own(fence: Fence) -> None:
    ran = python("import os\nfor _ in range(20):\n    if os.fork() == 0: os._exit(0)\nprint('all')", fence)
    assert (ran.exit_code, ran.output) == (0, b"all\n")


def test_an_allocation_past_the_limit_fails(fence: Fence) -> None:
    ran = python("bytearray(1 << 30)", fence)
    assert ran.exit_code == 1
    assert b"MemoryError" in ran.output


def test_processes_that_together_take_too_much_memory_are_ended(fence: Fence) -> None:
    body = "import os, time\nfor _ in range(3): os.fork()\nhold = b'x' * (100 << 20)\ntime.sleep(30)"
    ran = python(body, fence)
    assert "256 MB of memory" in (ran.ended or "")


def test_processes_that_share_memory_are_not_counted_for_it_twice(fence: Fence) -> None:
    body = "import os, time\nhold = b'x' * (100 << 20)\nfor _ in range(3): os.fork()\ntime.sleep(1)"
    assert python(body, fence).ended is None


@pytest.mark.parametrize("keep", ["memfd", "segment"])
def test_memory_that_is_kept_outside_of_any_process_counts(fence: Fence, keep: str) -> None:
    if keep == "segment" and fence is Fence.LANDLOCK:
        pytest.skip("there are none to be had")
    body = """
        import ctypes, os, time
        libc, kept = ctypes.CDLL(None), []
        libc.shmat.restype = ctypes.c_void_p
        def memfd():
            kept.append(os.memfd_create("kept"))
            os.write(kept[-1], bytes(30 << 20))
        def segment():
            made = libc.shmget(0, 30 << 20, 0o1600)
            place = ctypes.c_void_p(libc.shmat(made, None, 0))
            ctypes.memset(place, 1, 30 << 20)
            libc.shmdt(place)
        for _ in range(10): KEEP()
        time.sleep(30)
    """
    ran = python(body.replace("KEEP", keep), fence, limits=msgspec.structs.replace(LIMITS, wall_s=10.0))
    assert "256 MB of memory" in (ran.ended or "")


def test_no_shared_memory_outlives_the_command(fence: Fence) -> None:
    size = 4096 * (100 + secrets.randbelow(10_000))
    ran = python(f"import ctypes; print(ctypes.CDLL(None).shmget(0, {size}, 0o1600) >= 0)", fence)
    assert ran.output == (b"False\n" if fence is Fence.LANDLOCK else b"True\n")
    sizes = [line.split()[3] for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    assert str(size) not in sizes


def test_an_endless_loop_is_ended(fence: Fence) -> None:
    ran = python("while True: pass", fence, limits=Limits(wall_s=1.0))
    assert ran.ended == "it ran longer than 1 s and was ended"
    ran = python("while True: pass", fence, limits=Limits(wall_s=20.0, cpu_s=1))
    assert "1 s of processor time" in (ran.ended or "")
    assert ran.seconds < 15


def test_one_that_ignores_signals_is_ended(fence: Fence) -> None:
    body = """
        import signal, time
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: time.sleep(99)
    """
    assert python(body, fence, limits=Limits(wall_s=1.0)).ended == "it ran longer than 1 s and was ended"


def test_nothing_outside_is_read_or_written(tmp_path: Path, fence: Fence) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    tmp_path.chmod(0o777)
    precious.chmod(0o666)
    body = f"""
        import os, pathlib
        for attempt in (
            lambda: open({str(precious)!r}).read(),
            lambda: open({str(precious)!r}, "w"),
            lambda: os.remove({str(precious)!r}),
            lambda: os.chmod({str(precious)!r}, 0),
            lambda: pathlib.Path("/etc/shadow").read_text(),
            lambda: pathlib.Path("/usr/bin/made").write_text("x"),
            lambda: pathlib.Path("../../../../../../../../made").write_text("x"),
        ):
            try: print("did", attempt())
            except OSError as error: print(type(error).__name__)
    """
    lines = python(body, fence).output.decode().splitlines()
    assert len(lines) == 7
    assert not any(line.startswith("did") for line in lines)
    assert (precious.read_text(), precious.stat().st_mode & 0o777) == ("mine", 0o666)


def test_a_link_out_of_the_folder_leads_nowhere(tmp_path: Path, fence: Fence) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    precious.chmod(0o666)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(precious)
    (tmp_path / "work" / "up").symlink_to("..")
    script = (
        f"cat link; echo x > link; ln -s {precious} own; cat own; echo x > own; ln -s /etc/passwd kept; cat up/*.txt"
    )
    ran = run(
        ["sh", "-c", script], Workspace(folder=tmp_path / "work"), limits=LIMITS, fence=fence, collect=["own", "kept"]
    )
    assert b"mine" not in ran.output
    assert precious.read_text() == "mine"
    assert ran.files == {}


def test_a_change_cannot_be_written_through_a_link(tmp_path: Path, fence: Fence) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(outside)
    for path in ("link/file.txt", "../outside/file.txt"):
        workspace = Workspace(folder=tmp_path / "work", files={path: "x"})
        with pytest.raises(SandboxError, match=r"outside of the workspace|cannot be copied"):
            run(["true"], workspace, limits=LIMITS, fence=fence)
    assert list(outside.iterdir()) == []


def test_a_listener_on_the_loopback_is_not_reached(fence: Fence) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        ran = python(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).sendall(b'x')", fence)
        assert ran.exit_code == 1
        assert b"Error" in ran.output
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_daemon_that_detaches_does_not_outlive_the_command(fence: Fence, mark: str) -> None:
    daemon = """
        import os, time, signal
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        time.sleep(60)
    """
    body = textwrap.dedent(daemon)
    starter = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {body!r}, '{mark}'])"
    started = time.monotonic()
    ran = python(starter, fence)
    assert (ran.exit_code, ran.left) == (0, 1)
    assert time.monotonic() - started < 20


def test_nothing_is_left_where_the_process_that_asked_for_it_is_killed(fence: Fence, mark: str) -> None:
    if fence is Fence.LANDLOCK:
        pytest.skip("there only what the command itself is ends with it")
    program = f"""
        from flywheel.sandbox.fences import Fence
        from flywheel.sandbox.sandbox import run, PYTHON
        from flywheel.sandbox.workspace import Workspace
        body = "import os, time; os.fork() or os.setsid(); os.fork(); time.sleep(60)"
        run([PYTHON, "-I", "-S", "-c", body, {mark!r}], Workspace(), fence=Fence({str(fence)!r}))
    """
    asking = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    assert eventually(lambda: len(processes_named(f"sleep(60) {mark}")) == 4)
    asking.kill()
    asking.wait()
    assert eventually(lambda: processes_named(mark) == [])


def test_output_of_gigabytes_is_cut_off_and_ends_the_command(fence: Fence) -> None:
    ran = python("import os\nwhile True: os.write(1, b'x' * 65536)", fence, limits=Limits(output_bytes=MB))
    assert "1,024 kB of output" in (ran.ended or "")
    assert len(ran.output) == MB


def test_a_disk_that_is_filled_is_its_own(fence: Fence) -> None:
    body = """
        import os
        for number in range(10_000):
            with open(f"{number}", "wb") as file: file.write(b"x" * (1 << 20))
    """
    ran = python(body, fence)
    assert "32 MB of disk" in (ran.ended or "")


def test_one_that_deletes_its_workspace_hurts_nobody_else(tmp_path: Path, fence: Fence) -> None:
    (tmp_path / "note.txt").write_text("before")
    ran = run(["sh", "-c", "rm -rf -- * .[!.]*; ls -A"], Workspace(folder=tmp_path), limits=LIMITS, fence=fence)
    assert ran.output == b""
    assert (tmp_path / "note.txt").read_text() == "before"


def test_one_that_takes_its_folder_away_or_hides_its_files_is_reported_on_like_any_other(fence: Fence) -> None:
    script = "rm -rf ../workspace; cd /; rm -rf /tmp/sandbox; exit 3"
    assert run(["sh", "-c", script], Workspace(), limits=LIMITS, fence=fence, collect=["a"]).exit_code == 3
    script = (
        "ln -s loop loop; mkfifo pipe; mkdir dir; echo x > dir/a; chmod 0 dir; echo x > large; truncate -s 17M large"
    )
    names = ["loop", "pipe", "dir", "large", "dir/a/b", "../../../etc/passwd"]
    ran = run(["sh", "-c", script], Workspace(), limits=LIMITS, fence=fence, collect=names)
    assert (ran.exit_code, ran.files) == (0, {})


def test_files_of_no_size_are_not_without_end(fence: Fence) -> None:
    if fence is Fence.LANDLOCK:
        pytest.skip("there the files are on a disk that counts them")
    ran = python("number = 0\nwhile True:\n    open(str(number), 'w').close()\n    number += 1", fence)
    assert "32 MB of disk" in (ran.ended or "")


def test_it_sees_no_other_process_and_cannot_forge_what_is_said_of_it(fence: Fence) -> None:
    body = """
        import os, signal
        for pid in range(1, 400):
            if pid != os.getpid():
                try: os.kill(pid, signal.SIGKILL)
                except OSError: pass
        for fd in range(3, 64):
            try: os.write(fd, b'{"exit": 0, "ended": null}')
            except OSError: pass
        try: open("/proc/1/mem", "r+b")
        except OSError: print("no", flush=True)
        os._exit(7)
    """
    ran = python(body, fence)
    assert (ran.exit_code, ran.output) == (7, b"no\n")


def test_nothing_of_the_surroundings_is_inherited(monkeypatch: pytest.MonkeyPatch, fence: Fence) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", "postgresql://secret")
    ran = run(["env"], Workspace(), limits=LIMITS, fence=fence, environment={"GIVEN": "1"})
    assert b"secret" not in ran.output
    assert b"GIVEN=1" in ran.output


def test_a_workspace_that_does_not_fit_is_an_error(fence: Fence) -> None:
    if fence is Fence.LANDLOCK:
        pytest.skip("its disk is measured while it runs")
    workspace = Workspace(files={"large.bin": b"x" * (8 * MB)})
    with pytest.raises(SandboxError, match="4 MB"):
        run(["true"], workspace, limits=Limits(disk_bytes=4 * MB), fence=fence)


def test_what_is_left_out_of_the_copy_is_not_there(tmp_path: Path, fence: Fence) -> None:
    for name in (".git/config", "src/a.py", "src/.git/x", "gone.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    workspace = Workspace(folder=tmp_path, excluded=(".git",), files={"gone.txt": None, "tool": "#!/bin/sh\necho ran"})
    ran = run(["sh", "-c", "find . -type f | sort; ./tool"], workspace, limits=LIMITS, fence=fence)
    assert ran.output.decode().split() == ["./src/a.py", "./tool", "ran"]


def test_one_process_alone_is_held_by_landlock_as_the_user_who_started_it() -> None:
    body = """
        import os, resource, signal, socket
        def kill(): os.kill(os.getppid(), signal.SIGCONT)
        def starve(): resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (64, 64))
        def write(): open("/etc/passwd", "a")
        for attempt in (os.fork, socket.socket, kill, starve, write, lambda: os.listdir("/home")):
            try: print("did", attempt())
            except OSError as error: print(type(error).__name__)
        open("own", "w").write("x")
    """
    try:
        ran = python(body, Fence.LANDLOCK, limits=Limits(wall_s=5.0, processes=1), collect=("own",))
    except SandboxError as error:
        pytest.skip(f"no Landlock here: {error}")
    assert ran.output.decode().split() == ["PermissionError"] * 6
    assert ran.files == {"own": b"x"}
    assert {"no new processes", "no network"} <= set(ran.confined)


def test_a_fence_that_was_not_put_up_is_noticed_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap_arguments", lambda *_: [])
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: "bwrap")
    with pytest.raises(SandboxError, match="it is not in the fence of bubblewrap"):
        run(["true"], Workspace(), fence=Fence.BUBBLEWRAP)


def test_where_nothing_can_be_confined_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "WARDEN", 'print(\'{"broken": "no such limit"}\')')
    with pytest.raises(SandboxError, match="could not be confined: no such limit"):
        run(["true"], Workspace(), fence=Fence.LANDLOCK)


def test_what_is_to_be_read_and_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=f"to read {tmp_path}/toolchain, and nothing is there"):
        run(("true",), Workspace(), readable=(str(tmp_path), str(tmp_path / "toolchain")))


def test_the_copy_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for fence in Fence:
        try:
            run(["true"], Workspace(files={"a": "b"}), limits=Limits(processes=1), fence=fence)
        except SandboxError:
            continue
    assert os.listdir(tmp_path) == []
