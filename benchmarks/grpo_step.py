"""Loss and gradient of a GRPO step: every prompt computed once, beside TRL, which computes it per completion.

``python benchmarks/grpo_step.py [--json]``. Seconds per step of 32 completions (4 prompts × 8) on this machine's cores,
the median of three after one to warm up, for a model of SmolLM2-135M's shape with random weights, in bf16 autocast.
Both run in the micro-batches that were fastest for them.
"""

import argparse
import inspect
import json
import statistics
import sys
import time
from types import SimpleNamespace
from typing import Any

import torch
from _smollm2 import smollm2
from transformers import LlamaForCausalLM
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from flywheel.training.processors import score_labels_only
from flywheel.training.shared_prompts import SharedPromptTrainer

PROMPTS, GENERATIONS, ROUNDS = 4, 8, 3
OUR_MICRO_BATCH, TRL_MICRO_BATCH = 16, 8  # of those tried the fastest for each
PROMPT_TOKENS, ANSWER_TOKENS = (120, 150), (20, 52)  # shortest and longest; what the quick start's tasks have


def scoring_model() -> LlamaForCausalLM:
    """The model with TRL's head, which gives log-probabilities and entropies."""
    model = smollm2()
    score_labels_only()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return model


def completions() -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask in TRL's layout, in random order as TRL shuffles them."""
    draw = torch.Generator().manual_seed(0)
    width = PROMPT_TOKENS[1] + ANSWER_TOKENS[1]
    ids = torch.zeros(PROMPTS * GENERATIONS, width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for prompt in range(PROMPTS):
        length = int(torch.randint(*PROMPT_TOKENS, (1,), generator=draw))
        tokens = torch.randint(10, 49_000, (length,), generator=draw)
        for row in range(prompt * GENERATIONS, (prompt + 1) * GENERATIONS):
            answer = torch.randint(10, 49_000, (int(torch.randint(*ANSWER_TOKENS, (1,), generator=draw)),))
            start, end = PROMPT_TOKENS[1] - length, PROMPT_TOKENS[1] + len(answer)
            ids[row, start:end] = torch.cat([tokens, answer])
            mask[row, start:end] = 1
    order = torch.randperm(len(ids), generator=draw)
    return ids[order], mask[order]


def seconds_per_step(method: Any, model: LlamaForCausalLM, *, micro_batch: int) -> float:
    """The median time of loss and gradient over all completions."""
    trainer = SimpleNamespace(accelerator=SimpleNamespace(autocast=lambda: torch.autocast("cpu", torch.bfloat16)))
    ids, mask = completions()
    seconds = []
    for _ in range(ROUNDS + 1):
        model.zero_grad()
        started = time.perf_counter()
        for start in range(0, len(ids), micro_batch):
            part = slice(start, start + micro_batch)
            values, _, _ = inspect.unwrap(method)(
                trainer, model, ids[part], mask[part], ANSWER_TOKENS[1], compute_entropy=True
            )
            values.sum().backward()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    model = scoring_model()
    ours = seconds_per_step(SharedPromptTrainer._get_per_token_logps_and_entropies, model, micro_batch=OUR_MICRO_BATCH)
    theirs = seconds_per_step(GRPOTrainer._get_per_token_logps_and_entropies, model, micro_batch=TRL_MICRO_BATCH)
    figures = {"shared_prompts_s": ours, "trl_s": theirs, "ratio": theirs / ours}
    if arguments.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    else:
        sys.stdout.write(
            f"prompts once {ours:6.2f} s\nTRL          {theirs:6.2f} s\nratio        {theirs / ours:6.2f}\n"
        )


if __name__ == "__main__":
    main()
