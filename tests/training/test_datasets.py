"""What the trainers are given, and what they must never be given."""

import json
from pathlib import Path

import msgspec
import pytest

from flywheel.errors import TrainingError
from flywheel.records import Message, ToolCall, encode
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages, reference_answer
from flywheel.tasks.source import BenchmarkTask, Split
from flywheel.training.datasets import (
    answer_text,
    fitting,
    grpo_rows,
    of_benchmark,
    prompt_text,
    read_points,
    refuse_kept_tasks,
    sft_rows,
    training_tasks,
)
from tests.training.points import point_of

SOURCE = load_source(Settings.load(profile="smoke"))


def tasks_in(split: Split) -> list[BenchmarkTask]:
    return [task for task in SOURCE.tasks() if task.split is split]


def test_points_come_back_as_they_were_written(tmp_path: Path) -> None:
    points = [point_of(task, reference_answer(task)) for task in tasks_in(Split.TRAIN)[:3]]
    (tmp_path / "sft.jsonl").write_bytes(b"".join(encode(point) + b"\n" for point in points))
    assert read_points(tmp_path / "sft.jsonl") == points


def test_a_line_that_is_no_point_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sft.jsonl"
    file.write_bytes(encode(point_of(tasks_in(Split.TRAIN)[0], "x")) + b'\n{"id": 3}\n')
    with pytest.raises(TrainingError, match=r"sft\.jsonl, line 2"):
        read_points(file)


def test_a_batch_without_points_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(TrainingError, match="nothing to train on"):
        read_points(tmp_path / "empty.jsonl")
    with pytest.raises(TrainingError, match="make the batch again"):
        read_points(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.HELDOUT])
def test_a_task_outside_the_training_split_is_never_trained_on(split: Split) -> None:
    points = [point_of(tasks_in(Split.TRAIN)[0], "x"), point_of(tasks_in(split)[0], "x")]
    with pytest.raises(TrainingError, match=f"is in the {split} split: it is never trained on"):
        training_tasks(points, SOURCE)


def test_a_point_without_a_known_task_is_refused() -> None:
    point = point_of(tasks_in(Split.TRAIN)[0], "x")
    unknown = msgspec.structs.replace(point, task=msgspec.structs.replace(point.task, source="synthetic:none"))
    nameless = msgspec.structs.replace(point, task=msgspec.structs.replace(point.task, source=None))
    with pytest.raises(TrainingError, match="synthetic has no task synthetic:none"):
        training_tasks([unknown], SOURCE)
    with pytest.raises(TrainingError, match="cannot be verified"):
        training_tasks([nameless], SOURCE)


def test_demonstrations_are_not_trained_on() -> None:
    task = tasks_in(Split.TRAIN)[0]
    rows = sft_rows([point_of(task, "answer", style=style) for style in ("zero-shot", "few-shot")])
    assert rows[0] == rows[1]
    assert rows[0]["completion"] == [{"role": "assistant", "content": "answer"}]
    assert [message["content"] for message in rows[0]["prompt"]] == [m.content for m in prompt_messages(task)]


def test_a_conversation_without_an_answer_is_refused() -> None:
    point = point_of(tasks_in(Split.TRAIN)[0], "x")
    cut = msgspec.structs.replace(point.execution, messages=point.execution.messages[:-1])
    with pytest.raises(TrainingError, match="no conversation that ends with an answer"):
        sft_rows([msgspec.structs.replace(point, execution=cut)])


def test_native_tool_calls_become_the_canonical_text() -> None:
    calls = (ToolCall(name="add", arguments='{"a": 1}'), ToolCall(name="add", arguments='{"a": 2}'))
    text = answer_text(Message(role="assistant", tool_calls=calls))
    assert [json.loads(line) for line in text.splitlines()] == [
        {"name": "add", "arguments": {"a": 1}},
        {"name": "add", "arguments": {"a": 2}},
    ]


def test_grpo_asks_as_the_source_does_and_names_the_task() -> None:
    tasks = {task.id: task for task in tasks_in(Split.TRAIN)[:2]}
    rows = grpo_rows(tasks)
    assert [row["task"] for row in rows] == list(tasks)
    assert [m["content"] for m in rows[0]["prompt"]] == [m.content for m in prompt_messages(next(iter(tasks.values())))]


def test_points_of_other_origin_have_no_task_that_could_be_held_out() -> None:
    task, kept = tasks_in(Split.TRAIN)[0], tasks_in(Split.HELDOUT)[0]
    own = point_of(task, reference_answer(task))
    sources = [None, "agentdojo:travel/user_task_1", f"{SOURCE.name}x:1"]
    foreign = [msgspec.structs.replace(own, task=msgspec.structs.replace(own.task, source=name)) for name in sources]
    refuse_kept_tasks([own, *foreign], SOURCE)
    assert of_benchmark([own, *foreign], SOURCE) == [own]
    with pytest.raises(TrainingError, match="never trained on"):
        refuse_kept_tasks([*foreign, point_of(kept, "x")], SOURCE)


def length_of(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"]) for message in messages)


@pytest.mark.parametrize(
    ("most", "left"), [(12, ["s", "a", "bb", "cccc"]), (11, ["s", "bb", "cccc"]), (9, ["s", "cccc"])]
)
def test_a_row_that_is_too_long_loses_its_oldest_messages_and_never_its_answer(most: int, left: list[str]) -> None:
    said = [{"role": "user", "content": content} for content in ("a", "bb", "cccc")]
    row = {
        "prompt": [{"role": "system", "content": "s"}, *said],
        "completion": [{"role": "assistant", "content": "yes."}],
    }
    found = fitting(row, length_of, most)
    assert found is not None
    assert [message["content"] for message in found["prompt"]] == left
    assert found["completion"] == row["completion"]
    assert fitting(row, length_of, 8) is None


def test_calls_in_a_prompt_are_written_out_though_their_arguments_are_no_json() -> None:
    calls = (ToolCall(name="f", arguments="{}"), ToolCall(name="g", arguments="x"))
    message = Message(role="assistant", content="I look.", tool_calls=calls)
    written = 'I look.\n{"name": "f", "arguments": {}}\n{"name": "g", "arguments": x}'
    assert prompt_text(message) == written
