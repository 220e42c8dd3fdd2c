"""A judge's ranking within a group as one more reward of GRPO; off unless the recipe gives it a weight.

The completions of one prompt are compared in pairs (``flywheel.arbiter.evaluation.judges.ranking``), and each gets its
expected share of wins against the others, 0–1. One that was compared with none has no such reward, which TRL leaves out
of the sum: nothing is made up. One that the rubric's gate does not let through is not compared and gets 0: no judge's
liking makes an unsafe answer worth anything.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flywheel.arbiter.evaluation.judges.criteria import Criterion, criteria_of
from flywheel.arbiter.evaluation.judges.judge import Judge
from flywheel.arbiter.evaluation.judges.material import conversation
from flywheel.arbiter.evaluation.judges.ranking import JudgeComparer, Ranking, rank
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.errors import TrainingError
from flywheel.tasks.prompt import prompt_messages
from flywheel.tasks.source import BenchmarkTask
from flywheel.training.job import GrpoJob
from flywheel.training.rewards import answer_scores


class JudgeReward:
    """TRL's reward function. It counts what the judge did, for the result."""

    __name__ = "judge"

    def __init__(
        self,
        judge: Judge,
        criterion: Criterion,
        tasks: Mapping[str, BenchmarkTask],
        *,
        rubric: Rubric = BUILTIN,
        max_characters: int,
    ) -> None:
        """Nothing is compared yet; ``max_characters`` of a task and two answers are shown to the judge."""
        self._judge = judge
        self._criterion = criterion
        self._tasks = tasks
        self._rubric = rubric
        self._max_characters = max_characters
        self.counts: Counter[str] = Counter(pairs=0, abstained=0, swayed=0)

    def __call__(
        self, completions: Sequence[Sequence[Mapping[str, str]]], task: Sequence[str], **_: Any
    ) -> list[float | None]:
        """One number in 0–1 per completion, 0 where it is unsafe, None where it was compared with none.

        Raises:
            TrainingError: the judge abstained from every comparison; training on would be without it.
        """
        texts = [completion[0]["content"] for completion in completions]
        safe = [self._is_safe(task_id, text) for task_id, text in zip(task, texts, strict=True)]
        rewards: list[float | None] = [None if one else 0.0 for one in safe]
        rankings = []
        for task_id in dict.fromkeys(task):
            places = [place for place, its in enumerate(task) if its == task_id and safe[place]]
            found = self._ranked(task_id, [texts[place] for place in places])
            rankings.append(found)
            for place, score in zip(places, found.scores, strict=True):
                rewards[place] = score
        self._count(rankings)
        return rewards

    def _is_safe(self, task_id: str, text: str) -> bool:
        return self._rubric.is_safe(answer_scores(self._tasks[task_id], text, tokens_used=0, rubric=self._rubric))

    def _ranked(self, task_id: str, answers: Sequence[str]) -> Ranking:
        asked = conversation(prompt_messages(self._tasks[task_id]))
        comparer = JudgeComparer(
            self._judge, criterion=self._criterion, task=asked, max_characters=self._max_characters
        )
        return rank(answers, comparer)

    def _count(self, rankings: Sequence[Ranking]) -> None:
        matches = [match for ranking in rankings for match in ranking.matches]
        silent = [match for match in matches if match.points is None]
        self.counts.update(pairs=len(matches), abstained=len(silent), swayed=sum(match.swayed for match in matches))
        if matches and len(silent) == len(matches):
            raise TrainingError(
                f"the judge {self._judge.id} abstained from all {len(matches)} comparisons of a step: "
                f"{silent[0].reasons[0]}. Mend it and train again, or set grpo.judge_weight to 0"
            )


def judge_reward(job: GrpoJob, tasks: Mapping[str, BenchmarkTask]) -> JudgeReward | None:
    """The reward that the recipe asks for; None where its weight is 0.

    Raises:
        TrainingError: the recipe's judge or criterion is not configured, or groups would be split between processes.
    """
    from flywheel.arbiter.evaluation.judges.build import endpoint_judge

    recipe, settings = job.recipe, job.judges
    if recipe.judge_weight == 0:
        return None
    criteria = {criterion.name: criterion for criterion in criteria_of(settings)}
    if recipe.judge_criterion not in criteria:
        raise TrainingError(
            f"grpo.judge_criterion is {recipe.judge_criterion!r}, and judges.criteria has {', '.join(criteria)}"
        )
    if not settings.models or settings.models[0].kind != "openai":
        raise TrainingError("grpo.judge_weight needs a judge of kind openai as the first of [[judges.models]]")
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.prompts_per_step % processes:
        raise TrainingError(
            f"the judge ranks whole groups: grpo.prompts_per_step, {recipe.prompts_per_step}, must be a multiple of "
            f"the {processes} processes"
        )
    return JudgeReward(
        endpoint_judge(settings.models[0]),
        criteria[recipe.judge_criterion],
        tasks,
        rubric=job.rubric,
        max_characters=settings.max_characters,
    )
