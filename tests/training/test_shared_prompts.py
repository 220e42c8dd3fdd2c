"""A prompt computed once gives what a prompt computed per completion gives."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from flywheel.training.processors import score_labels_only
from flywheel.training.shared_prompts import IGNORED, SHUFFLE, SharedPromptTrainer, keep_groups_together, pack

WIDTH = 5  # of completions
PROMPTS: list[list[int]] = [[5, 6, 7, 8], [9, 6, 7], [11], [9, 6, 7], [5, 6, 7, 8], [5, 6, 7, 8]]
COMPLETIONS: list[list[int]] = [[20, 21, 22], [30], [40, 41, 42, 43, 44], [20, 21], [], [20, 21, 22, 23]]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    model = LlamaForCausalLM(config)
    score_labels_only()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """TRL's layout: prompts padded on the left, completions on the right."""
    width = max(map(len, PROMPTS))
    rows, masks = [], []
    for prompt, completion in zip(PROMPTS, COMPLETIONS, strict=True):
        left, right = width - len(prompt), WIDTH - len(completion)
        rows.append([0] * left + prompt + completion + [0] * right)
        masks.append([0] * left + [1] * (len(prompt) + len(completion)) + [0] * right)
    return torch.tensor(rows), torch.tensor(masks)


def log_probabilities(method: Any, model: LlamaForCausalLM) -> tuple[torch.Tensor, torch.Tensor]:
    """What the method gives, and the gradient of their sum."""
    model.zero_grad()
    trainer = SimpleNamespace(accelerator=SimpleNamespace(autocast=torch.enable_grad))
    ids, mask = batch()
    values, entropies, _ = inspect.unwrap(method)(trainer, model, ids, mask, WIDTH, compute_entropy=True)
    values.sum().backward()
    gradient = model.model.layers[0].mlp.up_proj.weight.grad
    assert gradient is not None
    return torch.stack([values.detach(), entropies.detach()]), gradient.clone()


def test_log_probabilities_entropies_and_gradients_are_those_of_trl(model: LlamaForCausalLM) -> None:
    shared = log_probabilities(SharedPromptTrainer._get_per_token_logps_and_entropies, model)
    alone = log_probabilities(GRPOTrainer._get_per_token_logps_and_entropies, model)
    assert torch.allclose(shared[0], alone[0], atol=1e-5)
    assert torch.allclose(shared[1], alone[1], atol=1e-5)
    assert shared[0][0].count_nonzero() == sum(map(len, COMPLETIONS))


def test_each_prompt_is_there_once() -> None:
    ids, mask = batch()
    packed = pack(ids, mask, WIDTH)
    assert packed.input_ids.shape[0] == len({tuple(prompt) for prompt in PROMPTS})
    assert (packed.shift_labels != IGNORED).sum() == sum(map(len, COMPLETIONS))
    assert packed.scored.sum() == sum(map(len, COMPLETIONS))
    assert packed.attention_mask.any(dim=-1).all(), "a token that sees nothing makes the whole row NaN"


def test_the_private_method_has_the_arguments_that_we_replace() -> None:
    theirs = inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters
    ours = inspect.signature(SharedPromptTrainer._get_per_token_logps_and_entropies).parameters
    assert list(theirs)[: len(ours) - 1] == list(ours)[:-1]  # the rest are images


def test_groups_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo_trainer, SHUFFLE, getattr(grpo_trainer, SHUFFLE))  # put back after the test
    keep_groups_together()
    source = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert f"{SHUFFLE}(generation_batch)" in source
    order = torch.arange(100)
    assert torch.equal(getattr(grpo_trainer, SHUFFLE)({"ids": order})["ids"], order)
