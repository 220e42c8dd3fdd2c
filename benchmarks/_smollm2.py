"""A model of SmolLM2-135M's shape with random weights: as slow as the real one, and needs no download."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def smollm2() -> LlamaForCausalLM:
    """The same weights each time."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49_152,
            hidden_size=576,
            intermediate_size=1_536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            tie_word_embeddings=True,
        )
    )
