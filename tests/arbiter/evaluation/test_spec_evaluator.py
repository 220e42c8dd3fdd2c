"""A change is held to its spec by gates that really run, and the verdict says what it rests upon."""

import posixpath
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.folders import change_of_folders
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.arbiter.evaluation.spec_evaluator import GateResult, Origin, SpecEvaluation, evaluate_under_spec
from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec
from flywheel.errors import InputError, SandboxError
from flywheel.sandbox import sandbox
from tests.arbiter.evaluation.projects import BEFORE, FIXED, PATCH, spec_of, suite_gate, written

AT = datetime(2026, 11, 22, tzinfo=UTC)
NEVER = {"gate": "command", "name": "never", "command": ["no-such-program"]}
TRUE = {"gate": "tests", "command": ["true"]}
FALSE = {"gate": "tests", "command": ["false"]}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return written(tmp_path / "before", BEFORE)


def judged(spec: WorkingSpec, before: Path, patch: str = PATCH, **options: Any) -> SpecEvaluation:
    change = change_of_patch(patch, folder=before) if patch else Change(files=())
    return evaluate_under_spec(spec, change, before=before, at=AT, **options)


def gate(found: SpecEvaluation, name: str) -> GateResult:
    return next(result for result in found.results if result.name == name)


def test_tests_lint_and_types_run_on_the_change_and_leave_the_workspace_as_it_was(before: Path, tmp_path: Path) -> None:
    spec = spec_of(
        suite_gate(report="junit.xml", command=[*suite_gate()["command"], "--junitxml=junit.xml"]),
        {"gate": "lint", "command": "ruff check --no-cache --isolated ."},
        {"gate": "types", "command": "mypy --strict --no-incremental src"},
        {"gate": "minimal_diff"},
    )
    after = written(tmp_path / "after", {**BEFORE, "src/calc.py": FIXED})
    found = evaluate_under_spec(spec, change_of_folders(before, after), before=before, after=after, at=AT)
    assert found.reason == "passed"
    assert found.passed_all_mandatory
    assert gate(found, "tests").outcome.reason == "exit code 0; 1 of 1 tests passed"
    assert set(found.verdict.gates_passed) == {"scope", "budget", "safety", "minimal_diff", "tests", "lint", "types"}
    assert "no network" in gate(found, "lint").outcome.evidence.confined
    assert change_of_folders(before, written(tmp_path / "untouched", BEFORE)).files == ()


def test_failing_tests_a_finding_of_lint_and_a_wrong_type_fail_with_what_they_said(before: Path) -> None:
    wrong = PATCH.replace("+    return a + b", "+    import os\n+    return str(a)").replace("1,2 +1,2", "1,2 +1,3")
    spec = spec_of(
        suite_gate(),
        {"gate": "lint", "command": "ruff check --no-cache --isolated ."},
        {"gate": "types", "command": "mypy --strict --no-incremental src"},
    )
    found = judged(spec, before, wrong)
    assert [result.name for result in found.refusing] == ["tests", "lint", "types"]
    said = {result.name: result.outcome.evidence.output for result in found.refusing}
    assert "assert add(1, 2) == 3" in said["tests"]
    assert "F401" in said["lint"]
    assert "Incompatible return value type" in said["types"]
    assert "tests: exit code 1 (0 of at least 1)" in found.reason


def test_coverage_is_measured_by_the_same_run_as_the_tests(before: Path) -> None:
    script = f"{sys.executable} -m coverage run --source=src -m pytest -q && {sys.executable} -m coverage xml -q"
    command = ["sh", "-c", script]
    spec = spec_of({"gate": "tests", "command": command}, {"gate": "coverage", "command": command, "threshold": 0.9})
    found = judged(spec, before)
    assert gate(found, "coverage").outcome.reason == "1 of 1 changed lines were run"
    assert gate(found, "coverage").outcome.evidence.seconds == gate(found, "tests").outcome.evidence.seconds
    unused = (
        PATCH.replace("@@ -1,2 +1,2 @@", "@@ -1,2 +1,5 @@") + "+\n+def sub(a: int, b: int) -> int:\n+    return a\n"
    )
    found = judged(spec, before, unused.replace("1,5", "1,5"))
    assert gate(found, "coverage").outcome.reason == "2 of 3 changed lines were run"
    assert gate(found, "coverage").status == "failed"


