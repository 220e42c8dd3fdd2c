"""An agent that is a program: what it writes is its answer, and whatever it does it leaves nothing behind."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from flywheel.arbiter.agents.command import CommandAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.profiles import AgentProfile
from flywheel.errors import AgentError
from tests.fakes import benchmark_task

ECHO = "import json, sys; task = json.load(sys.stdin); print(json.dumps({'text': json.dumps(task)}))"
# Starts a grandchild that holds the output open, writes both ids, and waits for ever.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("working on it", file=sys.stderr, flush=True)
if sys.argv[2] == "wait":
    time.sleep(600)
"""


def agent(*command: str, timeout_s: float = 30.0) -> RunningAgent:
    asked = CommandAgent(command, prompt="zero-shot", timeout_s=timeout_s)
    return RunningAgent(asked, AgentProfile(id="mine", kind="command", max_concurrent=2), Slots())


def answered(script: str, *, timeout_s: float = 30.0) -> Answer:
    [answer] = agent(sys.executable, "-c", script, timeout_s=timeout_s).answer([benchmark_task()])
    return answer


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(*pids: int) -> bool:
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(is_running(pid) for pid in pids)


def test_a_program_gets_the_task_without_its_answer_and_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_TENANT_SALT", "s3cret")
    seen = answered(ECHO.replace("json.dumps(task)", "json.dumps([task, dict(__import__('os').environ)])"))
    task, environment = json.loads(seen.text)
    assert set(task) == {"id", "taskType", "complexity", "messages", "tools", "options"}
    assert (task["id"], task["taskType"], task["tools"][0]["name"]) == ("fake:add", "synthetic-add", "add")
    assert "What is 1 plus 2?" in task["messages"][-1]["content"]
    assert "PATH" in environment
    assert not [name for name in environment if name.startswith("FLYWHEEL_")]


def test_a_program_tells_its_tokens_or_they_are_estimated() -> None:
    told = answered('print(\'{"text": "four", "promptTokens": 9, "outputTokens": 0}\')')
    assert (told.text, told.prompt_tokens, told.output_tokens) == ("four", 9, 0)
    assert answered('print(\'{"text": "four"}\')').output_tokens == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('no\\nmodel')", "ended with exit code 1; its stderr ends: no model"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("print('hello')", "its output is no answer: JSON is malformed"),
        ("print('{\"txt\": 1}')", "its output is no answer: Object contains unknown field `txt`"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", "its output is no answer: "),
        ("", "its output is no answer: Input data was truncated"),
    ],
)
def test_what_went_wrong_is_the_reason(script: str, reason: str) -> None:
    answer = answered(script)
    assert answer.failure_reason is not None
    assert answer.failure_reason.startswith(f"{sys.executable}: {reason}")


def test_a_program_that_never_stops_writing_is_ended() -> None:
    answer = answered("import sys\nwhile True: sys.stdout.write('x' * 100_000)")
    assert answer.failure_reason == f"{sys.executable}: it wrote more than 16,777,216 bytes and was ended"


def test_a_program_that_cannot_be_started_is_said() -> None:
    with pytest.raises(AgentError, match="the command '/no/such/program' cannot be started: "):
        agent("/no/such/program").answer([benchmark_task()])


def test_nothing_is_a_shell() -> None:
    [answer] = agent("/bin/echo", '{"text": "$HOME; `id`"}').answer([benchmark_task()])
    assert answer.text == "$HOME; `id`"


@pytest.mark.parametrize("parent", ["wait", "leave"])
def test_when_its_time_is_over_the_whole_family_is_killed(tmp_path: Path, parent: str) -> None:
    file = tmp_path / "pids"
    [answer] = agent(sys.executable, "-c", FAMILY, str(file), parent, timeout_s=3).answer([benchmark_task()])
    assert answer.failure_reason == f"{sys.executable}: no answer within 3 s; its stderr ends: working on it"
    assert gone(*map(int, file.read_text().split()))


def test_what_a_program_leaves_behind_when_it_has_answered_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = 'sleep 600 >/dev/null 2>&1 & echo $! > "$0"; echo \'{"text": "done"}\''
    [answer] = agent("/bin/sh", "-c", script, str(file)).answer([benchmark_task()])
    assert (answer.text, answer.failure_reason) == ("done", None)
    assert gone(int(file.read_text()))


def test_nobody_waits_for_what_left_the_group_with_the_output_in_hand(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = 'setsid sleep 20 & echo $! > "$0"; sleep 600'
    started = time.monotonic()
    try:
        [answer] = agent("/bin/sh", "-c", script, str(file), timeout_s=1).answer([benchmark_task()])
        assert answer.failure_reason == "/bin/sh: no answer within 1 s"
        assert time.monotonic() - started < 15
    finally:
        os.kill(int(file.read_text()), signal.SIGKILL)


def test_a_caller_who_gives_up_ends_the_whole_family(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    async def give_up() -> None:
        running = agent(sys.executable, "-c", FAMILY, str(file), "wait", timeout_s=600)
        call = asyncio.create_task(running.answer_async(benchmark_task()))
        while not file.exists():
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(give_up())
    pids = [int(pid) for pid in file.read_text().split()]
    assert os.getpid() not in pids
    assert gone(*pids)
