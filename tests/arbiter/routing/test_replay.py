"""Replays: what a strategy may see, what it is compared with, and how it does on real outcomes."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from flywheel.arbiter.routing.build import STRATEGY_NAMES
from flywheel.arbiter.routing.replay import Case, Row, cases_of, choices, read_outcomes, replay
from flywheel.cli.router import STRATEGIES
from flywheel.errors import InputError
from flywheel.settings import StrategyName
from tests.arbiter.routing import matrices
from tests.cli.conftest import Invoke, flywheel, home  # noqa: F401 - fixtures

needs_outcomes = pytest.mark.skipif(not matrices.DATA.exists(), reason="the real outcomes are not beside the checkout")


def rows(tasks: int = 400, *, seed: int = 0) -> list[Row]:
    """Three agents, two types; ``x`` is the best of one type, ``y`` of the other and of both together."""
    rng = np.random.default_rng(seed)
    quality = {"one": {"x": 0.9, "y": 0.7, "z": 0.2}, "two": {"x": 0.2, "y": 0.8, "z": 0.3}}
    return [
        Row(task_id=str(number), task_type=kind, agent_id=agent_id, reward=float(rng.random() < mean))
        for number in range(tasks)
        for kind in [("one", "two")[number % 2]]
        for agent_id, mean in quality[kind].items()
    ]


def changing(days: int = 60, *, seed: int = 0) -> list[Row]:
    """Two agents that change places in the middle; ten tasks a day."""
    rng = np.random.default_rng(seed)
    return [
        Row(task_id=f"{day}-{n}", task_type="t", agent_id=a, reward=float(rng.random() < q), at=day + n / 10)
        for day in range(days)
        for n in range(10)
        for a, q in (("old", 0.8 if day < days / 2 else 0.3), ("new", 0.5))
    ]


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_replay_is_the_same_with_the_same_seed_and_its_numbers_fit(strategy: StrategyName) -> None:
    report = replay(cases_of(rows()), strategy, seed=3)
    assert report == replay(cases_of(rows()), strategy, seed=3)
    assert report.random <= report.best_single <= report.best_per_type <= report.oracle
    assert report.mean_reward <= report.oracle
    assert sum(report.share.values()) == pytest.approx(1)
    assert report.regret["bestSingle"] == pytest.approx(report.best_single - report.mean_reward)
    assert report.curve[-1] == pytest.approx(report.mean_reward)
    assert report.best_agent == "y"


@pytest.mark.parametrize("strategy", ["thompson", "ucb", "epsilon-greedy", "contextual"])
def test_learning_strategies_come_near_the_best_agent_of_each_type(strategy: StrategyName) -> None:
    """Over 5 orders of the tasks; choosing evenly gets 0.52, the best single agent 0.75, per type 0.85."""
    reports = [replay(cases_of(rows(600)), strategy, seed=seed) for seed in range(5)]
    assert np.mean([report.mean_reward for report in reports]) > reports[0].best_single
    assert np.mean([report.last_quarter.mean_reward for report in reports]) > 0.8


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_outcomes_of_agents_that_were_not_chosen_make_no_difference(strategy: StrategyName) -> None:
    cases = cases_of(rows(100))
    chosen = choices(cases, strategy, np.random.default_rng(1))
    other = [
        Case(
            case.task,
            {
                agent_id: row if agent_id == one.agent_id else structs.replace(row, reward=1 - row.reward)
                for agent_id, row in case.outcomes.items()
            },
            case.at,
        )
        for case, one in zip(cases, chosen, strict=True)
    ]
    assert choices(other, strategy, np.random.default_rng(1)) == chosen


def test_after_a_change_an_agent_that_forgets_does_better() -> None:
    """Over 10 seeds the mean after the change is higher with a half-life of 5 days than without, and by 0.03."""
    found = {}
    for half_life in (None, 5.0):
        reports = [replay(cases_of(changing(seed=s)), "thompson", seed=s, half_life=half_life) for s in range(10)]
        found[half_life] = np.mean([report.mean_reward for report in reports])
    assert found[5.0] > found[None] + 0.03


@needs_outcomes
@pytest.mark.timeout(600)
def test_on_nine_language_models_it_is_above_the_best_single_one() -> None:
    """20 orders of 4,120 questions; the standard error of their mean is about 0.001."""
    cases = cases_of(matrices.llmrouter())
    reports = [replay(cases, "thompson", seed=seed) for seed in range(20)]
    means = [report.mean_reward for report in reports]
    assert np.mean(means) > reports[0].best_single + 0.005
    assert sum(mean > reports[0].best_single for mean in means) >= 16
    assert np.mean([r.last_quarter.mean_reward for r in reports]) > 0.97 * np.mean(
        [r.last_quarter.best_single for r in reports]
    )
    assert min(report.first_quarter for report in reports) > reports[0].random


@needs_outcomes
@pytest.mark.parametrize("attack", [None, "important_instructions"])
def test_on_agent_runs_it_is_above_random_at_once(attack: str | None) -> None:
    cases = cases_of(matrices.agentdojo(attack))
    reports = [replay(cases, "thompson", seed=seed) for seed in range(8)]
    assert np.mean([report.first_quarter for report in reports]) > reports[0].random
    assert np.mean([report.last_quarter.mean_reward for report in reports]) > reports[0].random + 0.05


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"taskId": "1"}\n', "line 1: "),
        ('{"taskId": "1", "taskType": "t", "agentId": "a", "reward": 3}\n', "reward 3.0 is not between 0 and 1"),
        ("\n", "has no outcomes"),
    ],
)
def test_a_file_that_is_no_matrix_is_an_error_that_says_where(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "outcomes.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_outcomes(path)


def test_the_command_offers_every_strategy() -> None:
    assert STRATEGIES == STRATEGY_NAMES


def test_the_command_answers_in_json_and_draws_the_curve(flywheel: Invoke, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "outcomes.jsonl"
    path.write_text(
        "".join(
            json.dumps({"taskId": r.task_id, "taskType": r.task_type, "agentId": r.agent_id, "reward": r.reward}) + "\n"
            for r in rows(80)
        )
    )
    arguments = ("router", "replay", "--outcomes", str(path), "--strategy", "ucb", "--seed", "4")
    report = json.loads(flywheel(*arguments, "--json").output)
    assert {"meanReward", "random", "bestSingle", "bestPerType", "oracle", "lastQuarter", "share"} <= report.keys()
    assert report["lastQuarter"].keys() == {"meanReward", "bestSingle"}
    assert "best per type" in flywheel(*arguments, "--plot", "-").output
    for ending, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        picture = tmp_path / f"curve{ending}"
        assert flywheel(*arguments, "--plot", str(picture)).exit_code == 0
        assert picture.read_bytes().startswith(start)
    assert flywheel(*arguments, "--plot", "curve.bmp").exit_code == 2