def test_a_gate_that_cannot_run_is_an_error_and_a_mandatory_one_refuses(before: Path) -> None:
    found = judged(spec_of(TRUE, NEVER), before)
    assert (gate(found, "never").status, found.passed_all_mandatory) == ("error", False)
    assert "never: it could not be run: no-such-program cannot be started" in found.reason
    assert found.scores.evidence_completeness == 4 / 5
    optional = judged(spec_of(TRUE, {**NEVER, "mandatory": False}), before)
    assert (gate(optional, "never").status, optional.passed_all_mandatory) == ("error", True)


def test_without_a_sandbox_nothing_runs_and_the_verdict_says_so(before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SandboxError("nothing here can confine a command")

    monkeypatch.setattr(sandbox, "run", refuse)
    found = judged(spec_of(TRUE), before)
    assert not found.passed_all_mandatory
    assert found.reason == "tests: it could not be run: nothing here can confine a command"


def waiver(**fields: object) -> dict[str, object]:
    return {"id": "w-1", "gate": "tests", "owner": "ann", "reason": "no", "expires": date(2026, 11, 22), **fields}


def test_a_waiver_lets_a_failed_gate_through_and_is_reported(before: Path) -> None:
    found = judged(spec_of(FALSE, waivers=[waiver()]), before)
    assert found.passed_all_mandatory
    assert found.reason == "passed, waived: tests by w-1"
    assert found.verdict.waivers_used == ("w-1",)
    assert "tests" not in found.verdict.gates_passed
    assert gate(found, "tests").status == "waived"
    assert found.scores.gate_integrity == 3 / 4
    logged = gate(found, "tests").quality_gate
    assert (logged.passed, logged.mandatory) == (False, False)


def test_a_waiver_that_is_not_needed_is_not_used(before: Path) -> None:
    found = judged(spec_of(TRUE, waivers=[waiver()]), before)
    assert (found.verdict.waivers_used, found.ignored_waivers) == ((), ())


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"expires": date(2026, 11, 21)}, "it expired on 2026-11-21"), ({"owner": " "}, "it has no owner")],
)
def test_an_expired_or_ownerless_waiver_does_not_waive(before: Path, fields: dict[str, object], why: str) -> None:
    found = judged(spec_of(FALSE, waivers=[waiver(**fields)]), before)
    assert not found.passed_all_mandatory
    assert [(one.waiver.id, one.reason) for one in found.ignored_waivers] == [("w-1", why)]


def test_of_two_waivers_the_one_that_holds_is_used(before: Path) -> None:
    waivers = [waiver(expires=date(2020, 1, 1)), waiver(id="w-2")]
    found = judged(spec_of(FALSE, waivers=waivers), before)
    assert found.verdict.waivers_used == ("w-2",)


def test_an_error_of_a_gate_can_be_waived_and_stays_an_error_of_the_evidence(before: Path) -> None:
    found = judged(spec_of(TRUE, NEVER, waivers=[waiver(gate="never")]), before)
    assert (found.passed_all_mandatory, gate(found, "never").status) == (True, "waived")
    assert found.scores.evidence_completeness < 1.0


def test_a_change_over_its_budget_is_refused_and_its_adherence_is_the_share(before: Path) -> None:
    found = judged(spec_of(TRUE, budget={"files": 3, "lines": 1}), before)
    assert (found.passed_all_mandatory, found.budget_compliant) == (False, False)
    usage = found.verdict.budget_usage
    assert (usage.files_used, usage.loc_used, usage.loc_limit) == (1, 2, 1)
    assert found.scores.budget_adherence == 0.5
    waived = judged(spec_of(TRUE, budget={"files": 3, "lines": 1}, waivers=[waiver(gate="budget")]), before)
    assert (waived.caws_compliant, waived.budget_compliant) == (True, False)


