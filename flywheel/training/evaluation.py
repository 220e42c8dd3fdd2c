"""Several models answer the same tasks of one split: ``python -m flywheel.training.evaluation JOB.json``.

Each answers greedily and sampled at temperature 1: the greedy answer is what an agent gives, the sampled one shows
the policy that GRPO optimizes. Categories that are not trained on are answered greedily and reported apart.
Every answer goes to ``answers.jsonl``, the figures to the result file.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from flywheel.errors import TrainingError
from flywheel.settings import EvaluationSettings, TasksSettings
from flywheel.tasks.catalog import source_of
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.answering import (
    TEMPERATURES,
    AnswerBatch,
    EvaluatedAnswer,
    Mode,
    Question,
    answering,
    batches_of,
)
from flywheel.training.intervals import mean_interval, paired_difference, wilson
from flywheel.training.job import (
    ANSWERS_FILE,
    EvaluatedModel,
    EvaluationJob,
    Reporter,
    Stopwatch,
    peak_memory_gib,
    reporting,
    write_result,
)
from flywheel.training.launch import on_cpu


def evaluate(job: EvaluationJob, reporter: Reporter) -> dict[str, Any]:
    """Let the models answer, and sum up.

    Raises:
        TrainingError: the split has no tasks to answer.
    """
    stopwatch = Stopwatch()
    trained, reported = chosen_tasks(source_of(job.tasks).tasks(), job)
    if not trained:
        raise TrainingError(f"there are no {job.split} tasks in {', '.join(job.tasks.training_categories)}")
    batches = [batch for model in job.models for batch in batches_for(model, trained, reported, job)]
    total = sum(len(batch.questions) for batch in batches)
    answers: list[EvaluatedAnswer] = []
    with answering(job.recipe.processes if on_cpu(job.trainer) else 1) as answer_all:
        for batch, answered in zip(batches, answer_all(batches), strict=True):
            answers += answered
            reporter.progress(len(answers), total, f"answers of {batch.model.label}")
    (job.output_dir / ANSWERS_FILE).write_bytes(msgspec.json.Encoder().encode_lines(answers))
    return {
        "stage": job.stage,
        "split": job.split,
        "tasks": len(trained),
        "models": {model.label: figures_of(answers, model.label, job.recipe) for model in job.models},
        "differences": differences(answers, [model.label for model in job.models], job.recipe),
        "seconds": stopwatch.seconds,
    }


def batches_for(
    model: EvaluatedModel, trained: Sequence[BenchmarkTask], reported: Sequence[BenchmarkTask], job: EvaluationJob
) -> list[AnswerBatch]:
    """What a model is asked: trained tasks greedily and sampled, reported ones greedily."""
    asked: list[tuple[Mode, int]] = [("greedy", 0), *(("sampled", number) for number in range(model.samples))]
    return batches_of(
        model,
        [Question(task=task, mode=mode, number=number, trained=True) for task in trained for mode, number in asked]
        + [Question(task=task, mode="greedy", trained=False) for task in reported],
        size=job.model.generation_batch,
        max_new_tokens=job.model.max_new_tokens,
        seed=job.recipe.seed,
        rubric=job.rubric,
    )


def chosen_tasks(
    tasks: Sequence[BenchmarkTask], job: EvaluationJob
) -> tuple[tuple[BenchmarkTask, ...], tuple[BenchmarkTask, ...]]:
    """The split's tasks to answer: of the trained categories, and a few of each other one. By hash: stable, mixed."""
    limit = job.recipe.heldout_tasks if job.split == "heldout" else job.recipe.validation_tasks
    mixed = sorted(
        (task for task in tasks if task.split.value == job.split),
        key=lambda task: hashlib.blake2b(task.id.encode()).digest(),
    )
    trained = [task for task in mixed if task.category in job.tasks.training_categories]
    reported = [
        task
        for category in other_categories(job.tasks)
        for task in [task for task in mixed if task.category == category][: job.recipe.reported_tasks]
    ]
    return tuple(trained[:limit]), tuple(reported)


def other_categories(tasks: TasksSettings) -> tuple[str, ...]:
    """Categories that are reported but not trained on."""
    return tuple(category for category in tasks.categories if category not in tasks.training_categories)


def figures_of(answers: Sequence[EvaluatedAnswer], label: str, recipe: EvaluationSettings) -> dict[str, Any]:
    """A model's figures: greedy and sampled, by task type, and the categories that are only reported."""
    own = [answer for answer in answers if answer.label == label]
    trained = [answer for answer in own if answer.trained]
    types = sorted({answer.task_type for answer in trained})
    figures: dict[str, Any] = {
        mode: scores([a for a in trained if a.mode == mode], confidence=recipe.confidence) for mode in TEMPERATURES
    }
    figures["by_task_type"] = {
        name: {
            mode: scores([a for a in trained if a.mode == mode and a.task_type == name], confidence=recipe.confidence)
            for mode in TEMPERATURES
        }
        for name in types
    }
    figures["not_trained_on"] = {
        name: scores([a for a in own if not a.trained and a.task_type == name], confidence=recipe.confidence)
        for name in sorted({a.task_type for a in own if not a.trained})
    }
    return figures


def scores(answers: Sequence[EvaluatedAnswer], *, confidence: float) -> dict[str, float]:
    """Exact accuracy with Wilson's interval, reward with the interval of its mean over tasks.

    Several answers to one task are averaged first: they are not independent, so the tasks are what is counted.
    """
    exact = list(by_task(answers, "exact").values())
    reward = list(by_task(answers, "reward").values())
    accuracy = wilson(sum(exact), len(exact), confidence=confidence)
    mean = mean_interval(reward, confidence=confidence) if len(reward) > 1 else None
    return {
        "exact": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "reward": fmean(reward),
        "reward_low": mean.low if mean else 0.0,
        "reward_high": mean.high if mean else 1.0,
        "format": fmean(answer.format for answer in answers),
        "output_tokens": fmean(answer.output_tokens for answer in answers),
        "tasks": len(exact),
        "answers": len(answers),
    }


def differences(
    answers: Sequence[EvaluatedAnswer], labels: Sequence[str], recipe: EvaluationSettings
) -> list[dict[str, Any]]:
    """Each model against the one before it in the job: paired by task, greedy and sampled, exact and reward."""
    found = []
    for before, after in pairwise(labels):
        for mode in TEMPERATURES:
            for figure in ("exact", "reward"):
                first, second = (
                    by_task((a for a in answers if a.label == label and a.mode == mode and a.trained), figure)
                    for label in (before, after)
                )
                interval = paired_difference(
                    list(first.values()), [second[task] for task in first], confidence=recipe.confidence
                )
                found.append(
                    {"from": before, "to": after, "mode": mode, "figure": figure, **msgspec.structs.asdict(interval)}
                )
    return found


def by_task(answers: Iterable[EvaluatedAnswer], figure: str) -> dict[str, float]:
    """The mean of a figure over each task's answers."""
    values: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        values[answer.task_id].append(float(getattr(answer, figure)))
    return {task_id: fmean(of_task) for task_id, of_task in values.items()}


def main(path: Path) -> None:
    """Run the job of this file."""
    job = EvaluationJob.read(path)
    with reporting(job, stage=job.stage) as reporter:
        result = evaluate(job, reporter)
        write_result(job.output_dir, result | {"peak_memory_gib": peak_memory_gib(children=job.recipe.processes)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
