"""Answers of the comparison: one process per core, beside one process with all cores and transformers' ``generate``.

``python benchmarks/answering.py [--json]``. Tokens per second for questions with 40 tokens of answer each, in batches
of 32, bf16, by a model of SmolLM2-135M's shape with random weights; processes and models are up before the clock runs.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.answering import Question, answering, batches_of
from flywheel.training.job import EvaluatedModel
from flywheel.training.launch import WAITING
from flywheel.training.scratch import trained_tokenizer, training_texts

CORES = os.cpu_count() or 1
BATCH, BATCHES, NEW_TOKENS = 32, 2 * CORES, 40


def tokens_per_second(run: Callable[[list[BenchmarkTask]], int], tasks: list[BenchmarkTask]) -> float:
    """How many tokens a second ``run`` gives, after a run over a batch for each core."""
    run(tasks[: BATCH * CORES])
    started = time.perf_counter()
    return run(tasks) / (time.perf_counter() - started)


def with_processes(processes: int, model_dir: Path, tasks: list[BenchmarkTask]) -> float:
    """Our answering; the cores are shared out."""
    os.environ["OMP_NUM_THREADS"] = str(CORES // processes)
    model = EvaluatedModel(label="benchmark", model_dir=model_dir)
    with answering(processes) as answer_all:

        def run(asked: list[BenchmarkTask]) -> int:
            questions = [Question(task=task, mode="greedy", trained=True) for task in asked]
            batches = batches_of(model, questions, size=BATCH, max_new_tokens=NEW_TOKENS, seed=0)
            return sum(answer.output_tokens for answers in answer_all(batches) for answer in answers)

        return tokens_per_second(run, tasks)


def with_generate(model_dir: Path, tasks: list[BenchmarkTask]) -> float:
    """``model.generate`` with left padding, in the same batches of like length."""
    import torch

    from flywheel.training.generation import Generator, tokenize_prompt

    loaded = Generator(model_dir)
    loaded.tokenizer.padding_side = "left"

    def run(asked: list[BenchmarkTask]) -> int:
        prompts = sorted((tokenize_prompt(loaded.tokenizer, prompt_messages(task)) for task in asked), key=len)
        tokens = 0
        for start in range(0, len(prompts), BATCH):
            padded = loaded.tokenizer.pad({"input_ids": prompts[start : start + BATCH]}, return_tensors="pt")
            with torch.inference_mode():
                output = loaded.model.generate(**padded, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)
            tokens += output[:, padded["input_ids"].size(1) :].numel()
        return tokens

    return tokens_per_second(run, tasks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    os.environ.update(WAITING, HF_HUB_DISABLE_PROGRESS_BARS="1")  # before torch is imported
    from _smollm2 import smollm2

    settings = Settings.load(profile="smoke")
    tasks = list(load_source(settings).tasks())[: BATCH * BATCHES]
    with tempfile.TemporaryDirectory() as folder:
        smollm2().save_pretrained(folder)
        trained_tokenizer(training_texts(settings)).save_pretrained(folder)
        figures = {
            "processes": with_processes(CORES, Path(folder), tasks),
            "one_process": with_processes(1, Path(folder), tasks),
            "transformers_generate": with_generate(Path(folder), tasks),
        }
    figures["ratio"] = figures["processes"] / figures["transformers_generate"]
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    else:
        sys.stdout.write(
            f"one process per core   {figures['processes']:5.0f} tokens/s\n"
            f"one process            {figures['one_process']:5.0f} tokens/s\n"
            f"transformers generate  {figures['transformers_generate']:5.0f} tokens/s\n"
            f"ratio                  {figures['ratio']:8.2f}\n"
        )


if __name__ == "__main__":
    main()
