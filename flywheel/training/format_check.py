"""Whether a model still writes calls as asked: the check after SFT that SPEC section 9 wants."""

from pathlib import Path

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.tasks.catalog import source_of
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import Split
from flywheel.training.generation import Generator
from flywheel.training.job import SftJob

CHECKED_TASKS = 16


def tool_format_fraction(model_dir: Path, job: SftJob) -> float:
    """Share of greedy answers to validation tasks that are strictly written calls, 0–1."""
    tasks = [
        task
        for task in source_of(job.tasks).tasks()
        if task.split is Split.VALIDATION and task.category in job.tasks.training_categories
    ][:CHECKED_TASKS]
    answers = Generator(model_dir).generate(
        [prompt_messages(task) for task in tasks],
        max_new_tokens=job.model.max_new_tokens,
        batch_size=job.model.generation_batch,
    )
    formats = [
        check(task.expected, task.tools, answer.text).format == 1 for task, answer in zip(tasks, answers, strict=True)
    ]
    return sum(formats) / len(formats)
