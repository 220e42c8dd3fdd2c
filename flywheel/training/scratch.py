"""A tiny Llama from nothing, with a tokenizer of its own: real code paths of training in seconds, for tests.

Weights are random. The tokenizer is a byte-level BPE learned from the prompts and answers of the training split.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages, reference_answer
from flywheel.tasks.source import Split, TaskSource

VOCABULARY = 500
HIDDEN = 128
LAYERS = 2
HEADS = 4
START, END = "<|im_start|>", "<|im_end|>"
# ChatML, as SmolLM2 has it, without a default system message.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make_scratch_model(settings: Settings, folder: Path) -> None:
    """Write model and tokenizer as a Hugging Face checkpoint. The same settings make the same weights."""
    tokenizer = learned_tokenizer(load_source(settings))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(settings.sft.seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=HIDDEN,
                intermediate_size=4 * HIDDEN,
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                num_key_value_heads=HEADS,
                max_position_embeddings=512,
                tie_word_embeddings=True,
                bos_token_id=tokenizer.convert_tokens_to_ids(START),
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def learned_tokenizer(source: TaskSource) -> PreTrainedTokenizerFast:
    """A byte-level BPE in which every digit is a token of its own."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[START, END],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_texts(source), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=START, eos_token=END, pad_token=END, unk_token=END
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def training_texts(source: TaskSource) -> Iterator[str]:
    """Prompts and answers of the training split."""
    for task in source.tasks():
        if task.split is Split.TRAIN:
            yield "\n".join([*(message.content or "" for message in prompt_messages(task)), reference_answer(task)])
