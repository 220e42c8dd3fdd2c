"""Rubrics from the command line, over files and over the pool."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN_FILE
from flywheel.pool.access.audit import list_audit
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.cli.conftest import Invoke
from tests.pool.filling import fill
from tests.pool.logs import evaluation, task_logs

PERFECT = dict.fromkeys(("format", "tool", "task", "minimal", "cost", "safety"), 1.0)
TEAM = BUILTIN_FILE.read_text(encoding="utf-8").replace("id: builtin", "id: team")


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def logs(count: int = 6) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number in range(count):
        scores = PERFECT | {"task": 1.0 if number % 2 else 0.25, "tool": 0.5 + number / 20}
        fields: dict[str, Any] = {"rubricScores": scores, "overallScore": 0.9, "rubric": "builtin@1"}
        task = task_logs(f"t{number}", source=f"bench:{number // 3}")
        made += [*task[:2], evaluation(f"t{number}", **fields)]
    return made


def written(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_the_builtin_rubric_scores_unless_another_is_configured(flywheel: Invoke, in_folder: Path) -> None:
    assert json.loads(flywheel("rubric", "list", "--json").output)[0]["scores"] is True
    (in_folder / "team.yaml").write_text(TEAM.replace("version: 1", "version: 3"), encoding="utf-8")
    (in_folder / "flywheel.toml").write_text('[rubrics]\nfiles = ["team.yaml"]\nuse = "team"\n', encoding="utf-8")
    rows = json.loads(flywheel("rubric", "list", "--json").output)
    assert {row["rubric"]: row["scores"] for row in rows} == {"builtin@1": False, "team@3": True}
    assert flywheel("rubric", "show").output.startswith("team@3")
    assert json.loads(flywheel("rubric", "show", "builtin", "--json").output)["version"] == 1
    (in_folder / "flywheel.toml").write_text('[rubrics]\nuse = "team"\n', encoding="utf-8")
    refused = flywheel("rubric", "show")
    assert (refused.exit_code, "there is no rubric 'team'" in refused.stderr) == (1, True)


def test_show_says_what_every_function_and_finding_is(flywheel: Invoke) -> None:
    shown = flywheel("rubric", "show").output
    for expected in ("code-editing", "work_done", "deleted_test", "voids", "lowers tool × 0.5"):
        assert expected in shown


def test_check_names_file_and_field_and_contradictions(flywheel: Invoke, in_folder: Path) -> None:
    good, bad, other = (in_folder / name for name in ("good.yaml", "bad.yaml", "other.yaml"))
    good.write_text(TEAM, encoding="utf-8")
    bad.write_text(TEAM.replace("task: 0.30", "task: 0.31"), encoding="utf-8")
    other.write_text(TEAM.replace("safety_threshold: 0.8", "safety_threshold: 0.7"), encoding="utf-8")
    assert flywheel("rubric", "check", str(good)).output == f"{good}: team@1 can be used\n"
    copy = in_folder / "copy.yaml"
    copy.write_text(TEAM, encoding="utf-8")
    both = flywheel("rubric", "check", str(good), str(copy)).output
    assert both == f"{good}: team@1 can be used\n{copy}: team@1 can be used\n"
    for files, problem in (
        ((bad,), "rows.1.weights: the weights sum to 1.01"),
        ((good, other), "differ in safety_thr"),
    ):
        found = flywheel("rubric", "check", *map(str, files))
        assert found.exit_code == 1
        assert problem in found.stderr
        assert str(files[-1]) in found.stderr
    missing = flywheel("rubric", "check", str(in_folder / "none.yaml"))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (1, True)


def test_ablate_reads_logs_of_a_file(flywheel: Invoke, in_folder: Path) -> None:
    path = written(in_folder / "logs.jsonl", logs())
    found = json.loads(flywheel("rubric", "ablate", "--input", path, "--threshold", "0.75", "--json").output)
    (one,) = found["taskTypes"]
    assert (found["rubric"], one["taskType"], one["answers"], one["groups"]) == ("builtin@1", "tool-calling", 6, 2)
    by_term = {effect["term"]: effect for effect in one["terms"]}
    assert by_term["task"]["decisionsChanged"] == 3
    assert by_term["task"]["orderingsReversed"] > 0
    assert by_term["minimal"]["meanRewardChange"] == 0
    packed = in_folder / "logs.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    assert json.loads(flywheel("rubric", "ablate", "--input", str(packed), "--json").output)["taskTypes"]
    table = flywheel("rubric", "ablate", "--input", path).output
    assert table.startswith("tool-calling: 6 answers, 2 groups (0 silent)")
    assert "6 answers were not scored by builtin@1 as it is now" in table


def test_ablate_takes_evaluations_alone_with_their_task_type(flywheel: Invoke, in_folder: Path) -> None:
    path = written(in_folder / "evaluations.jsonl", [log for log in logs() if log["log"] == "evaluation"])
    refused = flywheel("rubric", "ablate", "--input", path)
    assert (refused.exit_code, "evaluations.jsonl, line 1: the task type of t0 is not known" in refused.stderr) == (
        1,
        True,
    )
    found = flywheel("rubric", "ablate", "--input", path, "--task-type", "research", "--json").output
    assert json.loads(found)["taskTypes"][0]["taskType"] == "research"


@pytest.mark.parametrize("line", ["{", "[]", '{"log": "poem"}', '{"id": "p1"}'])
def test_a_line_that_is_neither_point_nor_log_is_named(flywheel: Invoke, in_folder: Path, line: str) -> None:
    path = in_folder / "lines.jsonl"
    path.write_text(f"\n{line}\n", encoding="utf-8")
    found = flywheel("rubric", "ablate", "--input", str(path))
    assert found.exit_code == 1
    assert "lines.jsonl, line 2: it is neither a data point nor a log" in found.stderr


def test_nothing_to_ablate_and_filters_of_a_file_are_said(flywheel: Invoke, in_folder: Path) -> None:
    path = written(in_folder / "none.jsonl", [])
    assert "there is no scored answer in" in flywheel("rubric", "ablate", "--input", path).stderr
    wrong = flywheel("rubric", "ablate", "--input", path, "--failure")
    assert (wrong.exit_code, "a file is read whole" in wrong.stderr) == (2, True)


def figures(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (effect["term"], effect["orderings"], effect["silentGroups"], round(effect["meanRewardChange"], 9))
        for one in found["taskTypes"]
        for effect in one["terms"]
    ]


@pytest.fixture
def opened(home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    settings = Settings.load(profile="smoke", home=home, database_url=database_url)
    with BenchmarkPool.open(settings) as pool:
        yield pool


def test_the_rubric_of_a_point_survives_every_stage_and_is_ablated_from_the_pool(
    flywheel: Invoke, opened: BenchmarkPool
) -> None:
    old = task_logs("without")
    fill(opened, "some", [*logs(), *old])
    points = {point.task.id: point.evaluation.rubric for point in opened.get_points()}
    assert {points[f"t{number}"] for number in range(6)} == {"builtin@1"}
    lines = flywheel("pool", "points", "--format", "jsonl").stdout
    assert lines.count('"rubric":"builtin@1"') == 6
    assert len(points) == 7
    assert points["without"] is msgspec.UNSET
    found = json.loads(flywheel("rubric", "ablate", "--json").output)
    assert found["taskTypes"][0]["answers"] == 7
    piped = flywheel("rubric", "ablate", "--input", "-", "--json", stdin=lines).output
    assert figures(json.loads(piped)) == figures(found)
    assert list_audit(opened)[0].action == "points.read"
