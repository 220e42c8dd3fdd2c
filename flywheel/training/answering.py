"""Models answer tasks and every answer is scored, in several processes where processors are to be kept busy.

On a processor the processes are worth it: threads of one process wait for each other at every small operation of
decoding, and stand still together when another program takes a core (``benchmarks/answering.py``).
"""

import multiprocessing
import multiprocessing.connection
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.errors import TrainingError
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.job import EvaluatedModel
from flywheel.training.rewards import answer_scores

if TYPE_CHECKING:
    from flywheel.training.generation import Generator

Mode = Literal["greedy", "sampled"]
TEMPERATURES: dict[Mode, float] = {"greedy": 0.0, "sampled": 1.0}
_LOADED: dict[Path, "Generator"] = {}


class EvaluatedAnswer(Struct, frozen=True, kw_only=True):
    """One answer with its figures. ``trained`` is false for categories that are only reported."""

    label: str
    mode: Mode
    task_id: str
    task_type: str
    trained: bool
    exact: bool
    reward: float
    format: float
    tool: float
    output_tokens: int
    text: str


class Question(Struct, frozen=True, kw_only=True):
    """A task to be answered in one mode. ``number`` tells several samples of one task apart."""

    task: BenchmarkTask
    mode: Mode
    trained: bool
    number: int = 0

    def seed(self, evaluation: int) -> int:
        """Of the answer's chance in an evaluation with this seed: the same whichever model answers, and with what."""
        return zlib.crc32(f"{evaluation}:{self.number}:{self.task.id}".encode())


class AnswerBatch(Struct, frozen=True, kw_only=True):
    """Questions that one model answers at once: the unit of work of a process. ``seed`` is the evaluation's."""

    model: EvaluatedModel
    questions: tuple[Question, ...]
    max_new_tokens: int
    seed: int
    rubric: Rubric = BUILTIN


AnswerAll = Callable[[Iterable[AnswerBatch]], Iterator[list[EvaluatedAnswer]]]


def batches_of(
    model: EvaluatedModel,
    questions: Sequence[Question],
    *,
    size: int,
    max_new_tokens: int,
    seed: int,
    rubric: Rubric = BUILTIN,
) -> list[AnswerBatch]:
    """Batches of up to ``size`` questions of about the same length, the longest first, a task's next to each other."""
    ordered = sorted(questions, key=lambda question: (-characters(question.task), question.task.id))
    return [
        AnswerBatch(model=model, questions=tuple(batch), max_new_tokens=max_new_tokens, seed=seed, rubric=rubric)
        for batch in (ordered[start : start + size] for start in range(0, len(ordered), size))
    ]


def characters(task: BenchmarkTask) -> int:
    """Length of a task's prompt."""
    return sum(len(message.content or "") for message in prompt_messages(task))


@contextmanager
def answering(processes: int) -> Iterator[AnswerAll]:
    """What answers batches, in their order: this process, or as many others.

    Each process holds a copy of the model that answers. They end with this one, however it ends.

    Raises:
        TrainingError: a process was killed.
    """
    if processes == 1:
        yield lambda batches: map(answer, batches)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent)
    try:
        yield lambda batches: pool.map(answer, batches)
    except BrokenProcessPool as error:
        raise TrainingError(
            f"one of {processes} processes that answer was killed; if memory was short, "
            f"evaluation.processes sets how many copies of a model there are"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone: a killed parent cannot tell it to."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def answer(batch: AnswerBatch) -> list[EvaluatedAnswer]:
    """Let the batch's model answer, and score the answers; in the order of the questions."""
    tasks = [question.task for question in batch.questions]
    generations = generator_of(batch.model.model_dir).generate(
        [prompt_messages(task, batch.model.prompt) for task in tasks],
        max_new_tokens=batch.max_new_tokens,
        temperature=[TEMPERATURES[question.mode] for question in batch.questions],
        seeds=[question.seed(batch.seed) for question in batch.questions],
        batch_size=len(tasks),
    )
    answers = []
    for question, generation in zip(batch.questions, generations, strict=True):
        task = question.task
        tokens_used = generation.prompt_tokens + generation.output_tokens
        scores = answer_scores(task, generation.text, tokens_used=tokens_used, rubric=batch.rubric)
        answers.append(
            EvaluatedAnswer(
                label=batch.model.label,
                mode=question.mode,
                task_id=task.id,
                task_type=task.task_type,
                trained=question.trained,
                exact=check(task.expected, task.tools, generation.text).exact,
                reward=batch.rubric.overall(task.task_type, scores),
                format=scores.format,
                tool=scores.tool,
                output_tokens=generation.output_tokens,
                text=generation.text,
            )
        )
    return answers


def generator_of(model_dir: Path) -> "Generator":
    """The model of a folder, loaded; the one before it is let go first, so that there are never two in memory."""
    from flywheel.training.generation import Generator

    if model_dir not in _LOADED:
        _LOADED.clear()
        _LOADED[model_dir] = Generator(model_dir)
    return _LOADED[model_dir]
