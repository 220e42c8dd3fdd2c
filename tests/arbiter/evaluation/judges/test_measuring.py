"""Judges held against labels of known truth: the estimates find it. And against real outcomes, where they are there."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.evaluation.judges.build import panel_of
from flywheel.arbiter.evaluation.judges.calibration import load, save
from flywheel.arbiter.evaluation.judges.criteria import Criterion, criteria_of
from flywheel.arbiter.evaluation.judges.kept import KeptInDatabase
from flywheel.arbiter.evaluation.judges.labels import Labelled, read_labelled
from flywheel.arbiter.evaluation.judges.material import Material
from flywheel.arbiter.evaluation.judges.measuring import Measured, calibrations, for_fitting, measure
from flywheel.arbiter.evaluation.judges.opinions import Score
from flywheel.arbiter.evaluation.judges.panel import Case, Panel
from flywheel.errors import ConfigurationError, InputError
from flywheel.settings import Settings
from tests.arbiter.evaluation.judges.conftest import Serve
from tests.arbiter.evaluation.judges.endpoint import score, with_judges
from tests.arbiter.evaluation.judges.outcomes import OUTCOMES, SHARED, labelled_outcomes

NOISE = 0.2


def chance(text: str, salt: str = "") -> float:
    """A number in 0–1 that depends on the text alone."""
    return int.from_bytes(blake2b(f"{salt}{text}".encode(), digest_size=8).digest()) / 2**64


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def answers(count: int) -> list[dict[str, Any]]:
    """Labelled answers whose label is in their words, so that a fake judge knows the truth."""
    return [
        {
            "task": f"Task {n}",
            "answer": f"{'good' if chance(str(n)) < 0.6 else 'bad'} {n}",
            "labels": {"relevance": chance(str(n)) < 0.6},
        }
        for n in range(count)
    ]


def noisy(criterion: str, answer: str, noise: float = NOISE) -> Any:
    """Right with 1 − noise, and sure of 0.95 all the same: not calibrated. Silent about one in ten."""
    if chance(answer, "silent") < 0.1:
        return "I cannot say."
    good = answer.startswith("good") != (chance(answer, "noise") < noise)
    return score(0.95 if good else 0.05)


def read_material(line: dict[str, Any]) -> Material:
    return msgspec.convert(line, Labelled).material


def measured(settings: Settings, path: Path, **options: Any) -> tuple[Measured, Panel, tuple[Criterion, ...]]:
    kept = options.pop("kept", None)
    panel, criteria = panel_of(settings, kept=kept), criteria_of(settings.judges)
    return measure(read_labelled(path), panel, criteria, tenant_id="acme", **options), panel, criteria


def test_the_estimates_find_the_known_truth_of_a_noisy_judge(serve: Serve, bare: Settings, tmp_path: Path) -> None:
    path = written(tmp_path / "labels.jsonl", answers(400))
    found, _, _ = measured(with_judges(bare, serve(noisy).url), path)
    relevance = found.agreement["relevance"]
    assert (relevance.rows, relevance.groups) == (400, 400)
    silent = sum(chance(line["answer"], "silent") < 0.1 for line in answers(400))
    assert relevance.abstentions == {"unreadable": silent}
    assert relevance.scored == 400 - silent
    # Of a judge that is right with 1 − ε whatever the label, at a base rate of 0.6.
    yes = 0.6 * (1 - NOISE) + 0.4 * NOISE
    by_chance = yes * 0.6 + (1 - yes) * 0.4
    truth = {
        "accuracy": 1 - NOISE,
        "kappa": (1 - NOISE - by_chance) / (1 - by_chance),
        "brier": (1 - NOISE) * 0.05**2 + NOISE * 0.95**2,
        "auc": 1 - NOISE,
    }
    for name, value in truth.items():
        estimate = getattr(relevance, name)
        assert estimate.low <= value <= estimate.high, name
    low, high = relevance.accuracy_bounds or (0, 0)
    assert low < truth["accuracy"] < high
    assert high - low == pytest.approx(silent / 400)


def test_calibration_is_fitted_on_one_part_and_makes_the_other_better(
    serve: Serve, bare: Settings, tmp_path: Path
) -> None:
    path = written(tmp_path / "labels.jsonl", answers(400))
    found, panel, criteria = measured(with_judges(bare, serve(partial(noisy, noise=0.35)).url), path, method="isotonic")
    relevance = found.calibration["relevance"]
    assert relevance.calibrated is not None
    assert relevance.raw.calibration_error is not None
    assert relevance.calibrated.calibration_error is not None
    assert relevance.fitted_on + relevance.raw.scored == found.agreement["relevance"].scored
    assert relevance.raw.calibration_error.value > 0.2
    assert relevance.calibrated.calibration_error.value < relevance.raw.calibration_error.value / 2

    [made] = calibrations(found, panel, criteria, method="isotonic", now=datetime(2026, 3, 2, tzinfo=UTC))
    save(tmp_path / "curves.json", [made])
    assert load(tmp_path / "curves.json") == [made]
    calibrated = with_judges(
        bare, serve(partial(noisy, noise=0.35)).url, calibration=[str(tmp_path / "curves.json")], criteria=["relevance"]
    )
    [criterion] = criteria_of(calibrated.judges)
    good = next(line["answer"] for line in answers(400) if noisy("", line["answer"], 0.35) == score(0.95))
    [judgement] = panel_of(calibrated).judge(
        [Case(material=Material(task="Task", answer=good), criterion=criterion)], tenant_id="acme"
    )
    assert isinstance(judgement.finding, Score)
    assert judgement.finding.value == pytest.approx(made.curve(0.95))
    assert judgement.finding.value < 0.95
    assert judgement.opinions[0].finding == Score(value=0.95, confidence=0.9, reason="as the rule says")


def test_the_parts_have_no_group_in_common_and_stay_apart_when_a_file_grows() -> None:
    fitting = {str(n) for n in range(1000) if for_fitting(str(n), 0.5)}
    assert 430 < len(fitting) < 570
    assert fitting == {str(n) for n in range(1000) if for_fitting(str(n), 0.5)}
    assert {name for name in fitting if for_fitting(name, 0.2)} == {
        str(n) for n in range(1000) if for_fitting(str(n), 0.2)
    }


def test_too_few_labels_are_reported_and_make_no_curve(serve: Serve, bare: Settings, tmp_path: Path) -> None:
    path = written(tmp_path / "labels.jsonl", answers(20))
    found, panel, criteria = measured(with_judges(bare, serve(noisy).url), path, method="platt")
    assert found.calibration["relevance"].curve is None
    assert found.calibration["relevance"].calibrated is None
    assert calibrations(found, panel, criteria, method="platt", now=datetime.now(UTC)) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda curve: curve | {"model": "model-zero"}, "model-zero"),
        (lambda curve: curve | {"version": 7}, "relevance@7"),
        (lambda curve: curve | {"prompts": 7}, "prompts 7"),
        (lambda curve: curve | {"judge": "nobody"}, "no such judge"),
        (lambda curve: curve | {"format": 2}, "cannot be used"),
        (lambda curve: curve | {"curve": {"scores": [0.9, 0.1], "shares": [0, 1]}}, "cannot be used"),
        (lambda curve: curve | {"curve": {"scores": [0.1], "shares": [7]}}, "cannot be used"),
    ],
)
def test_a_calibration_of_something_else_is_refused(
    bare: Settings, tmp_path: Path, changed: Callable[[dict[str, Any]], dict[str, Any]], told: str
) -> None:
    curve = {
        "judge": "one",
        "model": "model-one",
        "criterion": "relevance",
        "version": 1,
        "prompts": 1,
        "method": "isotonic",
        "curve": {"scores": [0.1, 0.9], "shares": [0.2, 0.7]},
        "fittedOn": 50,
        "labels": "",
        "madeAt": "2026-03-02T00:00:00Z",
        "format": 1,
    }
    path = tmp_path / "curves.json"
    path.write_text(json.dumps([curve]))
    settings = with_judges(bare, "http://localhost:1/v1", calibration=[str(path)])
    assert panel_of(settings)
    path.write_text(json.dumps([changed(curve)]))
    with pytest.raises(ConfigurationError, match=told):
        panel_of(settings)


def test_a_second_run_and_one_that_goes_on_ask_only_what_is_new(
    serve: Serve, bare: Settings, engine: Engine, tmp_path: Path
) -> None:
    endpoint = serve(lambda criterion, answer: score(0.9))
    settings, kept = with_judges(bare, endpoint.url), KeptInDatabase(engine, days=30)
    first, _, _ = measured(settings, written(tmp_path / "part.jsonl", answers(80)), kept=kept)
    assert len(endpoint.bodies) == 80
    again, _, _ = measured(settings, written(tmp_path / "part.jsonl", answers(80)), kept=kept)
    measured(settings, written(tmp_path / "all.jsonl", answers(100)), kept=kept)
    assert len(endpoint.bodies) == 100
    assert first.agreement == again.agreement


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"task": "t", "answer": "a"}', "line 2.*labels"),
        ('{"task": "t", "answer": "a", "labels": {}}', "line 2.*no labels"),
        ('{"task": "t", "answer": "a", "labels": {"relevance": 1}}', "line 2.*bool"),
        ('{"task": "t", "answer": "a", "labels": {"relevance": true}, "lable": 1}', "line 2.*lable"),
        ("no json", "line 2"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(answers(1)[0]) + "\n" + line + "\n")
    with pytest.raises(InputError, match=told):
        read_labelled(path)


def test_a_file_without_lines_and_labels_of_unknown_criteria_are_refused(bare: Settings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no labelled answer"):
        read_labelled(written(tmp_path / "empty.jsonl", []))
    path = written(tmp_path / "labels.jsonl", [{"task": "t", "answer": "a", "labels": {"wit": True}}])
    with pytest.raises(InputError, match=r"labels of wit, and judges\.criteria has relevance"):
        measured(with_judges(bare, "http://localhost:1/v1"), path)


# --- real outcomes --------------------------------------------------------------------------------------------------

RESOLVED = {
    "name": "resolved",
    "version": 1,
    "instructions": "Was what the user wanted done, all of it, and nothing else changed? 1.0 yes, 0.0 no.",
}


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real trajectories are not in {SHARED}")
@pytest.mark.parametrize("name", OUTCOMES)
def test_deterministic_outcomes_of_real_runs_serve_as_labels(
    serve: Serve, bare: Settings, tmp_path: Path, name: str
) -> None:
    """The judge knows the outcome and errs in about one of five: the figures say in exactly how many."""
    lines = labelled_outcomes(name, tmp_path)
    truth = {blake2b(line["answer"].encode()).digest(): line["labels"]["resolved"] for line in lines}

    def outcome(criterion: str, answer: str) -> Any:
        known = truth.get(blake2b(answer.replace("\N{WORD JOINER}", "").encode()).digest())
        assert known is not None
        return score(0.9 if known != (chance(answer, "noise") < NOISE) else 0.1)

    settings = with_judges(bare, serve(outcome).url, own_criteria=[RESOLVED], criteria=["resolved"])
    found, _, _ = measured(settings, written(tmp_path / "labels.jsonl", lines))
    resolved = found.agreement["resolved"]
    assert (resolved.rows, resolved.groups) == OUTCOMES[name]
    assert resolved.base_rate is not None
    assert 0 < resolved.base_rate < 1
    assert set(resolved.abstentions) <= {"too-long"}
    assert resolved.scored + sum(resolved.abstentions.values()) == resolved.rows
    assert resolved.accuracy is not None
    assert resolved.accuracy.low is not None
    assert resolved.accuracy.high is not None
    shown = [line for line in lines if read_material(line).characters <= settings.judges.max_characters]
    erred = sum(chance(line["answer"], "noise") < NOISE for line in shown)
    assert resolved.scored == len(shown)
    assert resolved.accuracy.value == pytest.approx(1 - erred / len(shown))
    assert resolved.accuracy.low < resolved.accuracy.value < resolved.accuracy.high
    assert resolved.accuracy.method == ("Wilson" if resolved.rows == resolved.groups else "bootstrap")
