"""``flywheel evaluate`` and ``flywheel spec`` say what a linter says: what is wrong, where, and an exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.cli import main
from flywheel.pool.pool import BenchmarkPool
from flywheel.sandbox import sandbox
from flywheel.settings import Settings
from tests.arbiter.evaluation.projects import BEFORE, FIXED, PATCH, written
from tests.cli.conftest import Invoke

SPEC = """
id: calc
version: '1'
risk_tier: 3
budget: {files: 1, lines: 4}
gates:
  - {gate: tests, command: "grep -q 'a + b' src/calc.py"}
  - {gate: command, name: absent, command: no-such-program, mandatory: false}
waivers:
  - {id: w-1, gate: tests, reason: none, expires: 2020-01-01}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "before", BEFORE)
    written(tmp_path / "after", {**BEFORE, "src/calc.py": FIXED})
    return written(tmp_path, {"spec.yaml": SPEC, "fix.diff": PATCH})


def called(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def evaluated(folder: Path, *words: object) -> Result:
    return called("evaluate", "--spec", folder / "spec.yaml", "--before", folder / "before", *words)


def test_a_change_that_passes_is_shown_gate_by_gate(folder: Path) -> None:
    result = evaluated(folder, "--after", folder / "after")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in reversed(result.output.splitlines()) if line}
    assert "1 files of 1, 2 changed lines of 4" in rows["budget"]
    assert "passed" in rows["tests"]
    assert "error" in rows["absent"]
    assert "w-1: tests, by nobody until 2020-01-01, it has no owner" in result.output
    assert "confined by" in result.output
    assert result.output.splitlines()[-1] == "passed"


def test_a_patch_that_does_not_pass_ends_with_exit_code_1_and_its_evidence(folder: Path) -> None:
    (folder / "fix.diff").write_text(PATCH.replace("a + b", "a * b"))
    result = evaluated(folder, "--patch", folder / "fix.diff")
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "$ grep -q a + b src/calc.py" in result.output
    assert result.output.splitlines()[-1].startswith("not passed: tests: exit code 1")


def test_the_configured_rubric_says_what_the_gate_of_reward_hacking_refuses(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "spec.yaml").write_text(SPEC.replace("gates:", "gates:\n  - {gate: reward_hacking}"))
    (folder / "fix.diff").write_text(PATCH.replace("+    return a + b", "+    return a + b  # noqa: E501"))
    team = BUILTIN.model_copy(update={"id": "team", "findings": {"silenced_check": "void"}})
    (folder / "team.yaml").write_text(json.dumps(team.model_dump(mode="json")))
    monkeypatch.chdir(folder)
    assert evaluated(folder, "--patch", folder / "fix.diff").exit_code == 0
    (folder / "flywheel.toml").write_text('[rubrics]\nfiles = ["team.yaml"]\nuse = "team"\n')
    result = evaluated(folder, "--patch", folder / "fix.diff")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("not passed: reward_hacking: 1 findings")


def test_the_json_has_gates_evidence_waivers_and_the_verdict(folder: Path) -> None:
    origin = ("--agent", "a", "--task", "t", "--commit", "c")
    result = evaluated(folder, "--patch", folder / "fix.diff", *origin, "--json")
    document = json.loads(result.output)
    assert (result.exit_code, document["passed"]) == (0, True)
    gates = {gate["name"]: gate for gate in document["gates"]}
    assert gates["tests"]["evidence"]["exit_code"] == 0
    assert gates["absent"]["status"] == "error"
    assert document["waivers"]["ignored"][0]["why"] == "it has no owner"
    assert document["verdict"]["specId"] == "calc@1"
    assert document["verdict"]["scores"]["provenanceClarity"] == 1.0


def test_a_signed_verdict_is_in_the_audit_trail_and_verifies(
    folder: Path, flywheel: Invoke, home: Path, database_url: str
) -> None:
    with BenchmarkPool.open(Settings.load(profile="smoke", home=home, database_url=database_url)):
        pass  # its tables
    words = ("evaluate", "--spec", folder / "spec.yaml", "--before", folder / "before", "--after", folder / "after")
    origin = ("--agent", "coder", "--task", "t-17")
    result = flywheel(*map(str, words), "--sign", *origin, "--json")
    assert result.exit_code == 0, result.output
    verdict = json.loads(result.output)["verdict"]
    assert verdict["specId"] == "calc@1"
    assert verdict["arbiterSignature"].startswith("ed25519:")
    assert flywheel("audit", "verify").exit_code == 0
    assert verdict["verdictId"] in flywheel("audit", "list", "--task", "t-17", "--json").output


def test_what_cannot_be_signed_is_refused_before_a_gate_runs(folder: Path, tmp_path: Path) -> None:
    options = ("--after", folder / "after", "--sign", "--agent", "coder", "--task", "t-17")
    words = [
        str(word) for word in ("evaluate", "--spec", folder / "spec.yaml", "--before", folder / "before", *options)
    ]
    home = {"FLYWHEEL_HOME": str(tmp_path / "home"), "FLYWHEEL_DATABASE_URL": ""}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sandbox, "run", lambda *_, **__: pytest.fail("a gate ran"))
        result = CliRunner(env=home).invoke(main, words)
    assert result.exit_code == 1
    assert "no services are running" in result.output


def test_a_signature_needs_to_know_for_whom(folder: Path) -> None:
    assert evaluated(folder, "--after", folder / "after", "--sign", "--agent", "coder").exit_code == 2


def test_one_of_folder_and_patch_must_be_named(folder: Path) -> None:
    assert evaluated(folder).exit_code == 2
    assert evaluated(folder, "--after", folder / "after", "--patch", folder / "fix.diff").exit_code == 2


def test_a_patch_that_does_not_fit_and_a_spec_that_cannot_be_used_are_errors_in_one_sentence(folder: Path) -> None:
    (folder / "fix.diff").write_bytes(b"\xff")
    result = evaluated(folder, "--patch", folder / "fix.diff")
    assert result.exit_code == 1
    assert "no text in UTF-8" in result.output
    (folder / "spec.yaml").write_text(SPEC.replace("risk_tier: 3", "risk_tier: 7"))
    result = evaluated(folder, "--after", folder / "after")
    assert result.exit_code == 1
    assert "spec.yaml:4: risk_tier: input should be 1, 2 or 3, not 7" in result.output


def test_specs_are_checked_each_and_a_wrong_one_gives_exit_code_1(folder: Path) -> None:
    wrong = folder / "wrong.yaml"
    wrong.write_text("id: X\n")
    right = called("spec", "check", folder / "spec.yaml")
    assert right.exit_code == 0
    assert "calc@1, risk tier 3, 5 gates" in right.output
    assert "the waiver w-1 does not waive tests: it has no owner" in right.output
    both = called("spec", "check", folder / "spec.yaml", wrong, folder / "none.yaml")
    assert both.exit_code == 1
    assert f"{wrong}:1: version: it is missing; add it" in both.output
    assert "none.yaml cannot be read" in both.output


def test_the_schema_is_printed() -> None:
    schema = json.loads(called("spec", "schema").output)
    assert set(schema["required"]) == {"id", "version", "risk_tier", "budget", "gates"}
