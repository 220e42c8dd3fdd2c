"""An agent that is a function: whatever it returns or raises becomes an answer, and none can hold up the others."""

import re
import time

import pytest

from flywheel.arbiter.agents.python_function import PythonAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.profiles import AgentProfile
from flywheel.errors import AgentError
from tests.arbiter.agents import functions
from tests.fakes import benchmark_task

HERE = "tests.arbiter.agents.functions"
REFUSED = re.compile(r": RuntimeError: [23] earlier calls overran 0\.2 s and have not returned$")


def agent(function: str, *, timeout_s: float = 5.0, concurrent: int = 2) -> RunningAgent:
    asked = PythonAgent(f"{HERE}:{function}", prompt="zero-shot", timeout_s=timeout_s, max_overdue=concurrent)
    return RunningAgent(asked, AgentProfile(id="mine", kind="python", max_concurrent=concurrent), Slots())


def answered(function: str, *, timeout_s: float = 5.0) -> Answer:
    [answer] = agent(function, timeout_s=timeout_s).answer([benchmark_task()])
    return answer


def test_a_function_gets_the_prompt_and_not_the_right_answer() -> None:
    answer = answered("plain")
    assert answer.failure_reason is None
    assert answer.text.startswith("synthetic-add: ")
    assert "What is 1 plus 2?" in answer.text
    assert answer.prompt_tokens > answer.output_tokens > 0


def test_a_coroutine_tells_its_own_tokens() -> None:
    answer = answered("slow_coroutine")
    assert (answer.text, answer.prompt_tokens, answer.output_tokens, answer.thinking_tokens) == ("fake:add", 7, 3, 1)
    assert answer.latency_ms >= 10


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("raising", f"{HERE}:raising: KeyError: 'no such city'"),
        ("exiting", f"{HERE}:exiting: SystemExit: bye"),
        ("exiting_coroutine", f"{HERE}:exiting_coroutine: SystemExit: bye"),
        ("interrupting", f"{HERE}:interrupting: KeyboardInterrupt"),
        ("cancelling_coroutine", f"{HERE}:cancelling_coroutine: CancelledError"),
        ("number", f"{HERE}:number: ValueError: it returned int, which is no text, mapping or Reply"),
        ("timing_out_by_itself", f"{HERE}:timing_out_by_itself: TimeoutError: its own database"),
        ("mapping", "the tool is down"),
    ],
)
def test_what_a_function_raises_or_tells_is_the_reason(function: str, reason: str) -> None:
    answer = answered(function)
    assert (answer.failure_reason, answer.text) == (reason, "")
    assert answered("slow_coroutine").text == "fake:add", "whoever comes after it is answered"


@pytest.mark.parametrize("function", ["nothing", "HERE.upper.lower.x", "__doc__"])
def test_a_function_that_is_not_there_is_said(function: str) -> None:
    with pytest.raises(AgentError, match=r"cannot be imported|is no function"):
        answered(function)


def test_a_coroutine_is_cancelled_when_its_time_is_over() -> None:
    started = time.monotonic()
    assert answered("hanging_coroutine", timeout_s=0.2).failure_reason == (
        f"{HERE}:hanging_coroutine: no answer within 0.2 s"
    )
    assert time.monotonic() - started < 30


def test_functions_that_hang_are_not_piled_up_and_come_back_to_work() -> None:
    functions.released.clear()
    hung = agent("hanging", timeout_s=0.2)
    reasons = [answer.failure_reason or "" for answer in hung.answer([benchmark_task(str(n)) for n in range(5)])]
    overran = [reason for reason in reasons if reason.endswith("no answer within 0.2 s")]
    assert 2 <= len(overran) <= 3, "one may begin when the first is over and the second not quite"
    refused = [reason for reason in reasons if REFUSED.search(reason)]
    assert len(overran) + len(refused) == 5
    functions.released.set()
    deadline = time.monotonic() + 20
    while hung.answer([benchmark_task("again")])[0].failure_reason is not None:
        assert time.monotonic() < deadline
