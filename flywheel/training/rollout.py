"""How GRPO's completions are made: by a shadow of the policy in bf16, with our own decoding.

The policy is kept in fp32 for the optimizer, and generating with it would take twice as long; a copy in bf16 gets its
weights before every step. TRL's own generation is for GPUs, where vLLM takes this place.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from flywheel.settings import GrpoSettings
from flywheel.training.decoding import decode
from flywheel.training.generation import tokenize_chat


class ShadowRollout:
    """A ``rollout_func`` for ``GRPOTrainer``. Reproducible by seed, another one in every process."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, recipe: GrpoSettings, max_new_tokens: int
    ) -> None:
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        torch.nn.Module.to(self.shadow, dtype=torch.bfloat16)
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.max_new_tokens = max_new_tokens
        self.generator: torch.Generator | None = None

    def __call__(self, prompts: Sequence[list[dict[str, str]]], trainer: Any) -> dict[str, Any]:
        """Token ids of prompts and completions; TRL passes every prompt once per generation."""
        generator = self._generator(trainer.accelerator)
        self._follow(trainer.accelerator.unwrap_model(trainer.model))
        prompt_ids = [tokenize_chat(self.tokenizer, prompt) for prompt in prompts]
        completion_ids = decode(
            self.shadow,
            prompt_ids,
            max_new_tokens=self.max_new_tokens,
            temperatures=[self.recipe.temperature] * len(prompts),
            end_ids=frozenset({self.tokenizer.eos_token_id}),
            uniforms=torch.rand(len(prompts), self.max_new_tokens, generator=generator),
        )
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": completion_ids,
            "logprobs": None,  # the loss is on-policy: TRL takes the policy's own
            "prompt_tokens": [len(ids) for ids in prompt_ids],
        }

    def _generator(self, accelerator: Any) -> torch.Generator:
        if self.generator is None:
            torch.nn.Module.to(self.shadow, device=accelerator.device)
            seed = self.recipe.seed * 1_000 + accelerator.process_index
            self.generator = torch.Generator().manual_seed(seed)
        return self.generator

    @torch.no_grad()
    def _follow(self, policy: PreTrainedModel) -> None:
        for shadow, weight in zip(self.shadow.parameters(), policy.parameters(), strict=True):
            shadow.copy_(weight)
