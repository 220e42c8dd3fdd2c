"""``flywheel judge`` against an endpoint on this machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flywheel.cli import main
from tests.arbiter.evaluation.judges.endpoint import JudgeEndpoint, score, serving
from tests.cli.conftest import Invoke


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with serving(lambda criterion, answer: "?" if answer == "odd" else score(0.95 if "good" in answer else 0.1)) as one:
        yield one


@pytest.fixture
def configured(endpoint: JudgeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose ``flywheel.toml`` names the endpoint as judge."""
    (tmp_path / "flywheel.toml").write_text(
        f'[[judges.models]]\nid = "one"\nmodel = "m"\nbase_url = "{endpoint.url}"\nmax_concurrent = 8\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labelled(folder: Path, count: int = 30, **fields: Any) -> str:
    lines = [
        {
            "task": f"t{n}",
            "answer": f"{'good' if n % 2 else 'bad'} {n}",
            "labels": {"relevance": n % 2 == 1 and n % 5 > 0},
        }
        for n in range(count)
    ]
    lines.append({"task": "t", "answer": "odd", "labels": {"relevance": True}})
    path = folder / "labelled.jsonl"
    path.write_text("".join(json.dumps(line | fields) + "\n" for line in lines))
    return str(path)


def test_show_says_that_there_is_no_judge_by_default(flywheel: Invoke) -> None:
    assert "No judge is configured" in flywheel("judge", "show").output
    found = json.loads(flywheel("judge", "show", "--json").output)
    assert (found["judges"], found["prompts"]) == ([], 1)
    assert [criterion["name"] for criterion in found["criteria"]] == [
        "relevance",
        "faithfulness",
        "minimality",
        "safety",
    ]


def test_show_names_judges_and_no_key(flywheel: Invoke, configured: Path) -> None:
    [judge] = json.loads(flywheel("judge", "show", "--json").output)["judges"]
    assert (judge["id"], judge["model"], "api_key_env" in judge) == ("one", "m", False)
    assert "one    openai  m" in flywheel("judge", "show").output


def test_an_answer_is_tried_with_each_opinion_shown(flywheel: Invoke, configured: Path) -> None:
    asked = ("judge", "try", "--task", "t", "--answer", "good", "--criterion", "safety")
    assert flywheel(*asked).output == ("safety@1: 0.95, passes\n  one (m): 0.95 (sure by 0.90): as the rule says\n")
    [judgement] = json.loads(flywheel(*asked, "--json").output)
    assert judgement["finding"] == {
        "type": "score",
        "value": 0.95,
        "confidence": 0.9,
        "reason": "as the rule says",
    }
    odd = flywheel("judge", "try", "--task", "t", "--answer", "odd", "--criterion", "safety").output
    assert odd.startswith("safety@1: abstention, unreadable: ")


def test_what_cannot_be_tried_is_said_in_one_sentence(flywheel: Invoke, configured: Path) -> None:
    result = flywheel("judge", "try", "--task", "t", "--answer", "a", "--criterion", "wit")
    assert (result.exit_code, "no criterion is named 'wit'" in result.output) == (1, True)
    (configured / "flywheel.toml").unlink()
    result = flywheel("judge", "try", "--task", "t", "--answer", "a")
    assert (result.exit_code, "no judge is configured" in result.output) == (1, True)


def test_judges_are_held_against_labels_and_a_second_run_asks_nothing(
    flywheel: Invoke, configured: Path, endpoint: JudgeEndpoint
) -> None:
    path = labelled(configured)
    found = json.loads(stdout(flywheel("judge", "evaluate", "--input", path, "--json")))
    relevance = found["agreement"]["relevance"]
    assert (relevance["rows"], relevance["scored"], relevance["abstentions"]) == (31, 30, {"unreadable": 1})
    assert relevance["accuracy"]["value"] == pytest.approx(27 / 30)
    assert relevance["accuracyBounds"] == [pytest.approx(27 / 31), pytest.approx(28 / 31)]
    asked = len(endpoint.bodies)
    text = stdout(flywheel("judge", "evaluate", "--input", path))
    assert len(endpoint.bodies) == asked + 2  # what it abstained from, and its second reply
    for line in ("accuracy", "Cohen's kappa", "Brier score", "expected calibration error", "AUC", "unreadable 1"):
        assert line in text


def test_a_curve_is_saved_and_then_used(flywheel: Invoke, configured: Path) -> None:
    path = labelled(configured, 120)
    evaluate = ("judge", "evaluate", "--input", path)
    result = flywheel(*evaluate, "--calibrate", "isotonic", "--save", str(configured / "curves.json"))
    assert "relevance, calibrated, on the same" in stdout(result)
    [curve] = json.loads((configured / "curves.json").read_text())
    assert (curve["judge"], curve["criterion"], curve["version"]) == ("one", "relevance", 1)
    with (configured / "flywheel.toml").open("a") as file:
        file.write('[judges]\ncalibration = ["curves.json"]\n')
    found = json.loads(stdout(flywheel("judge", "try", "--task", "t", "--answer", "good", "--json")))
    assert found[0]["finding"]["value"] == pytest.approx(curve["curve"]["shares"][-1])
    assert found[0]["opinions"][0]["finding"]["value"] == 0.95


def test_where_no_curve_could_be_fitted_no_file_is_written(flywheel: Invoke, configured: Path) -> None:
    target = configured / "curves.json"
    evaluate = ("judge", "evaluate", "--input", labelled(configured), "--calibrate", "platt", "--save", str(target))
    result = flywheel(*evaluate)
    assert "relevance: no curve" in result.output
    assert (result.exit_code, "no curve was fitted" in result.output) == (1, True)
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--save", "x.json"), "--save needs --calibrate"),
        (("--calibrate", "isotonic"), "say which with --judge"),
        (("--calibrate", "magic"), "isotonic"),
        (("--judge", "one", "--calibrate", "platt", "--save", "not/there/x.json"), "there is no folder not/there"),
    ],
)
def test_wrong_usage_is_refused_before_anybody_is_asked(
    flywheel: Invoke, configured: Path, endpoint: JudgeEndpoint, arguments: tuple[str, ...], told: str
) -> None:
    toml = configured / "flywheel.toml"
    toml.write_text(toml.read_text() + toml.read_text().replace('"one"', '"two"'))
    result = flywheel("judge", "evaluate", "--input", labelled(configured), *arguments)
    assert (result.exit_code, told in result.output) == (2, True)
    assert endpoint.bodies == []


def test_without_a_database_judges_are_asked_and_it_is_said_that_nothing_is_kept(
    configured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLYWHEEL_DATABASE_URL", raising=False)
    home = str(configured / "nowhere")
    result: Result = CliRunner().invoke(main, ["--home", home, "judge", "evaluate", "--input", labelled(configured)])
    assert result.exit_code == 0
    assert "opinions are not kept" in result.stderr
    assert "accuracy" in result.stdout


def stdout(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout
