"""From the files of a training batch to the rows that the trainers take.

A batch folder holds ``sft.jsonl`` and ``grpo.jsonl``, a data point in wire JSON on each line. Whatever the pool says,
a task that is not in the training split is refused here: this is the last door before a held-out task is learned.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flywheel.errors import TrainingError
from flywheel.records import DataPoint, Message, decode_point
from flywheel.tasks.prompt import prompt_messages, without_demonstrations
from flywheel.tasks.source import BenchmarkTask, Split, TaskSource

SFT_FILE = "sft.jsonl"
GRPO_FILE = "grpo.jsonl"


def read_points(path: Path) -> list[DataPoint]:
    """The data points of a batch file.

    Raises:
        TrainingError: the file is missing, empty, or a line is not a data point.
    """
    points: list[DataPoint] = []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                points.append(_decoded(line, path, number))
    except OSError as error:
        raise TrainingError(f"the batch file cannot be read: {error}; make the batch again") from error
    if not points:
        raise TrainingError(f"{path} holds no data points: there is nothing to train on")
    return points


def training_tasks(points: Sequence[DataPoint], source: TaskSource) -> dict[str, BenchmarkTask]:
    """The benchmark task of each point, by its id.

    Raises:
        TrainingError: a point has no task in the source, or its task is not in the training split.
    """
    tasks: dict[str, BenchmarkTask] = {}
    for point in points:
        task = _task_of(point, source)
        if task.split is not Split.TRAIN:
            raise TrainingError(
                f"task {task.id} of point {point.id} is in the {task.split} split: it is never trained on"
            )
        tasks[task.id] = task
    return tasks


def refuse_kept_tasks(points: Sequence[DataPoint], source: TaskSource) -> None:
    """Hold points against the benchmark's splits. Those of another origin have no task that could be held out.

    Raises:
        TrainingError: a point's task is one that the benchmark does not know or keeps from training.
    """
    training_tasks(of_benchmark(points, source), source)


def of_benchmark(points: Sequence[DataPoint], source: TaskSource) -> list[DataPoint]:
    """The points that name tasks of this benchmark. Imported runs name tasks of others, which it cannot verify."""
    return [point for point in points if (point.task.source or "").startswith(f"{source.name}:")]


def fitting(row: dict[str, Any], length_of: Callable[[list[dict[str, str]]], int], most: int) -> dict[str, Any] | None:
    """The row with the oldest messages left out until it has ``most`` tokens; None where that does not suffice.

    What instructs stays, and so does the message that is answered: trainers cut a row off at its end, and the end is
    the answer.
    """
    instructions = [message for message in row["prompt"] if message["role"] == "system"]
    said = [message for message in row["prompt"] if message["role"] != "system"]

    def fits(left_out: int) -> bool:
        return length_of([*instructions, *said[left_out:], *row["completion"]]) <= most

    left_out = bisect_left(range(len(said)), True, key=fits)
    return {**row, "prompt": [*instructions, *said[left_out:]]} if left_out < len(said) else None


def sft_rows(points: Sequence[DataPoint]) -> list[dict[str, Any]]:
    """One row a point, ``{"prompt": messages, "completion": [answer]}``, without demonstrations.

    The prompt is the conversation as the pool keeps it, anonymized, and so is the answer: the same value has the same
    placeholder in both.

    Raises:
        TrainingError: a point's conversation does not end with an answer.
    """
    rows = []
    for point in points:
        *prompt, answer = without_demonstrations(point.execution.messages) or (None,)
        if not prompt or answer is None or answer.role != "assistant":
            raise TrainingError(f"point {point.id} has no conversation that ends with an answer")
        rows.append(
            {
                "prompt": [_row(message) for message in prompt if message is not None],
                "completion": [{"role": "assistant", "content": answer_text(answer)}],
            }
        )
    return rows


def grpo_rows(tasks: Mapping[str, BenchmarkTask]) -> list[dict[str, Any]]:
    """One row a task, ``{"prompt": messages, "task": id}``; the rewards find the published answer by the id.

    The prompt comes from the task source, as the answer does: in a point's anonymized conversation a value that the
    answer needs may be a placeholder.
    """
    return [{"prompt": [_row(m) for m in prompt_messages(task)], "task": task.id} for task in tasks.values()]


def answer_text(message: Message) -> str:
    """What an assistant's message says, tool calls written as the canonical prompt asks for them."""
    if message.content:
        return message.content
    return "\n".join(
        json.dumps({"name": call.name, "arguments": json.loads(call.arguments)}, ensure_ascii=False)
        for call in message.tool_calls
    )


def prompt_text(message: Message) -> str:
    """What a message of a prompt says: its text and its calls, whose arguments may be no JSON there."""
    calls = (f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in message.tool_calls)
    return "\n".join(filter(None, (message.content, *calls)))


def _decoded(line: bytes, path: Path, number: int) -> DataPoint:
    try:
        return decode_point(line)
    except msgspec.DecodeError as error:
        raise TrainingError(f"{path}, line {number} is not a data point: {error}") from error


def _task_of(point: DataPoint, source: TaskSource) -> BenchmarkTask:
    if point.task.source is None:
        raise TrainingError(f"point {point.id} names no benchmark task, so its answer cannot be verified")
    try:
        return source.by_id(point.task.source)
    except KeyError:
        raise TrainingError(f"point {point.id}: {source.name} has no task {point.task.source}") from None


def _row(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": prompt_text(message)}
