"""What training on anonymized demonstrations costs: one recipe twice, on raw and on anonymized points of one task list.

``python benchmarks/anonymized_training.py [--demonstrations 200] [--heldout 254] [--seeds 1] [--threads 1] [--json]``.
Nothing is downloaded: SmolLM2-135M and the tasks of the Berkeley Function Calling Leaderboard come out of their wheels.
The tasks go through arbiter, collector and pool, as in the quick start, with the published answers as demonstrations;
what the pool validated is the raw side, what it anonymized the other. Both train the same base model with the quick
start's recipe, the same seed and the same number of steps. Both answer the same held-out tasks, asked as people ask
them: an agent reads raw text. Accuracy is exact, by the project's checker, of greedy answers; the difference is paired
by task, over the means of the seeds, and its interval says what the choice of tasks does to it, not that of the seed.

"With personal data" are held-out tasks in whose prompt the pool would replace something, mistaken or not. A third of
the functions are held out, more than the quick start does, so that there are enough of them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from _installation import empty_installation
from msgspec import Struct

from flywheel.arbiter.traffic import BEFORE, run_tasks
from flywheel.database import connect
from flywheel.pool.anonymization.day import AnonymizationReport, anonymize_day, find_violations
from flywheel.pool.anonymization.detection import DEFAULT
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import ANONYMIZED, VALIDATED
from flywheel.pool.validation import validate_day
from flywheel.records import DataPoint, decode_point
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask, Split
from flywheel.training.answering import EvaluatedAnswer, Question, answering, batches_of
from flywheel.training.datasets import SFT_FILE, sft_rows
from flywheel.training.evaluation import by_task, scores
from flywheel.training.intervals import paired_difference
from flywheel.training.job import MODEL_FOLDER, EvaluatedModel, SftJob, read_result
from flywheel.training.launch import WAITING, environment, launch_command
from flywheel.training.pretrained import ensure_base_model

NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
RAW, CLEAN = "raw", "anonymized"
SIDES = {RAW: VALIDATED, CLEAN: ANONYMIZED}
FIGURES = ("exact", "format")
PLACEHOLDER = re.compile(r"\[[A-Z][A-Z_]+(_[0-9]+)?\]")


class Demonstrations(Struct, frozen=True, kw_only=True):
    """What anonymizing did to the training data."""

    points: int
    prompts_changed: int
    answers_changed: int
    violations: int
    replaced: dict[str, int]


def settings_for(at: Settings, *, demonstrations: int, threads: int) -> Settings:
    """The quick start's recipe; only the published answers demonstrate, and all tasks are of the trained categories."""
    base = Settings.load(profile="quickstart")
    return Settings.load(
        profile="quickstart",
        home=at.home,
        database_url=at.database_url,
        anonymization={"second_detector": {"points": 0}},
        agents=[{"id": "reference", "kind": "reference", "name": "the published answers"}],
        tasks={
            "categories": base.tasks.training_categories,
            "heldout_fraction": 0.33,
            "validation_fraction": 0.03,
            "routed_before": demonstrations,
        },
        trainer={"device": "cpu", "threads": threads},
    )


def demonstrations_of(settings: Settings) -> Demonstrations:
    """Let the tasks be done and logged, and write what the pool makes of the logs, before and after anonymizing.

    Raises:
        SystemExit: the pool did not take every task.
    """
    engine = connect(settings.database_url)
    run_tasks(settings, engine, label=BEFORE, clock=lambda: NOW)
    engine.dispose()
    with BenchmarkPool.open(settings) as pool:
        now = NOW + timedelta(hours=1)
        index_segments(pool, now=now)
        validate_day(pool, NOW.date(), now=now)
        report = anonymize_day(pool, NOW.date())
        violations = find_violations(pool, NOW.date()).count
        sides = {side: points_of(pool, table) for side, table in SIDES.items()}
    taken = len(sides[RAW])
    if taken != settings.tasks.routed_before or [p.id for p in sides[RAW]] != [p.id for p in sides[CLEAN]]:
        raise SystemExit(f"the pool took {taken} of {settings.tasks.routed_before} tasks: the sides cannot be compared")
    return written(sides, settings.home, report=report, violations=violations)


