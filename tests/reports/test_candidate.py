"""The report says what was compared, and what follows."""

import json
from pathlib import Path
from typing import Any

from flywheel.reports.candidate import judge_candidate, markdown, plot
from flywheel.reports.rendering import png
from flywheel.settings import EvaluationSettings

TASKS = 100


def figures(exact: float) -> dict[str, Any]:
    score = {"exact": exact, "low": exact / 2, "high": min(1.0, exact * 1.5), "reward": exact, "tasks": TASKS}
    return {"greedy": score, "sampled": score, "not_trained_on": {}}


def judged(folder: Path, right: dict[str, int]) -> Any:
    answers = [
        {
            "label": label,
            "mode": mode,
            "task_id": f"t{number}",
            "task_type": "research",
            "trained": True,
            "exact": number < count,
        }
        for label, count in right.items()
        for mode in ("greedy", "sampled")
        for number in range(TASKS)
    ]
    path = folder / "answers.jsonl"
    path.write_text("\n".join(json.dumps(answer) for answer in answers))
    result = {"models": {label: figures(count / TASKS) for label, count in right.items()}, "differences": []}
    return judge_candidate(result, path, recipe=EvaluationSettings())


def test_the_better_prompt_of_the_pretrained_model_is_the_baseline(tmp_path: Path) -> None:
    report = judged(tmp_path, {"baseZeroShot": 1, "baseFewShot": 5, "sft": 30, "grpo": 40})
    assert report.baseline == "baseFewShot"
    assert report.judgement.is_better
    assert report.models["base"] == report.models["baseFewShot"]


def test_who_is_better_than_the_base_but_not_than_the_champion_is_no_candidate(tmp_path: Path) -> None:
    report = judged(tmp_path, {"baseZeroShot": 1, "baseFewShot": 5, "champion": 60, "sft": 30, "grpo": 40})
    assert report.baseline == "champion"
    assert not report.judgement.is_better
    assert report.models["base"] == report.models["baseFewShot"]


def test_the_page_leads_with_the_verdict_and_draws_every_model(tmp_path: Path) -> None:
    report = judged(tmp_path, {"baseZeroShot": 1, "baseFewShot": 5, "sft": 30, "grpo": 40})
    page = markdown(report, batch_id="b1", lineage={"flywheel.parent": "version 1"})
    assert page.startswith("# Batch b1: registered as candidate")
    assert "| GRPO | 40.0% (20.0%–60.0%) | 0.400 |" in page
    assert png(plot(report)).startswith(b"\x89PNG")
