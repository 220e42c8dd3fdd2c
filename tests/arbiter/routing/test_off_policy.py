"""Estimators are right as often as their intervals say, and refuse what a log cannot tell."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from flywheel.arbiter.routing.off_policy import Logged, evaluate_policy, policy_named, read_log
from flywheel.errors import ConfigurationError, InputError, UnsupportedPolicyError
from flywheel.records import encode
from tests.cli.conftest import Invoke, flywheel, home  # noqa: F401 - fixtures
from tests.pool.test_score_fields import full_point

QUALITY = {"easy": {"a": 0.9, "b": 0.6, "c": 0.7}, "hard": {"a": 0.2, "b": 0.5, "c": 0.3}}
LOGGING = {"easy": {"a": 0.2, "b": 0.5, "c": 0.3}, "hard": {"a": 0.6, "b": 0.1, "c": 0.3}}
BEST = {"easy": {"a": 1.0}, "hard": {"b": 1.0}}
TRUE_BEST = 0.5 * 0.9 + 0.5 * 0.5


def log(decisions: int, seed: int) -> list[Logged]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(decisions):
        kind = "easy" if rng.random() < 0.5 else "hard"
        agent_id = str(rng.choice(list(LOGGING[kind]), p=list(LOGGING[kind].values())))
        reward = float(rng.random() < QUALITY[kind][agent_id])
        found.append(
            Logged(
                task_id=f"{seed}-{number}",
                task_type=kind,
                agent_id=agent_id,
                reward=reward,
                propensities=LOGGING[kind],
            )
        )
    return found


def test_intervals_hold_the_true_value_as_often_as_they_say() -> None:
    runs, held = 200, {"ips": 0, "snips": 0, "dr": 0}
    errors: dict[str, list[float]] = {name: [] for name in held}
    for seed in range(runs):
        report = evaluate_policy(log(400, seed), lambda one: BEST[one.task_type], name="best")
        for name in held:
            estimate = getattr(report, name)
            held[name] += estimate.low <= TRUE_BEST <= estimate.high
            errors[name].append(estimate.value - TRUE_BEST)
    # 95 % nominal; 0.90 is 3.2 standard errors of 200 runs below it
    assert all(0.90 <= count / runs <= 1.0 for count in held.values()), held
    for found in errors.values():
        assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(runs) + 0.005
    assert np.std(errors["dr"]) < np.std(errors["ips"])


def test_evaluating_the_logs_own_policy_gives_its_mean_reward() -> None:
    decisions = log(500, 1)
    report = evaluate_policy(decisions, lambda one: one.propensities, name="itself")
    assert report.ips.value == report.snips.value == pytest.approx(report.logged)
    assert report.effective_decisions == pytest.approx(500)


def test_a_strategy_learned_from_other_folds_is_estimated_to_beat_the_log() -> None:
    decisions = log(2_000, 2)
    report = evaluate_policy(decisions, policy_named("thompson", decisions), name="thompson")
    assert report.dr.low > report.logged
    assert report.dr.low < TRUE_BEST < report.dr.high + 0.05


def test_a_policy_without_support_is_refused_by_name_and_share() -> None:
    only_a = [one for one in log(300, 3) if one.agent_id == "a"]
    certain = [
        Logged(task_id=one.task_id, task_type=one.task_type, agent_id="a", reward=one.reward, propensities={"a": 1.0})
        for one in only_a
    ]
    with pytest.raises(UnsupportedPolicyError, match=r"100\.0% of the choices of b are of agents .* \(mostly b\)"):
        evaluate_policy(certain, lambda _: {"b": 1.0}, name="b")
    with pytest.raises(UnsupportedPolicyError, match="10 decisions are too few"):
        evaluate_policy(log(10, 0), lambda one: one.propensities, name="itself")


def test_a_little_missing_support_widens_the_intervals_by_what_it_can_hide() -> None:
    decisions = log(2_000, 4)
    full = evaluate_policy(decisions, lambda _: {"a": 1.0}, name="a")
    some = evaluate_policy(decisions, lambda _: {"a": 0.97, "unknown": 0.03}, name="nearly a")
    assert some.unsupported == pytest.approx(0.03)
    assert some.dr.high - some.dr.low == pytest.approx(0.97 * (full.dr.high - full.dr.low) + 0.06, abs=0.01)


def test_unknown_policies_and_broken_tables_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="policy 'best' is unknown"):
        policy_named("best", log(30, 0))
    with pytest.raises(ConfigurationError, match="z is no candidate"):
        policy_named("agent:z", log(30, 0))
    table = tmp_path / "policy.json"
    table.write_text('{"easy": {"a": 0.7}}')
    with pytest.raises(InputError, match="the probabilities of easy do not sum to 1"):
        policy_named(str(table), log(30, 0))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"reward": 1.5}, "reward 1.5 is not between 0 and 1"),
        ({"propensities": {"a": 0.5, "b": 0.1}}, "propensities sum to 0.6000"),
        ({"agentId": "z"}, "z was chosen, and its propensity is 0 or missing"),
    ],
)
def test_a_line_that_cannot_be_right_is_named(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    line = {"taskId": "1", "taskType": "x", "agentId": "a", "reward": 1, "propensities": {"a": 0.5, "b": 0.5}}
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, **change}) + "\n")
    with pytest.raises(InputError, match=f"line 2: {complaint}"):
        read_log(path)


def test_the_command_reads_a_log_and_answers_in_json(flywheel: Invoke, tmp_path: Path) -> None:  # noqa: F811
    path, policy = tmp_path / "log.jsonl", tmp_path / "policy.json"
    lines = [
        {"taskId": d.task_id, "taskType": d.task_type, "agentId": d.agent_id, "reward": d.reward,
         "propensities": d.propensities}
        for d in log(400, 5)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    policy.write_text(json.dumps(BEST))
    result = flywheel("router", "evaluate", "--log", str(path), "--policy", str(policy), "--json")
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["dr"]["low"] < TRUE_BEST < report["dr"]["high"]
    assert "SNIPS" in flywheel("router", "evaluate", "--log", str(path), "--policy", "uniform").output
    refused = flywheel("router", "evaluate", "--log", str(path), "--policy", "nobody")
    assert (refused.exit_code, "is unknown" in refused.stderr) == (1, True)


def test_points_for_which_nobody_was_chosen_are_left_out(tmp_path: Path) -> None:
    point = full_point()
    only = replace(point.routing.candidate_agents[0], agent_id=point.routing.selected_agent_id, propensity=1.0)
    chosen = replace(point, routing=replace(point.routing, candidate_agents=(only,)))
    named = replace(point, routing=replace(point.routing, candidate_agents=()))
    path = tmp_path / "points.jsonl"
    path.write_bytes(b"\n".join(encode(one) for one in (named, chosen, named)))
    assert [one.propensities for one in read_log(path)] == [{only.agent_id: 1.0}]
