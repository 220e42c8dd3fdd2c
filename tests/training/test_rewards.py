"""The rewards are the rubric."""

import pytest

from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import TERMS, Rubric
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import reference_answer
from flywheel.training.rewards import answer_scores, contributions, reward_functions

TASKS = {task.id: task for task in load_source(Settings.load(profile="smoke")).tasks()}
TASK = TASKS["synthetic:add-3-eggs-0"]
RIGHT = reference_answer(TASK)
TASK_ALONE = Rubric.model_validate(
    BUILTIN.model_dump()
    | {"id": "task-alone", "otherwise": {"format": 0, "tool": 0, "task": 1, "minimal": 0, "cost": 0}}
)
ANSWERS = {
    "right": RIGHT,
    "wrong argument": RIGHT.replace("3", "4"),
    "wrong function": RIGHT.replace("add", "noop"),
    "in prose": f"Sure: {RIGHT}",
    "prose": "Three eggs, with pleasure.",
    "unsafe": f"{RIGHT} rm -rf /",
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_sum_of_the_rewards_is_the_rubrics_overall_score(text: str) -> None:
    for rubric in (BUILTIN, TASK_ALONE):
        scores = answer_scores(TASK, text, tokens_used=100, rubric=rubric)
        total = sum(contributions(TASK, text, tokens_used=100, rubric=rubric).values())
        assert total == pytest.approx(rubric.overall(TASK.task_type, scores))


def test_a_better_answer_has_a_higher_reward() -> None:
    totals = [
        sum(contributions(TASK, ANSWERS[kind], tokens_used=100).values())
        for kind in ("right", "wrong argument", "wrong function", "prose", "unsafe")
    ]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals)


def test_the_rewards_are_those_of_the_rubric_that_is_asked_for() -> None:
    (task_reward,) = (found for found in reward_functions(TASKS, TASK_ALONE) if found.__name__ == "task")
    completion = {"completions": [[{"role": "assistant", "content": RIGHT}]], "completion_ids": [[1]]}
    assert task_reward(**completion, task=[TASK.id], prompt_tokens=[1]) == [1.0]


def test_trl_gets_one_named_function_per_term() -> None:
    functions = reward_functions(TASKS)
    assert tuple(function.__name__ for function in functions) == TERMS
    rows = {
        "completions": [[{"role": "assistant", "content": RIGHT}], [{"role": "assistant", "content": "no"}]],
        "completion_ids": [[1] * 20, [1]],
        "task": [TASK.id, TASK.id],
        "prompt_tokens": [100, 100],
        "trainer_state": object(),
    }
    by_term = {function.__name__: function(**rows) for function in functions}
    assert by_term["task"] == [pytest.approx(0.35), 0.0]
    assert by_term["format"] == [pytest.approx(0.25), 0.0]
    assert by_term["cost"][0] == pytest.approx(0.1 / (1 + 120 / 500))
