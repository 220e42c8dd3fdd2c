"""Gates of commands judge what ran, and say so where nothing did."""

import pytest

from flywheel.arbiter.evaluation.gates.command import OwnCommand, excerpt
from flywheel.arbiter.evaluation.gates.lint import Lint
from flywheel.arbiter.evaluation.gates.tests import Tests
from flywheel.sandbox.sandbox import Ran
from tests.arbiter.evaluation.gates.candidates import CannedCommands, candidate, ran

LINT = Lint(gate="lint", command=("ruff", "check"), timeout_s=7)


def test_exit_code_0_passes_and_evidence_says_what_ran() -> None:
    judged = candidate(came_to=ran(0, "All checks passed!\n"))
    outcome = LINT.check(judged)
    assert (outcome.score, outcome.error, outcome.reason) == (1.0, None, "exit code 0")
    seen = outcome.evidence
    assert (seen.command, seen.exit_code, seen.output, seen.seconds) == (
        ("ruff", "check"),
        0,
        "All checks passed!",
        0.123,
    )
    assert seen.confined == ("no network",)
    assert isinstance(judged.commands, CannedCommands)
    assert judged.commands.asked_for == [(("ruff", "check"), 7.0)]


@pytest.mark.parametrize(
    ("came_to", "reason"),
    [
        (ran(1, "E501"), "exit code 1"),
        (ran(-11), "exit code -11"),
        (ran(-9, ended="it ran longer than 7 s and was ended"), "it ran longer than 7 s and was ended"),
    ],
)
def test_any_other_end_fails(came_to: Ran, reason: str) -> None:
    outcome = LINT.check(candidate(came_to=came_to))
    assert (outcome.score, outcome.error, outcome.reason) == (0.0, None, reason)


@pytest.mark.parametrize(
    ("command", "came_to", "error"),
    [
        (("ruff",), ran(None, not_started="No such file or directory"), "ruff cannot be started: No such file"),
        (("sh", "-c", "ruff"), ran(127, "sh: 1: ruff: not found"), "a program is missing: sh: 1: ruff: not found"),
        (("sh", "-c", "ruff"), ran(127), "a program is missing: it says no more"),
        (("python", "-m", "ruff"), ran(1, "/usr/bin/python: No module named ruff\n"), "python has no module ruff"),
    ],
)
def test_a_tool_that_is_not_there_is_an_error_and_no_failure(
    command: tuple[str, ...], came_to: Ran, error: str
) -> None:
    outcome = Lint(gate="lint", command=command).check(candidate(came_to=came_to))
    assert outcome.score == 0.0
    assert error in (outcome.error or "")


def test_a_module_that_the_code_under_test_lacks_is_a_failure() -> None:
    came_to = ran(1, "E   ModuleNotFoundError: No module named 'requests'")
    assert Lint(gate="lint", command=("python", "-m", "pytest")).check(candidate(came_to=came_to)).error is None


def test_a_command_of_ones_own_is_known_by_its_name() -> None:
    gate = OwnCommand(gate="command", name="licenses", command=("licenses",))
    assert (gate.kind, gate.title) == ("command", "licenses")


def test_of_a_long_output_the_beginning_and_the_end_are_kept() -> None:
    lines = excerpt("\n".join(f"line {number}" for number in range(1_000))).splitlines()
    assert (lines[0], lines[15], lines[-1]) == ("line 0", "… 940 lines …", "line 999")
    assert len(excerpt("x" * 10_000)) == 400
    assert excerpt("\x1b[31mred\x1b[0m\n") == "red"


REPORT = b"""<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>
<testcase name="d"/><testcase name="e"><error/></testcase>
</testsuite></testsuites>"""
REPORTED = Tests(gate="tests", command=("pytest",), report="junit.xml")


@pytest.mark.parametrize(
    ("came_to", "score", "reason"),
    [
        (ran(1, files={"junit.xml": REPORT}), 0.5, "exit code 1; 2 of 4 tests passed"),
        (ran(0, files={"junit.xml": REPORT}), 0.5, "exit code 0; 2 of 4 tests passed"),
        (ran(0, files={"junit.xml": b"<testsuite><testcase/></testsuite>"}), 1.0, "exit code 0; 1 of 1 tests passed"),
        (ran(1, files={"junit.xml": b"<testsuite><testcase/></testsuite>"}), 0.0, "exit code 1; 1 of 1 tests passed"),
        (ran(0, files={"junit.xml": b"<testsuite/>"}), 0.0, "exit code 0; no test ran"),
        (ran(0, files={"junit.xml": b"passed"}), 0.0, "exit code 0, and junit.xml is no XML"),
        (ran(0, files={"junit.xml": b"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"}), 0.0, "junit.xml is no XML"),
        (ran(0), 0.0, "junit.xml was not written"),
    ],
)
def test_tests_are_counted_by_their_report_and_pass_only_with_a_good_end(
    came_to: Ran, score: float, reason: str
) -> None:
    outcome = REPORTED.check(candidate(came_to=came_to))
    assert (outcome.score, outcome.error) == (score, None)
    assert reason in outcome.reason