def test_provenance_is_the_share_of_what_is_said(before: Path) -> None:
    assert judged(spec_of(TRUE), before).scores.provenance_clarity == 1 / 4
    origin = Origin(agent_id="a", task_id="t", commit="c0ffee")
    assert judged(spec_of(TRUE), before, origin=origin).scores.provenance_clarity == 1.0


def test_the_verdict_names_the_spec_by_its_digest_and_can_be_written(before: Path) -> None:
    spec = spec_of(TRUE)
    verdict = judged(spec, before).verdict
    assert (verdict.spec_id, verdict.spec_digest) == ("calc@1", spec.digest)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=type(verdict)) == verdict
    assert verdict.scores.gate_integrity == 1.0


def test_only_the_change_counts_not_what_else_lies_in_the_folder_after(before: Path, tmp_path: Path) -> None:
    written(before, {"node_modules/tool.sh": "exit 1\n"})
    after = written(tmp_path / "after", {**BEFORE, "src/calc.py": FIXED, "node_modules/tool.sh": "exit 0\n"})
    spec = spec_of({"gate": "tests", "command": ["sh", "node_modules/tool.sh"]})
    found = evaluate_under_spec(spec, change_of_folders(before, after), before=before, after=after, at=AT)
    assert gate(found, "tests").status == "failed"


def test_histories_are_not_copied_and_binary_files_links_and_moves_are(before: Path, tmp_path: Path) -> None:
    written(before, {".git/HEAD": "x", "old.txt": "one\ntwo\nthree\n", "was/file.txt": "x"})
    after = written(tmp_path / "after", {**BEFORE, "new.txt": "one\ntwo\nthree\n", "was": "now a file"})
    (after / "data.bin").write_bytes(b"\0\xff\xfe")
    (after / "link").symlink_to("new.txt")
    script = "test ! -e .git -a ! -e old.txt -a -f was -a $(wc -c < data.bin) = 3 -a $(readlink link) = new.txt"
    spec = spec_of({"gate": "tests", "command": ["sh", "-c", script]}, budget={"files": 9, "lines": 99})
    found = evaluate_under_spec(spec, change_of_folders(before, after), before=before, after=after, at=AT)
    assert gate(found, "tests").status == "passed"


def test_a_patch_that_would_change_bytes_it_does_not_show_is_refused(before: Path) -> None:
    (before / "latin.txt").write_bytes(b"caf\xe9\nb\n")
    patch = "--- a/latin.txt\n+++ b/latin.txt\n@@ -2 +2 @@\n-b\n+c\n"
    with pytest.raises(InputError, match="not in UTF-8"):
        judged(spec_of(TRUE), before, patch)


def test_a_change_of_nothing_is_judged_too(before: Path) -> None:
    found = judged(spec_of(TRUE), before, "")
    assert (found.passed_all_mandatory, found.verdict.budget_usage.files_used) == (True, 0)


@pytest.mark.parametrize("report", ["junit.xml", "./out/junit.xml"])
def test_a_report_that_lay_there_before_says_nothing_of_the_command(before: Path, report: str) -> None:
    """Of an earlier run, or put there by the change."""
    planted = "<testsuite><testcase name='a'/></testsuite>"
    written(before, {report: planted})
    found = judged(spec_of({**TRUE, "report": report}), before, "")
    assert not found.passed_all_mandatory
    assert "was not written: which tests ran nobody can tell" in found.reason
    change = Change(files=(FileChange(path=posixpath.normpath(report), before=planted, after=planted + "\n"),))
    spec = spec_of({**TRUE, "report": report})
    assert not evaluate_under_spec(spec, change, before=before, at=AT).passed_all_mandatory