def points_of(pool: BenchmarkPool, table: str) -> list[DataPoint]:
    """The day's points, by their ids."""
    rows = read_rows(pool, table, NOW.date(), columns=("payload",))
    return sorted((decode_point(row["payload"]) for row in rows), key=lambda point: point.id)


def written(
    sides: dict[str, list[DataPoint]], home: Path, *, report: AnonymizationReport, violations: int
) -> Demonstrations:
    """Write a batch folder for each side, and count what differs."""
    for side, points in sides.items():
        folder = home / "demonstrations" / side
        folder.mkdir(parents=True)
        (folder / SFT_FILE).write_bytes(msgspec.json.Encoder().encode_lines(points))
    rows = list(zip(sft_rows(sides[RAW]), sft_rows(sides[CLEAN]), strict=True))
    return Demonstrations(
        points=len(rows),
        prompts_changed=sum(raw["prompt"] != clean["prompt"] for raw, clean in rows),
        answers_changed=sum(raw["completion"] != clean["completion"] for raw, clean in rows),
        violations=violations,
        replaced=report.replaced,
    )


def train(settings: Settings, side: str, seed: int) -> tuple[EvaluatedModel, dict[str, Any]]:
    """The base model after SFT on one side's demonstrations, trained as the platform does; its output to stderr.

    Raises:
        CalledProcessError: training failed.
    """
    job = SftJob(
        output_dir=settings.home / "training" / f"{side}-{seed}",
        tasks=settings.tasks,
        model=settings.model,
        trainer=settings.trainer,
        model_dir=ensure_base_model(settings),
        batch_dir=settings.home / "demonstrations" / side,
        recipe=settings.sft.model_copy(update={"seed": seed}),
    )
    command = launch_command(job, job.write(job.output_dir / "job.json"))
    subprocess.run(command, env=os.environ | environment(job), stdout=sys.stderr, check=True)
    model = EvaluatedModel(label=f"{side}-{seed}", model_dir=job.output_dir / MODEL_FOLDER)
    return model, read_result(job.output_dir)


def answers_of(
    settings: Settings, models: Sequence[EvaluatedModel], tasks: Sequence[BenchmarkTask]
) -> list[EvaluatedAnswer]:
    """What all models answer to these tasks, greedily."""
    questions = [Question(task=task, mode="greedy", trained=True) for task in tasks]
    size, tokens = settings.model.generation_batch, settings.model.max_new_tokens
    batches = [
        batch for model in models for batch in batches_of(model, questions, size=size, max_new_tokens=tokens, seed=0)
    ]
    answers: list[EvaluatedAnswer] = []
    with answering(1) as answer_all:
        for answered in answer_all(batches):
            answers += answered
            sys.stderr.write(f"{len(answers)} of {len(models) * len(tasks)} answers\n")
    return answers


def heldout_tasks(settings: Settings, limit: int) -> list[BenchmarkTask]:
    """The first held-out tasks by the hash of their ids: of all categories, and the same ones each time."""
    found = [task for task in load_source(settings).tasks() if task.split is Split.HELDOUT]
    return sorted(found, key=lambda task: blake2b(task.id.encode()).digest())[:limit]


def holds_personal_data(task: BenchmarkTask) -> bool:
    """Whether the pool would replace something in the task's prompt."""
    texts = [message.content or "" for message in prompt_messages(task)]
    return bool(Anonymizer(detection=DEFAULT).value(texts) != texts)


def compared(answers: Sequence[EvaluatedAnswer], tasks: Collection[str], *, confidence: float) -> dict[str, Any]:
    """Both sides' figures on these tasks, and the differences paired by task; over the means of the seeds."""
    given = {
        side: [answer for answer in answers if answer.label.startswith(f"{side}-") and answer.task_id in tasks]
        for side in SIDES
    }
    differences = {}
    for figure in FIGURES:
        raw, clean = (by_task(given[side], figure) for side in (RAW, CLEAN))
        found = paired_difference(list(raw.values()), [clean[task] for task in raw], confidence=confidence)
        differences[figure] = msgspec.structs.asdict(found)
    return {
        "tasks": len(tasks),
        **{side: scores(answered, confidence=confidence) for side, answered in given.items()},
        "differences": differences,
        "answers_with_placeholders": {
            side: sum(PLACEHOLDER.search(answer.text) is not None for answer in answered)
            for side, answered in given.items()
        },
    }


