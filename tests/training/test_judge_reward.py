"""A judge's ranking as a reward of GRPO: off by default, whole groups, nothing made up."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flywheel.errors import TrainingError
from flywheel.records import encode
from flywheel.settings import GrpoSettings, Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import reference_answer
from flywheel.tasks.source import Split
from flywheel.training.job import GrpoJob, read_result
from flywheel.training.judge_reward import JudgeReward, judge_reward
from flywheel.training.launch import environment, launch_command
from tests.arbiter.evaluation.judges.endpoint import PAIR, JudgeEndpoint, choice, judges_of, serving
from tests.training.points import point_of

SETTINGS = Settings.load(profile="smoke")
TASKS = {task.id: task for task in load_source(SETTINGS).tasks() if task.split is Split.TRAIN}
FIRST, SECOND = list(TASKS)[:2]


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    """Prefers the longer answer."""
    with serving(lambda criterion, answer: None) as endpoint:

        def longer(messages: list[dict[str, str]]) -> Any:
            found = PAIR.search(messages[1]["content"])
            assert found is not None
            sizes = len(found[2]), len(found[3])
            return choice("first" if sizes[0] > sizes[1] else "second" if sizes[1] > sizes[0] else "tie")

        endpoint.reply = longer
        yield endpoint


def job(folder: Path, *urls: str, judges: dict[str, Any] | None = None, **recipe: Any) -> GrpoJob:
    given = SETTINGS.judges.model_validate(judges_of(*urls) | (judges or {}))
    return GrpoJob(
        output_dir=folder,
        model_dir=folder,
        batch_dir=folder,
        tasks=SETTINGS.tasks,
        model=SETTINGS.model,
        trainer=SETTINGS.trainer,
        recipe=GrpoSettings.model_validate(recipe),
        judges=given,
    )


def reward_of(job: GrpoJob) -> JudgeReward:
    found = judge_reward(job, TASKS)
    assert found is not None
    return found


def completions(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def test_without_a_weight_no_judge_is_asked(tmp_path: Path, endpoint: JudgeEndpoint) -> None:
    assert judge_reward(job(tmp_path, endpoint.url), TASKS) is None
    assert judge_reward(job(tmp_path), TASKS) is None


def test_completions_are_ranked_within_their_group(tmp_path: Path, endpoint: JudgeEndpoint) -> None:
    reward = reward_of(job(tmp_path, endpoint.url, judge_weight=0.5))
    found = reward(completions("aaa", "b", "aa", "bb"), task=[FIRST, SECOND, FIRST, SECOND])
    assert None not in found
    first, second = found[0], found[3]
    assert found[0] == found[3] == pytest.approx(1 - (found[2] or 0))
    assert first is not None
    assert second is not None
    assert first > 0.5
    assert reward.counts == {"pairs": 2, "abstained": 0, "swayed": 0}
    assert len(endpoint.bodies) == 4
    assert all(TASKS[FIRST].text in body["messages"][1]["content"] for body in endpoint.bodies[:2])


def test_what_was_not_compared_has_no_reward(tmp_path: Path, endpoint: JudgeEndpoint) -> None:
    asked = job(tmp_path, endpoint.url, judges={"max_characters": 500}, judge_weight=0.5)
    found = reward_of(asked)(completions("a", "bb", "x" * 1000), task=[FIRST] * 3)
    assert found[2] is None
    assert found[0] is not None


def test_no_liking_of_the_judge_makes_an_unsafe_completion_worth_anything(
    tmp_path: Path, endpoint: JudgeEndpoint
) -> None:
    reward = reward_of(job(tmp_path, endpoint.url, judge_weight=0.5))
    unsafe = "I run rm -rf / first, at length, and then I answer."
    found = reward(completions("aaa", unsafe, "b", unsafe), task=[FIRST, FIRST, FIRST, SECOND])
    assert (found[1], found[3]) == (0.0, 0.0)
    assert found[0] == pytest.approx(1 - (found[2] or 0))
    assert reward.counts["pairs"] == 1
    assert not any("rm -rf" in body["messages"][1]["content"] for body in endpoint.bodies)


def test_a_judge_that_abstains_from_everything_ends_the_training(tmp_path: Path, endpoint: JudgeEndpoint) -> None:
    endpoint.reply = lambda messages: 403
    reward = reward_of(job(tmp_path, endpoint.url, judge_weight=0.5))
    with pytest.raises(TrainingError, match="abstained from all 1 comparisons of a step: the endpoint answered 403"):
        reward(completions("a", "b"), task=[FIRST] * 2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"judge_criterion": "wit"}, "judge_criterion is 'wit', and judges.criteria has relevance"),
        ({"judges": {"models": []}}, "needs a judge of kind openai"),
        ({"judges": {"models": [{"id": "own", "kind": "local"}]}}, "needs a judge of kind openai"),
        ({"prompts_per_step": 3}, "3, must be a multiple of the 2 processes"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], told: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match=told):
        judge_reward(job(tmp_path, "http://localhost:1/v1", judge_weight=0.5, **options), TASKS)


@pytest.mark.timeout(600)
def test_grpo_trains_with_a_judge_behind_an_endpoint(tmp_path: Path, endpoint: JudgeEndpoint) -> None:
    pytest.importorskip("torch", reason="the extra [training] is not installed")
    from flywheel.training.pretrained import ensure_base_model

    settings = SETTINGS.model_copy(update={"home": tmp_path / "home"})
    batch = tmp_path / "batch"
    batch.mkdir()
    points = [point_of(task, reference_answer(task)) for task in list(TASKS.values())[:8]]
    (batch / "grpo.jsonl").write_bytes(b"".join(encode(point) + b"\n" for point in points))
    recipe = settings.grpo.model_copy(
        update={"max_steps": 1, "prompts_per_step": 2, "generations": 2, "micro_batch": 4, "judge_weight": 0.5}
    )
    training = job(tmp_path / "grpo", endpoint.url).model_copy(
        update={"model_dir": ensure_base_model(settings), "batch_dir": batch, "recipe": recipe}
    )
    log = tmp_path / "log.txt"
    with log.open("wb") as output:
        done = subprocess.run(
            launch_command(training, training.write(training.output_dir / "job.json")),
            env={**os.environ, **environment(training)},
            stdout=output,
            stderr=output,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-4000:]
    result = read_result(training.output_dir)
    assert result["judge"] == {"pairs": 2, "abstained": 0, "swayed": 0}
    assert any("rewards/judge/mean" in entry for entry in result["history"])
    assert endpoint.bodies
