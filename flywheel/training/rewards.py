"""Verifiable rewards for GRPO: the rubric's terms, computed from the answer's text and the published answer.

One function per term, so that the tracker shows each by itself. A function returns what its term adds to the overall
score (weight × term, and nothing where the answer is unsafe), so their sum is the rubric's overall score: the number
that the arbiter logs and the evaluation reports. A recipe may weigh the terms differently (``TermWeights``); TRL then
optimizes that weighted sum.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flywheel.arbiter.evaluation.function_call_evaluator import evidence_of_calls
from flywheel.arbiter.evaluation.function_calls import check
from flywheel.arbiter.evaluation.hacking.finding import Term
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import TERMS, Rubric
from flywheel.records import RubricScores
from flywheel.tasks.source import BenchmarkTask

RewardFunction = Callable[..., list[float | None]]  # TRL's type; ours never return None


def reward_functions(tasks: Mapping[str, BenchmarkTask], rubric: Rubric = BUILTIN) -> list[RewardFunction]:
    """TRL reward functions, one per term of the rubric, for answers to these tasks.

    They take ``completions`` (each a list of messages), ``completion_ids``, and the columns ``task`` (ids) and
    ``prompt_tokens``; each returns one number in 0–1 per completion.
    """
    return [_reward_function(term, tasks, rubric) for term in TERMS]


def contributions(task: BenchmarkTask, text: str, *, tokens_used: int, rubric: Rubric = BUILTIN) -> dict[Term, float]:
    """What each term adds to the overall score of this answer."""
    return rubric.contributions(task.task_type, answer_scores(task, text, tokens_used=tokens_used, rubric=rubric))


def answer_scores(task: BenchmarkTask, text: str, *, tokens_used: int, rubric: Rubric = BUILTIN) -> RubricScores:
    """The rubric's scores of a local model's answer, which costs tokens but no money."""
    evidence = evidence_of_calls(task, check(task.expected, task.tools, text), text, tokens_used=tokens_used)
    return rubric.scores(task.task_type, evidence)


def _reward_function(term: Term, tasks: Mapping[str, BenchmarkTask], rubric: Rubric) -> RewardFunction:
    def reward(
        completions: Sequence[Sequence[Mapping[str, str]]],
        completion_ids: Sequence[Sequence[int]],
        task: Sequence[str],
        prompt_tokens: Sequence[int],
        **_: Any,
    ) -> list[float | None]:
        rows = zip(completions, completion_ids, task, prompt_tokens, strict=True)
        return [
            contributions(
                tasks[task_id], completion[0]["content"], tokens_used=prompt_length + len(ids), rubric=rubric
            )[term]
            for completion, ids, task_id, prompt_length in rows
        ]

    reward.__name__ = term
    return reward
