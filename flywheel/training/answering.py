"""Models answer tasks and every answer is scored, in several processes where processors are to be kept busy.

On a processor the processes are worth it: threads of one process wait for each other at every small operation of
decoding, and stand still together when another program takes a core (``benchmarks/answering.py``).
"""

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.rubric import overall_score
from flywheel.errors import TrainingError
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.job import EvaluatedModel
from flywheel.training.rewards import answer_scores

if TYPE_CHECKING:
    from flywheel.training.generation import Generator

Mode = Literal["greedy", "sampled"]
TEMPERATURES: dict[Mode, float] = {"greedy": 0.0, "sampled": 1.0}


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


class Question(Struct, frozen=True):
    """A task to be answered in one mode."""

    task: BenchmarkTask
    mode: Mode
    trained: bool


class AnswerBatch(Struct, frozen=True, kw_only=True):
    """Questions that one model answers at once: the unit of work of a process.

    ``seed`` is the batch's own, so that its answers are the same whichever process gives them.
    """

    model: EvaluatedModel
    questions: tuple[Question, ...]
    max_new_tokens: int
    seed: int


AnswerAll = Callable[[Iterable[AnswerBatch]], Iterator[list[EvaluatedAnswer]]]


def batches_of(
    model: EvaluatedModel, questions: Sequence[Question], *, size: int, max_new_tokens: int, seed: int
) -> list[AnswerBatch]:
    """Batches of up to ``size`` questions of about the same length, the longest first, those of one task together."""
    ordered = sorted(questions, key=lambda question: (-characters(question.task), question.task.id))
    return [
        AnswerBatch(
            model=model,
            questions=tuple(ordered[start : start + size]),
            max_new_tokens=max_new_tokens,
            seed=seed + number,
        )
        for number, start in enumerate(range(0, len(ordered), size))
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
    with ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent) as pool:
        try:
            yield lambda batches: pool.map(answer, batches)
        except BrokenProcessPool as error:
            raise TrainingError(
                f"one of {processes} processes that answer was killed; if memory was short, "
                f"evaluation.processes sets how many copies of a model there are"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
        seed=batch.seed,
        batch_size=len(tasks),
    )
    answers = []
    for question, generation in zip(batch.questions, generations, strict=True):
        task = question.task
        scores = answer_scores(task, generation.text, tokens_used=generation.prompt_tokens + generation.output_tokens)
        answers.append(
            EvaluatedAnswer(
                label=batch.model.label,
                mode=question.mode,
                task_id=task.id,
                task_type=task.task_type,
                trained=question.trained,
                exact=check(task.expected, task.tools, generation.text).exact,
                reward=overall_score(task.task_type, scores),
                format=scores.format,
                tool=scores.tool,
                output_tokens=generation.output_tokens,
                text=generation.text,
            )
        )
    return answers


@lru_cache(maxsize=1)
def generator_of(model_dir: Path) -> "Generator":
    """The model of a folder, loaded; the one before it is let go."""
    from flywheel.training.generation import Generator

    return Generator(model_dir)
