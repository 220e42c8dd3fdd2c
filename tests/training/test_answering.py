"""Answers are the same whoever gives them, and no process outlives the evaluation."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import psutil
import pytest

from flywheel.errors import TrainingError
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.answering import AnswerBatch, EvaluatedAnswer, Mode, Question, answering, batches_of
from flywheel.training.job import EvaluatedModel
from flywheel.training.scratch import make_scratch_model

WAITING = """
import time
from flywheel.training import answering
if __name__ == "__main__":
    answering.answer = time.sleep
    with answering.answering(2) as answer_all:
        answers = answer_all([0.0, 0.0, 600.0, 600.0])
        next(answers)
        print("busy", flush=True)
        list(answers)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> EvaluatedModel:
    folder = tmp_path_factory.mktemp("model")
    make_scratch_model(Settings.load(profile="smoke"), folder)
    return EvaluatedModel(label="scratch", model_dir=folder)


def tasks() -> list[BenchmarkTask]:
    return list(load_source(Settings.load(profile="smoke")).tasks()[::150])


def questions(*, samples: int) -> list[Question]:
    asked: list[tuple[Mode, int]] = [("greedy", 0), *(("sampled", number) for number in range(samples))]
    return [Question(task=task, mode=mode, number=number, trained=True) for task in tasks() for mode, number in asked]


def batches(model: EvaluatedModel) -> list[AnswerBatch]:
    return batches_of(model, questions(samples=2), size=7, max_new_tokens=5, seed=3)


def kill_children(_answers: list[EvaluatedAnswer]) -> None:
    for child in multiprocessing.active_children():
        child.kill()


def test_batches_hold_every_question_once_and_a_tasks_questions_next_to_each_other(model: EvaluatedModel) -> None:
    asked = [question.task.id for batch in batches(model) for question in batch.questions]
    assert Counter(asked) == {task.id: 3 for task in tasks()}
    assert len(list(groupby(asked))) == len(tasks())
    assert max(len(batch.questions) for batch in batches(model)) == 7


def test_a_sample_has_the_same_chance_whatever_else_is_asked(model: EvaluatedModel) -> None:
    """So two models are compared with the same numbers also where one gives more samples than the other.

    Sums in bf16 are rounded differently in other batches, so here and there a token is another.
    """
    found: list[dict[str, str]] = []
    for samples, size in ((1, 4), (3, 64)):
        asked = batches_of(model, questions(samples=samples), size=size, max_new_tokens=5, seed=3)
        with answering(1) as answer_all:
            answers = [answer for batch in answer_all(asked) for answer in batch]
        first = {answer.task_id: answer.text for answer in reversed(answers) if answer.mode == "sampled"}
        found.append(first)
    assert sum(found[0][task.id] == found[1][task.id] for task in tasks()) >= len(tasks()) - 2
    assert len({question.seed(3) for question in questions(samples=3)}) == 3 * len(tasks())


def test_two_processes_give_the_answers_of_one(model: EvaluatedModel) -> None:
    found: list[list[EvaluatedAnswer]] = []
    for processes in (1, 2):
        with answering(processes) as answer_all:
            found.append([answer for answers in answer_all(batches(model)) for answer in answers])
    assert found[0] == found[1]
    assert [answer.task_id for answer in found[0]] == [q.task.id for batch in batches(model) for q in batch.questions]
    assert len({answer.text for answer in found[0]}) > 1
    assert multiprocessing.active_children() == []


def test_an_error_is_the_one_that_was_raised(model: EvaluatedModel) -> None:
    missing = model.model_copy(update={"model_dir": Path("/no/such/model")})
    with pytest.raises(OSError, match="/no/such/model"), answering(2) as answer_all:
        list(answer_all(batches(missing)))


def test_a_killed_process_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flywheel.training.answering.answer", time.sleep)
    with pytest.raises(TrainingError, match=r"evaluation\.processes"), answering(2) as answer_all:
        list(map(kill_children, answer_all([0.0, *[0.5] * 50])))  # type: ignore[list-item]


def fail_after_the_first(answers: Iterator[object]) -> None:
    next(answers)
    raise KeyError


def test_after_an_error_nothing_more_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flywheel.training.answering.answer", time.sleep)
    began = time.monotonic()
    with pytest.raises(KeyError), answering(2) as answer_all:
        fail_after_the_first(answer_all([0.0, *[0.5] * 400]))  # type: ignore[list-item]
    assert time.monotonic() - began < 60  # all of it takes 100


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"busy\n"
        children = psutil.Process(parent.pid).children(recursive=True)
        assert len(children) >= 2
        parent.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
