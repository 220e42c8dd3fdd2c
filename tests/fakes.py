"""Fakes that several folders of tests share: small, real implementations of the package's protocols."""

from collections.abc import Sequence
from typing import Any

from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.records import Complexity, Message
from flywheel.tasks.source import AgentTask, BenchmarkTask, ExpectedCall, Split, Tool


def benchmark_task(
    name: str = "add",
    *,
    task_type: str = "synthetic-add",
    split: Split = Split.TRAIN,
    expected: Sequence[ExpectedCall] | None = None,
    tools: Sequence[Tool] | None = None,
) -> BenchmarkTask:
    """A task whose answer is ``add(a=1, b=2)``."""
    schema: dict[str, Any] = {
        "type": "dict",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["a", "b"],
    }
    answer = ExpectedCall(name="add", arguments={"a": (1,), "b": (2,), "note": ("", "sum")})
    return BenchmarkTask(
        id=f"fake:{name}",
        task_type=task_type,
        category=task_type,
        complexity=Complexity.STANDARD,
        question=(Message(role="user", content="What is 1 plus 2?"),),
        tools=tuple(tools) if tools is not None else (Tool(name="add", description="Adds.", parameters=schema),),
        expected=tuple(expected) if expected is not None else (answer,),
        split=split,
    )


class FakeSource:
    """A source of tasks that are in memory."""

    name = "fake"

    def __init__(self, tasks: Sequence[BenchmarkTask]) -> None:
        self._tasks = tuple(tasks)

    def tasks(self) -> Sequence[BenchmarkTask]:
        return self._tasks

    def by_id(self, task_id: str) -> BenchmarkTask:
        return {task.id: task for task in self._tasks}[task_id]


class FixedAgent:
    """Answers every task with the same text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.answered: list[str] = []

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        self.answered += [task.id for task in tasks]
        on_progress(len(tasks), len(tasks))
        return [
            Answer(text=self.text, messages=task.question, prompt_tokens=20, output_tokens=10, latency_ms=5.0)
            for task in tasks
        ]
