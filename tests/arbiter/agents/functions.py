"""Functions that tests register as agents."""

import asyncio
import sys
import threading
import time
from typing import Any

from flywheel.arbiter.agents.exchange import GivenTask, Reply

released = threading.Event()


def plain(task: GivenTask) -> str:
    return f"{task.task_type}: {task.messages[-1].content}"


async def slow_coroutine(task: GivenTask) -> Reply:
    await asyncio.sleep(0.01)
    return Reply(text=task.id, prompt_tokens=7, output_tokens=3, thinking_tokens=1)


def mapping(task: GivenTask) -> dict[str, Any]:
    return {"text": "", "failureReason": "the tool\nis down", "promptTokens": 5}


def raising(task: GivenTask) -> str:
    raise KeyError("no such city")


def exiting(task: GivenTask) -> str:
    sys.exit("bye")


def number(task: GivenTask) -> int:
    return 3


def timing_out_by_itself(task: GivenTask) -> str:
    raise TimeoutError("its own database")


def hanging(task: GivenTask) -> str:
    released.wait(10)
    return "late"


async def hanging_coroutine(task: GivenTask) -> str:
    await asyncio.sleep(60)
    return "late"


def napping(task: GivenTask) -> str:
    time.sleep(0.05)
    return task.id


def failing_slowly(task: GivenTask) -> str:
    time.sleep(0.05)
    raise RuntimeError("broken")


async def coroutine_napping(task: GivenTask) -> str:
    await asyncio.sleep(0.05)
    return task.id