def measure(settings: Settings, *, seeds: int, heldout: int) -> dict[str, Any]:
    """All figures."""
    started, processor = time.monotonic(), sum(os.times()[:4])
    made = demonstrations_of(settings)
    trained = [train(settings, side, seed) for seed in range(seeds) for side in SIDES]
    tasks = heldout_tasks(settings, heldout)
    answers = answers_of(settings, [model for model, _ in trained], tasks)
    confidence = settings.evaluation.confidence
    asked, personal = {task.id for task in tasks}, {task.id for task in tasks if holds_personal_data(task)}
    parts = {"all": asked, "with personal data": personal, "without": asked - personal}
    return {
        "demonstrations": msgspec.structs.asdict(made),
        "steps": {model.label: result["steps"] for model, result in trained},
        "loss": {model.label: result["loss"] for model, result in trained},
        "confidence": confidence,
        "heldout": {
            name: compared(answers, tasks, confidence=confidence) for name, tasks in parts.items() if len(tasks) > 1
        },
        "seconds": time.monotonic() - started,
        "processor_seconds": sum(os.times()[:4]) - processor,
    }


def shown(figures: dict[str, Any]) -> str:
    """The figures for people."""
    made, steps = figures["demonstrations"], sorted(set(figures["steps"].values()))
    replaced = ", ".join(f"{count} {kind}" for kind, count in Counter(made["replaced"]).most_common())
    lines = [
        f"{made['points']} demonstrations; anonymizing changed the prompts of {made['prompts_changed']} and the answers"
        f" of {made['answers_changed']} ({replaced})",
        f"{len(figures['steps']) // 2} seed(s), {' or '.join(map(str, steps))} steps each",
        f"{'held-out tasks':<24}{'tasks':>6}  {'exact: raw':<20}{'anonymized':<20}{'difference':<24}"
        f"{'placeholders':<14}format",
    ]
    for name, part in figures["heldout"].items():
        placed, difference, form = part["answers_with_placeholders"], *map(part["differences"].get, FIGURES)
        lines.append(
            f"{name:<24}{part['tasks']:>6}  {share(part[RAW]):<20}{share(part[CLEAN]):<20}"
            f"{points(difference):<24}{f'{placed[RAW]}, {placed[CLEAN]}':<14}{points(form)}"
        )
    return "\n".join([*lines, verdict(figures)]) + "\n"


def points(difference: dict[str, float]) -> str:
    """A difference in percentage points with its interval."""
    value, low, high = (100 * difference[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def share(of: dict[str, float]) -> str:
    """A proportion in per cent with its interval."""
    return f"{100 * of['exact']:.1f} ({100 * of['low']:.1f}–{100 * of['high']:.1f})"


def verdict(figures: dict[str, Any]) -> str:
    """What the answers to all held-out tasks say."""
    difference = figures["heldout"]["all"]["differences"]["exact"]
    said = "loses accuracy beyond" if difference["high"] < 0 else "loses no accuracy beyond"
    return f"Training on anonymized data {said} the {figures['confidence']:.0%} interval of the paired difference."


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demonstrations", type=int, default=200, help="at most 581")
    parser.add_argument("--heldout", type=int, default=254, help="held-out tasks, at most")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each side")
    parser.add_argument("--threads", type=int, default=1, help="cores that training and answering take")
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    # before torch and the hub's client are imported
    os.environ.update(WAITING, HF_HUB_OFFLINE="1", OMP_NUM_THREADS=str(arguments.threads))
    with empty_installation() as at:
        settings = settings_for(at, demonstrations=arguments.demonstrations, threads=arguments.threads)
        figures = measure(settings, seeds=arguments.seeds, heldout=arguments.heldout)
    sys.stdout.write(json.dumps(figures) + "\n" if arguments.json else shown(figures))


if __name__ == "__main__":
    main()
