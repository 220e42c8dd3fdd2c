"""A tiny Llama with a tokenizer of its own, for tests: the same code paths as a real model, trained in seconds."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages, reference_answer
from flywheel.tasks.source import Split

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCABULARY = 512
BEGIN, END, UNKNOWN = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_scratch_model(settings: Settings, folder: Path) -> None:
    """Write an untrained Llama (2 layers, width 128, half a million weights) and its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = trained_tokenizer(training_texts(settings))
    torch.manual_seed(settings.sft.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=8,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.1,  # the usual 0.02 is for wide models: this one would not learn to copy in time
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def training_texts(settings: Settings) -> Iterator[str]:
    """What the tokenizer learns from: questions and answers of the training split, nothing held out."""
    for task in load_source(settings).tasks():
        if task.split is Split.TRAIN:
            yield from (message.content or "" for message in prompt_messages(task))
            yield reference_answer(task)


def trained_tokenizer(texts: Iterator[str]) -> "PreTrainedTokenizerFast":
    """A byte-level BPE tokenizer in which every digit is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [UNKNOWN, BEGIN, END]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=END, unk_token=UNKNOWN
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
