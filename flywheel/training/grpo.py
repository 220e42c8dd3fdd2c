"""Group relative policy optimization with TRL: ``accelerate launch -m flywheel.training.grpo JOB.json``."""

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from flywheel.arbiter.evaluation.rubrics.rubric import TERMS
from flywheel.errors import TrainingError
from flywheel.settings import GrpoSettings
from flywheel.tasks.catalog import source_of
from flywheel.training.callbacks import StepReporter
from flywheel.training.datasets import GRPO_FILE, grpo_rows, of_benchmark, read_points, training_tasks
from flywheel.training.generation import tokenize_chat
from flywheel.training.job import (
    MODEL_FOLDER,
    GrpoJob,
    Reporter,
    Stopwatch,
    is_first_process,
    peak_memory_gib,
    reporting,
    write_result,
)
from flywheel.training.judge_reward import judge_reward
from flywheel.training.processors import score_labels_only, tracker, use_cpu
from flywheel.training.rewards import reward_functions
from flywheel.training.rollout import ShadowRollout
from flywheel.training.shared_prompts import SharedPromptTrainer, keep_groups_together


def train(job: GrpoJob, reporter: Reporter) -> dict[str, Any]:
    """Train and save the model; the result's figures.

    Raises:
        TrainingError: the batch cannot be trained on.
    """
    stopwatch = Stopwatch()
    source, points = source_of(job.tasks), read_points(job.batch_dir / GRPO_FILE)
    own = of_benchmark(points, source)
    if not own:
        raise TrainingError(f"none of {len(points):,} points names a task of {source.name}: no answer can be verified")
    tasks = training_tasks(own, source)
    tokenizer = AutoTokenizer.from_pretrained(job.model_dir)
    # Shared prompts need masks of any shape: other kinds of attention would take them wrongly, without a word.
    attention = {"attn_implementation": "sdpa"} if use_cpu(job.trainer) else {}
    model = AutoModelForCausalLM.from_pretrained(job.model_dir, dtype="float32", **attention)
    judge = judge_reward(job, tasks)
    rows = steps_of_like_length(grpo_rows(tasks), tokenizer, recipe=job.recipe)
    steps = StepReporter(reporter)
    trainer_class = SharedPromptTrainer if use_cpu(job.trainer) else GRPOTrainer
    trainer = trainer_class(
        model=model,
        reward_funcs=[*reward_functions(tasks, job.rubric), *([judge] if judge else [])],
        args=configuration(job),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=ShadowRollout(model, tokenizer, recipe=job.recipe, max_new_tokens=job.model.max_new_tokens),
        callbacks=[steps],
    )
    trainer.train()
    trainer.save_model(str(job.output_dir / MODEL_FOLDER))
    return {
        "stage": job.stage,
        "tasks": len(rows),
        "of_other_benchmarks": len(points) - len(own),
        "steps": trainer.state.global_step,
        "history": steps.history,
        "judge": dict(judge.counts) if judge else None,
        "seconds": stopwatch.seconds,
    }


def steps_of_like_length(
    rows: Sequence[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, *, recipe: GrpoSettings
) -> list[dict[str, Any]]:
    """The rows, so ordered that the prompts of one step have about the same length, the steps in random order.

    TRL pads all prompts of a step to the longest: in random order a third of the computation is padding. Tasks with
    longer prompts than the recipe allows are left out; a rest that fills no step comes last.

    Raises:
        TrainingError: no task is left.
    """
    lengths = {row["task"]: len(tokenize_chat(tokenizer, row["prompt"])) for row in rows}
    short = [row for row in rows if lengths[row["task"]] <= recipe.max_prompt_tokens]
    if not short:
        raise TrainingError(f"all {len(rows)} tasks have prompts of more than {recipe.max_prompt_tokens} tokens")
    ordered = sorted(short, key=lambda row: lengths[row["task"]])
    size = recipe.prompts_per_step
    steps = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    rest = [steps.pop()] if len(steps[-1]) < size else []
    random.Random(recipe.seed).shuffle(steps)  # noqa: S311 - an order, not a secret
    return [row for step in [*steps, *rest] for row in step]


def configuration(job: GrpoJob) -> GRPOConfig:
    """TRL's arguments for this job."""
    on_cpu = use_cpu(job.trainer)
    if on_cpu:
        score_labels_only()
        keep_groups_together()
    completions = job.recipe.prompts_per_step * job.recipe.generations // int(os.environ.get("WORLD_SIZE", "1"))
    micro_batch = min(job.recipe.micro_batch, completions)
    return GRPOConfig(
        output_dir=str(job.output_dir / "trainer"),
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=completions // micro_batch,
        num_generations=job.recipe.generations,
        max_completion_length=job.model.max_new_tokens,
        max_steps=job.recipe.max_steps,
        learning_rate=job.recipe.learning_rate,
        lr_scheduler_type=job.recipe.schedule,
        warmup_steps=job.recipe.warmup_steps,
        temperature=job.recipe.temperature,
        beta=job.recipe.beta,
        reward_weights=reward_weights(job.recipe),
        loss_type="dapo",
        scale_rewards=job.recipe.scale_rewards,
        shuffle_dataset=False,  # steps_of_like_length has shuffled
        bf16=job.trainer.precision == "bf16",
        gradient_checkpointing=False,  # saves memory that we have for time that we do not have
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        report_to=tracker(),
        log_completions=False,
        logging_steps=1,
        save_strategy="no",
        seed=job.recipe.seed,
        disable_tqdm=True,
    )


def reward_weights(recipe: GrpoSettings) -> list[float]:
    """What the rewards are multiplied with, in the order of the functions."""
    weights = [getattr(recipe.term_weights, term) for term in TERMS]
    return [*weights, recipe.judge_weight] if recipe.judge_weight else weights


def main(path: Path) -> None:
    """Run the job of this file."""
    job = GrpoJob.read(path)
    with reporting(job, stage=job.stage) as reporter:
        result = train(job, reporter)
        if is_first_process():
            write_result(job.output_dir, result | {"peak_memory_gib": peak_memory_gib()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
