"""Our decoding gives what the model's own ``generate`` gives, only sooner."""

import copy
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from flywheel.errors import TrainingError
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import prompt_messages
from flywheel.training.decoding import chance, decode, shared_prefix
from flywheel.training.generation import Generator
from flywheel.training.scratch import make_scratch_model

END = 7
PROMPTS = ([5, 6, 8, 9], [5, 6, 8], [5, 6, 10, 11, 12, 13, 14], [5, 6, 8, 9])


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.6,  # decided enough that rounding cannot change an argmax
    )
    return LlamaForCausalLM(config).eval()


def decoded(
    model: LlamaForCausalLM, prompts: Sequence[Sequence[int]], *, temperature: float = 0.0, seed: int = 0
) -> list[list[int]]:
    return decode(
        model,
        prompts,
        max_new_tokens=24,
        temperatures=[temperature] * len(prompts),
        end_ids=frozenset({END}),
        uniforms=torch.rand(len(prompts), 24, generator=torch.Generator().manual_seed(seed)),
    )


def test_greedy_answers_are_those_of_generate(model: LlamaForCausalLM) -> None:
    expected = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=END,
            pad_token_id=0,
        )
        expected.append(output[0, len(prompt) :].tolist())
    assert decoded(model, PROMPTS) == expected
    assert len({len(answer) for answer in expected}) > 1, (
        "rows must finish at different steps for this to test anything"
    )


def test_an_answer_does_not_depend_on_its_company(model: LlamaForCausalLM) -> None:
    together = decoded(model, PROMPTS)
    assert together == [decoded(model, [prompt])[0] for prompt in PROMPTS]


def test_sampling_repeats_by_seed_and_differs_within_a_group(model: LlamaForCausalLM) -> None:
    group = [PROMPTS[2]] * 6
    first = decoded(model, group, temperature=1.5, seed=1)
    assert first == decoded(model, group, temperature=1.5, seed=1)
    assert first != decoded(model, group, temperature=1.5, seed=2)
    assert len({tuple(answer) for answer in first}) > 1


def test_each_prompt_may_have_its_own_temperature(model: LlamaForCausalLM) -> None:
    mixed = decode(
        model,
        [prompt for prompt in PROMPTS for _ in range(2)],
        max_new_tokens=24,
        temperatures=[0.0, 2.0] * len(PROMPTS),
        end_ids=frozenset({END}),
        uniforms=chance(range(2 * len(PROMPTS)), 24),
    )
    assert mixed[::2] == decoded(model, PROMPTS)
    assert mixed[1::2] != mixed[::2]


def test_sampling_follows_the_models_probabilities(model: LlamaForCausalLM) -> None:
    with torch.inference_mode():
        expected = torch.softmax(model(torch.tensor([PROMPTS[0]])).logits[0, -1], dim=-1)
    drawn = decode(
        model,
        [PROMPTS[0]] * 4000,
        max_new_tokens=1,
        temperatures=[1.0] * 4000,
        end_ids=frozenset({END}),
        uniforms=chance(range(4000), 1),
    )
    counts = torch.bincount(torch.tensor([answer[0] for answer in drawn]), minlength=16) / 4000
    assert float((counts - expected).abs().max()) < 0.03


def test_two_models_get_the_same_numbers_for_the_same_prompt(model: LlamaForCausalLM) -> None:
    """However long other answers of theirs are: what an almost equal model says is almost always the same."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(9)), alpha=2e-4)
    prompts = [prompt for prompt in PROMPTS for _ in range(25)]
    first, second = (decoded(each, prompts, temperature=1.5, seed=4) for each in (model, other))
    independent = decoded(model, prompts, temperature=1.5, seed=5)
    same = sum(one == two for one, two in zip(first, second, strict=True))
    by_chance = sum(one == two for one, two in zip(first, independent, strict=True))
    assert same > 80
    assert by_chance < 20
    assert first != second


def test_a_model_whose_weights_are_no_numbers_gives_no_answers(model: LlamaForCausalLM) -> None:
    diverged = copy.deepcopy(model)
    with torch.no_grad():
        diverged.get_input_embeddings().weight.fill_(torch.nan)
    for temperature in (0.0, 1.0):
        with pytest.raises(TrainingError, match="probabilities are no numbers"):
            decoded(diverged, PROMPTS, temperature=temperature)


def test_the_end_is_kept_and_nothing_follows_it(model: LlamaForCausalLM) -> None:
    for answer in decoded(model, [PROMPTS[2]] * 20, temperature=2.0):
        assert END not in answer[:-1]
        assert len(answer) == 24 or answer[-1] == END


def test_who_sees_an_answer_grow_may_end_it_and_the_others_go_on(model: LlamaForCausalLM) -> None:
    whole = decoded(model, PROMPTS)
    seen: list[tuple[int, list[int]]] = []

    def is_over(row: int, tokens: Sequence[int]) -> bool:
        seen.append((row, list(tokens)))
        return row == 1 and len(tokens) == 2

    ended = decode(
        model,
        PROMPTS,
        max_new_tokens=24,
        temperatures=[0.0] * len(PROMPTS),
        end_ids=frozenset({END}),
        uniforms=chance(range(len(PROMPTS)), 24),
        is_over=is_over,
    )
    assert len(whole[1]) > 2
    assert ended == [answer[:2] if row == 1 else answer for row, answer in enumerate(whole)]
    told = {row: [tokens for of, tokens in seen if of == row] for row in range(len(PROMPTS))}
    for row, answer in enumerate(ended):
        lengths = range(1, len(answer) + (answer[-1] != END))
        assert told[row] == [answer[:length] for length in lengths]


@pytest.mark.parametrize(
    ("prompts", "expected"), [([[1, 2, 3], [1, 2, 4]], 2), ([[1, 2], [1, 2]], 1), ([[1], [2, 3]], 0), ([[4, 5, 6]], 2)]
)
def test_the_shared_prefix_leaves_a_token_of_each(prompts: list[list[int]], expected: int) -> None:
    assert shared_prefix(prompts) == expected


def test_answers_come_in_the_order_of_the_questions_and_progress_reaches_the_total(tmp_path: Path) -> None:
    settings = Settings.load(profile="smoke")
    make_scratch_model(settings, tmp_path)
    tasks = load_source(settings).tasks()[::120]
    generator = Generator(tmp_path, dtype="float32")
    seen: list[tuple[int, int]] = []
    prompts = [prompt_messages(task) for task in tasks]
    answers = generator.generate(
        prompts, max_new_tokens=6, batch_size=4, on_progress=lambda done, total: seen.append((done, total))
    )
    alone = [generator.generate([prompt], max_new_tokens=6)[0] for prompt in prompts]
    assert answers == alone
    sampled = generator.generate(prompts, max_new_tokens=6, temperature=1.0, seeds=range(len(prompts)), batch_size=4)
    assert sampled == [
        generator.generate([prompt], max_new_tokens=6, temperature=1.0, seeds=[seed])[0]
        for seed, prompt in enumerate(prompts)
    ]
    assert seen[-1] == (len(tasks), len(tasks))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
