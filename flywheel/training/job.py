"""What a training process is told and what it tells: a job file in, progress and a result file out.

A job is read from JSON so that the same command runs by hand, under Dagster Pipes, on another node or in a container.
This module is light on purpose: whoever starts a job imports it too.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from pydantic import Field, ValidationError

from flywheel.arbiter.evaluation.judges.settings import JudgesSettings
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.errors import TrainingError
from flywheel.settings import (
    EvaluationSettings,
    GrpoSettings,
    ModelSettings,
    SftSettings,
    TasksSettings,
    TrainerSettings,
)
from flywheel.settings_section import Section

PROGRESS_FILE = "progress.json"
RESULT_FILE = "result.json"
MODEL_FOLDER = "model"
ANSWERS_FILE = "answers.jsonl"


class Job(Section):
    """What every job knows.

    Attributes:
        stage: which job it is; also the name of its folder and of its progress.
        output_dir: folder for everything the job writes.
        tasks: where tasks come from; the split of each is checked again here.
        rubric: what answers are scored by, whole: where the job runs there need be no file of it.
    """

    stage: Literal["sft", "grpo", "evaluation"]
    output_dir: Path
    tasks: TasksSettings
    model: ModelSettings
    trainer: TrainerSettings
    rubric: Rubric = BUILTIN

    @classmethod
    def read(cls, path: Path) -> Self:
        """The job of a file.

        Raises:
            TrainingError: it cannot be read or has wrong fields.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise TrainingError(f"{path} is not a {cls.__name__}: {error}") from error

    def write(self, path: Path) -> Path:
        """Write the job file, for ``read``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.model_dump(mode="json"))
        return path


class SftJob(Job):
    """Supervised fine-tuning of ``model_dir`` on ``batch_dir/sft.jsonl``."""

    stage: Literal["sft"] = "sft"
    model_dir: Path
    batch_dir: Path
    recipe: SftSettings


class GrpoJob(Job):
    """Group relative policy optimization of ``model_dir`` on the tasks of ``batch_dir/grpo.jsonl``.

    ``judges`` are asked where the recipe gives them a weight.
    """

    stage: Literal["grpo"] = "grpo"
    model_dir: Path
    batch_dir: Path
    recipe: GrpoSettings
    judges: JudgesSettings = JudgesSettings()


class EvaluatedModel(Section):
    """A model, the prompt it is asked with, and how many sampled answers it gives to each task."""

    label: str
    model_dir: Path
    samples: int = Field(1, gt=0)
    prompt: Literal["zero-shot", "few-shot"] = "zero-shot"


class EvaluationJob(Job):
    """Let several models answer the same tasks of one split."""

    stage: Literal["evaluation"] = "evaluation"
    models: tuple[EvaluatedModel, ...]
    split: Literal["validation", "heldout"] = "heldout"
    recipe: EvaluationSettings


class Reporter(Protocol):
    """Where a running job says how far it is."""

    def progress(self, done: int, total: int, message: str) -> None:
        """``done`` of ``total`` steps, and what is going on in words with numbers."""
        ...


class FileReporter:
    """Writes ``progress.json`` for a progress bar, and log lines to Dagster where it started us, else to stdout."""

    def __init__(self, *, stage: str, output_dir: Path, log: "Log") -> None:
        self.stage = stage
        self.path = output_dir / PROGRESS_FILE
        self.log = log

    def progress(self, done: int, total: int, message: str) -> None:
        """Report, readable at any moment: the file is replaced whole."""
        write_json(self.path, {"stage": self.stage, "done": done, "total": total, "message": message})
        self.log.info(f"{self.stage} {done}/{total}: {message}")


class SilentReporter:
    """For processes other than the first."""

    def progress(self, done: int, total: int, message: str) -> None:
        """Say nothing."""


class Log(Protocol):
    """Takes lines for people."""

    def info(self, message: str) -> None:
        """One line."""
        ...


class _Stdout:
    def info(self, message: str) -> None:
        sys.stdout.write(message + "\n")
        sys.stdout.flush()


@contextmanager
def reporting(job: Job, *, stage: str) -> Iterator[Reporter]:
    """A reporter for this process, connected to Dagster Pipes when Dagster launched it.

    Of several processes only the first reports.
    """
    job.output_dir.mkdir(parents=True, exist_ok=True)
    if not is_first_process():
        yield SilentReporter()
    elif "DAGSTER_PIPES_CONTEXT" in os.environ:
        from dagster_pipes import open_dagster_pipes

        with open_dagster_pipes() as pipes:
            yield FileReporter(stage=stage, output_dir=job.output_dir, log=pipes.log)
    else:
        yield FileReporter(stage=stage, output_dir=job.output_dir, log=_Stdout())


def is_first_process() -> bool:
    """Whether this is the process that writes, of those that ``accelerate launch`` started."""
    return os.environ.get("RANK", "0") == "0"


def write_result(output_dir: Path, result: Mapping[str, Any]) -> None:
    """Write the result file: its presence says that the job is complete."""
    write_json(output_dir / RESULT_FILE, result)


def read_result(output_dir: Path) -> dict[str, Any]:
    """The result of a finished job.

    Raises:
        TrainingError: there is none, so the job did not finish.
    """
    path = output_dir / RESULT_FILE
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise TrainingError(f"the job left no result in {output_dir}: {error}; see its log") from error
    return result


def write_json(path: Path, content: Any) -> None:
    """Write a file so that a reader sees the old content or the new, never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    os.replace(draft, path)


def peak_memory_gib(*, children: int = 0) -> float:
    """Largest resident memory of this process so far, in GiB, and as many times that of its largest ended child."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak += children * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.started
