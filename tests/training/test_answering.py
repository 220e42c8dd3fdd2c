"""Answers are the same whoever gives them, and no process outlives the evaluation."""

import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from flywheel.errors import TrainingError
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.answering import AnswerBatch, EvaluatedAnswer, Question, answering, batches_of
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


def batches(model: EvaluatedModel) -> list[AnswerBatch]:
    questions = [Question(task, mode, trained=True) for task in tasks() for mode in ("greedy", "sampled", "sampled")]
    return batches_of(model, questions, size=6, max_new_tokens=5, seed=3)


def kill_children(_answers: list[EvaluatedAnswer]) -> None:
    for child in multiprocessing.active_children():
        child.kill()


def test_batches_hold_every_question_once_and_a_tasks_questions_together(model: EvaluatedModel) -> None:
    asked = [question for batch in batches(model) for question in batch.questions]
    assert Counter(question.task.id for question in asked) == {task.id: 3 for task in tasks()}
    assert all(len({q.task.id for q in batch.questions}) == len(batch.questions) / 3 for batch in batches(model))
    assert len({batch.seed for batch in batches(model)}) == len(batches(model))


def test_two_processes_give_the_answers_of_one(model: EvaluatedModel) -> None:
    found: list[list[EvaluatedAnswer]] = []
    for processes in (1, 2):
        with answering(processes) as answer_all:
            found.append([answer for answers in answer_all(batches(model)) for answer in answers])
    assert found[0] == found[1]
    assert [answer.task_id for answer in found[0]] == [q.task.id for batch in batches(model) for q in batch.questions]
    assert len({answer.text for answer in found[0]}) > 1
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_said_and_an_error_is_the_one_that_was_raised(model: EvaluatedModel) -> None:
    missing = model.model_copy(update={"model_dir": Path("/no/such/model")})
    with pytest.raises(OSError, match="/no/such/model"), answering(2) as answer_all:
        list(answer_all(batches(missing)))
    with pytest.raises(TrainingError, match=r"evaluation\.processes"), answering(2) as answer_all:
        list(map(kill_children, answer_all(batches(model) * 50)))


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
