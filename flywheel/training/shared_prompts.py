"""GRPO's loss with every prompt computed once, and not once per completion.

A group's completions share their prompt, and of a function call's tokens the prompt is the larger part. Here the group
is one row: the prompt, then all completions, each of which sees the prompt and itself and has the positions that it
would have alone. The log-probabilities are the same; on processors, where every token costs, loss and gradient take
about a third of the time (``benchmarks/grpo_step.py``).
"""

from collections import defaultdict
from typing import Any, NamedTuple

import torch
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer
from typing_extensions import override

IGNORED = -100
"""The label of tokens that are not scored, as in torch's cross entropy."""
SHUFFLE = "shuffle_sequence_dict"
"""TRL's shuffling of completions between the micro-batches of one generation. The name is private: TRL is pinned."""


def keep_groups_together() -> None:
    """Keep the completions of a prompt side by side, so that it is computed in as few micro-batches as they fill.

    All micro-batches of a generation are one optimizer step here, so their order has no meaning.
    """
    setattr(grpo_trainer, SHUFFLE, lambda batch: batch)


class PackedGroups(NamedTuple):
    """Completions packed into one row per prompt: g rows of n tokens, from b completions of up to t tokens.

    Attributes:
        input_ids: (g, n). The prompt without its last token; then, for each completion, the prompt's last token and
            the completion without its own last one. So each token's output predicts the next token of its completion.
        position_ids: (g, n), as if every completion followed the prompt directly.
        attention_mask: (g, 1, n, n), true where a token (third axis) sees another (fourth).
        shift_labels: (g, n), the token that each output predicts, or ``IGNORED``.
        rows: (b, t), in which row a completion's token is predicted.
        columns: (b, t), and in which column.
        scored: (b, t), true where there is such a token.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    shift_labels: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    scored: torch.Tensor

    def unpack(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the packed tokens (g, n) → of the completions' tokens (b, t), 0 where there is none."""
        return values[self.rows, self.columns].masked_fill(~self.scored, 0.0)


def pack(input_ids: torch.Tensor, attention_mask: torch.Tensor, completion_length: int) -> PackedGroups:
    """Pack what TRL passes: prompts padded on the left, then completions padded on the right.

    Args:
        input_ids: (b, p + t), each row a prompt of at least one token and a completion.
        attention_mask: (b, p + t), 1 where there is a token.
        completion_length: t.
    """
    device, width = input_ids.device, input_ids.size(1) - completion_length
    groups: dict[tuple[int, ...], list[tuple[int, list[int]]]] = defaultdict(list)
    for index, (ids, mask) in enumerate(zip(input_ids.cpu(), attention_mask.bool().cpu(), strict=True)):
        prompt, completion = ids[:width][mask[:width]].tolist(), ids[width:][mask[width:]].tolist()
        groups[tuple(prompt)].append((index, completion))
    longest = max(
        len(prompt) - 1 + sum(len(completion) for _, completion in members) for prompt, members in groups.items()
    )
    packed = {name: torch.zeros(len(groups), longest, dtype=torch.long) for name in ("input_ids", "position_ids")}
    labels = torch.full((len(groups), longest), IGNORED)
    segments = torch.full((len(groups), longest), -1)  # 0 the prompt, then a number per completion; -1 padding
    rows, columns = (torch.zeros(len(input_ids), completion_length, dtype=torch.long) for _ in range(2))
    scored = torch.zeros(len(input_ids), completion_length, dtype=torch.bool)
    for row, (prompt, members) in enumerate(groups.items()):
        end = len(prompt) - 1
        packed["input_ids"][row, :end] = torch.tensor(prompt[:-1], dtype=torch.long)
        packed["position_ids"][row, :end] = torch.arange(end)
        segments[row, :end] = 0
        for number, (index, completion) in enumerate(members, start=1):
            start, end = end, end + len(completion)
            packed["input_ids"][row, start:end] = torch.tensor([prompt[-1], *completion][: len(completion)])
            packed["position_ids"][row, start:end] = torch.arange(len(completion)) + len(prompt) - 1
            segments[row, start:end] = number
            labels[row, start:end] = torch.tensor(completion, dtype=torch.long)
            rows[index, : len(completion)] = row
            columns[index, : len(completion)] = torch.arange(start, end)
            scored[index, : len(completion)] = True
    seen, sees = segments[:, None, :], segments[:, :, None]
    earlier = torch.ones(longest, longest, dtype=torch.bool).tril()
    visible = ((seen == 0) | (seen == sees)) & earlier  # padding sees itself: a row that sees nothing would be NaN
    return PackedGroups(
        *(tensor.to(device) for tensor in (*packed.values(), visible[:, None], labels, rows, columns, scored))
    )


class SharedPromptTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's trainer with ``_get_per_token_logps_and_entropies`` (private: TRL is pinned) over packed groups.

    For text models with torch's own attention (sdpa), which takes masks of any shape.
    """

    @override
    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        groups = pack(input_ids, attention_mask, logits_to_keep)
        with self.accelerator.autocast():
            outputs = model(
                input_ids=groups.input_ids,
                attention_mask=groups.attention_mask,
                position_ids=groups.position_ids,
                shift_labels=groups.shift_labels,
                fused_lm_head=True,
            )
        entropies = groups.unpack(outputs.entropy) if compute_entropy else None
        return groups.unpack(outputs.log_probs), entropies, None
