"""Supervised fine-tuning with TRL's ``SFTTrainer``: ``accelerate launch -m flywheel.training.sft JOB.json``."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from flywheel.errors import TrainingError
from flywheel.records import DataPoint
from flywheel.tasks.catalog import source_of
from flywheel.training.callbacks import StepReporter
from flywheel.training.datasets import SFT_FILE, fitting, read_points, refuse_kept_tasks, sft_rows
from flywheel.training.format_check import tool_format_fraction
from flywheel.training.job import (
    MODEL_FOLDER,
    Reporter,
    SftJob,
    Stopwatch,
    is_first_process,
    peak_memory_gib,
    reporting,
    write_result,
)
from flywheel.training.processors import score_labels_only, tracker, use_cpu


def train(job: SftJob, reporter: Reporter) -> dict[str, Any]:
    """Train and save the model; the result's figures.

    The loss is of the answers only. Weights stay fp32, computation is bf16 where the processor has it.

    Raises:
        TrainingError: the batch cannot be trained on.
    """
    stopwatch = Stopwatch()
    source = source_of(job.tasks)
    points = read_points(job.batch_dir / SFT_FILE)
    refuse_kept_tasks(points, source)
    tokenizer = AutoTokenizer.from_pretrained(job.model_dir)
    rows = rows_that_fit(points, tokenizer, most=job.recipe.max_length)
    steps = StepReporter(reporter)
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(job.model_dir, dtype="float32"),
        args=configuration(job),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[steps],
    )
    outcome = trainer.train()
    trainer.save_model(str(job.output_dir / MODEL_FOLDER))
    return {
        "stage": job.stage,
        "points": len(rows),
        "too_long": len(points) - len(rows),
        "steps": trainer.state.global_step,
        "loss": outcome.training_loss,
        "history": steps.history,
        "seconds": stopwatch.seconds,
    }


def rows_that_fit(points: Sequence[DataPoint], tokenizer: Any, *, most: int) -> list[dict[str, Any]]:
    """The rows of the points, their oldest messages left out where they are too long; the rest is left out whole.

    Raises:
        TrainingError: nothing fits.
    """

    def length_of(messages: list[dict[str, str]]) -> int:
        text = tokenizer.apply_chat_template(messages, tokenize=False)
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    rows = [row for row in (fitting(row, length_of, most) for row in sft_rows(points)) if row is not None]
    if not rows:
        raise TrainingError(
            f"none of {len(points):,} conversations has {most} tokens or fewer with its last question alone; "
            f"raise sft.max_length"
        )
    return rows


def configuration(job: SftJob) -> SFTConfig:
    """TRL's arguments for this job."""
    if use_cpu(job.trainer):
        score_labels_only()
    return SFTConfig(
        output_dir=str(job.output_dir / "trainer"),
        per_device_train_batch_size=max(1, job.recipe.batch_size // int(os.environ.get("WORLD_SIZE", "1"))),
        num_train_epochs=job.recipe.epochs,
        max_steps=job.recipe.max_steps,
        learning_rate=job.recipe.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        max_length=job.recipe.max_length,
        completion_only_loss=True,
        train_sampling_strategy="group_by_length",
        bf16=job.trainer.precision == "bf16",
        gradient_checkpointing=False,  # saves memory that we have for time that we do not have
        use_cpu=use_cpu(job.trainer),
        dataloader_pin_memory=not use_cpu(job.trainer),
        report_to=tracker(),
        logging_steps=1,
        save_strategy="no",
        seed=job.recipe.seed,
        disable_tqdm=True,
    )


def main(path: Path) -> None:
    """Run the job of this file."""
    job = SftJob.read(path)
    with reporting(job, stage=job.stage) as reporter:
        result = train(job, reporter)
        if is_first_process():
            result["tool_format_fraction"] = tool_format_fraction(job.output_dir / MODEL_FOLDER, job)
            write_result(job.output_dir, result | {"peak_memory_gib": peak_memory_gib()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
