"""A language model as something that answers conversations, in batches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from flywheel.records import Message
from flywheel.training.decoding import IsOver, chance, decode, never_over

Progress = Callable[[int, int], None]
Watch = Callable[[int, str], bool]
"""Told of an answer after each of its tokens: the number of its prompt and its text so far. True ends it there.

Where a text ends with U+FFFD its last character may still be on its way.
"""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def ignore_progress(_done: int, _total: int) -> None:
    """For callers that show none."""


class Generation(Struct, frozen=True, kw_only=True):
    """An answer, with its length and its prompt's in tokens. ``complete``: the model ended it, and not its length."""

    text: str
    prompt_tokens: int
    output_tokens: int
    complete: bool = True


class Generator:
    """A model folder, loaded."""

    def __init__(self, model_dir: Path, *, dtype: str = "bfloat16") -> None:
        """Load the model, on a GPU where there is one.

        Args:
            model_dir: a folder that transformers can load.
            dtype: ``bfloat16`` (twice as fast on processors with AVX-512) or ``float32``.
        """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(model_dir)
        self.model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=DTYPES[dtype])
        self.model.to(device).eval()

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        *,
        max_new_tokens: int,
        temperature: float | Sequence[float] = 0.0,
        seeds: Sequence[int] | None = None,
        batch_size: int = 16,
        on_progress: Progress = ignore_progress,
        watch: Watch | None = None,
    ) -> list[Generation]:
        """Answer each conversation, in the given order.

        Prompts of similar length are answered together. A sampled answer depends on its prompt and its seed, not on
        what else is asked (but for the rounding of sums, which depends on the batch).

        Args:
            prompts: conversations that end with a question.
            max_new_tokens: longest answer, in tokens.
            temperature: 0 is greedy; one for all, or one for each. Equal prompts are computed once in a batch,
                whatever their temperatures.
            seeds: of each prompt's chance; by default its number, so that equal prompts get different answers.
            batch_size: conversations answered at once.
            on_progress: called with answers done and asked for.
            watch: sees the answers grow.
        """
        ids = [tokenize_prompt(self.tokenizer, prompt) for prompt in prompts]
        each = [temperature] * len(prompts) if isinstance(temperature, int | float) else list(temperature)
        order = sorted(range(len(ids)), key=lambda index: (len(ids[index]), ids[index]), reverse=True)
        own_seeds = range(len(prompts)) if seeds is None else seeds
        end_ids = frozenset({self.tokenizer.eos_token_id})
        answers: dict[int, Generation] = {}
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            outputs = decode(
                self.model,
                [ids[index] for index in batch],
                max_new_tokens=max_new_tokens,
                temperatures=[each[index] for index in batch],
                end_ids=end_ids,
                uniforms=chance([own_seeds[index] for index in batch], max_new_tokens),
                is_over=never_over if watch is None else self._watched(watch, batch),
            )
            for index, output in zip(batch, outputs, strict=True):
                answers[index] = Generation(
                    text=self._text(output),
                    prompt_tokens=len(ids[index]),
                    output_tokens=len(output),
                    complete=bool(output) and output[-1] in end_ids,
                )
            on_progress(len(answers), len(prompts))
        return [answers[index] for index in range(len(prompts))]

    def _watched(self, watch: Watch, prompts: Sequence[int]) -> IsOver:
        return lambda row, tokens: watch(prompts[row], self._text(tokens))

    def _text(self, tokens: Sequence[int]) -> str:
        """What the tokens say, as it was written: what the first of them say is how the whole begins."""
        text = self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)


def tokenize_prompt(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation up to where the assistant begins to answer."""
    return tokenize_chat(tokenizer, chat(messages))


def tokenize_chat(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]]) -> list[int]:
    """The same for messages as chat templates take them."""
    ids: Any = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    return list(ids)


def chat(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as chat templates take them."""
    return [{"role": message.role, "content": message.content or ""} for message in messages]
