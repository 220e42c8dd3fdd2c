"""Coverage is of the changed lines, and nobody gains by leaving a file out of the measure."""

from typing import Literal

import pytest

from flywheel.arbiter.evaluation.gates.coverage import Coverage, lines_of, read_report
from flywheel.sandbox.sandbox import Ran
from tests.arbiter.evaluation.gates.candidates import candidate, changed, ran

XML = b"""<?xml version="1.0" ?><coverage><sources><source>/tmp/sandbox/workspace/src</source></sources>
<packages><package><classes><class filename="a.py"><lines>
<line number="1" hits="1"/><line number="2" hits="0"/><line number="3" hits="2"/><line number="5" hits="0"/>
</lines></class></classes></package></packages></coverage>"""
JSON = b'{"files": {"src/a.py": {"executed_lines": [1, 3], "missing_lines": [2, 5]}}}'
GATE = Coverage(gate="coverage", command=("pytest",))
CHANGED = changed("src/a.py", "one\ntwo\nthree\nfour\nfive\n", "one\n2\n3\n4\nfive\n")


def covering(content: bytes) -> Ran:
    return ran(0, files={"coverage.xml": content})


@pytest.mark.parametrize("content", [XML, JSON])
def test_of_the_changed_lines_those_that_can_be_run_count(content: bytes) -> None:
    outcome = GATE.check(candidate(CHANGED, came_to=covering(content)))
    assert (outcome.score, outcome.reason) == (0.5, "1 of 2 changed lines were run")
    assert outcome.evidence.findings == ("src/a.py: never run: 2",)
    assert outcome.evidence.command == ("pytest",)


def test_of_all_lines_it_is_the_whole_report() -> None:
    gate = Coverage(gate="coverage", command=("pytest",), of="all")
    outcome = gate.check(candidate(CHANGED, came_to=covering(XML)))
    assert (outcome.score, outcome.reason) == (0.5, "2 of 4 lines were run")


def test_a_new_file_that_is_not_in_the_report_counts_as_never_run() -> None:
    new = changed("src/new.py", None, "import os\n\nprint(os)\n")
    outcome = GATE.check(candidate(CHANGED, new, came_to=covering(XML)))
    assert (outcome.score, outcome.reason) == (0.25, "1 of 4 changed lines were run")
    assert "src/new.py: not in the report" in outcome.evidence.findings[1]


def test_files_of_other_kinds_and_tests_need_no_coverage() -> None:
    others = (changed("README.md", "a\n", "b\n"), changed("tests/test_a.py", "a\n", "b\n"))
    outcome = GATE.check(candidate(*others, came_to=covering(XML)))
    assert (outcome.score, outcome.reason) == (1.0, "none of the changed lines that count can be run")


@pytest.mark.parametrize("content", [b"", b"{", b'{"files": 3}', b"<html/>", b"<coverage", b"<!ENTITY a><coverage/>"])
def test_a_report_that_is_none_is_an_error_of_the_gate(content: bytes) -> None:
    outcome = GATE.check(candidate(CHANGED, came_to=covering(content)))
    assert outcome.error is not None
    assert "coverage.xml" in outcome.error


def test_no_report_is_an_error_and_failing_tests_a_failure() -> None:
    assert GATE.check(candidate(CHANGED, came_to=ran(0))).error == "the command wrote no coverage.xml"
    failed = GATE.check(candidate(CHANGED, came_to=ran(1, files={"coverage.xml": XML})))
    assert (failed.score, failed.error) == (0.0, None)


@pytest.mark.parametrize("of", ["changed", "all"])
def test_a_report_without_lines_measured_nothing_and_does_not_pass(of: Literal["changed", "all"]) -> None:
    gate = Coverage(gate="coverage", command=("pytest",), of=of)
    outcome = gate.check(candidate(CHANGED, came_to=covering(b"<coverage/>")))
    assert (outcome.score, outcome.error) == (0.0, None)


def test_files_are_found_by_their_path_from_the_root_or_from_a_folder_of_sources() -> None:
    hits = {"/tmp/sandbox/workspace/src/a.py": {1: True}, "b/a.py": {2: True}, "c.py": {3: True}}
    assert lines_of("src/a.py", hits) == {1: True}
    assert lines_of("b/a.py", hits) == {2: True}
    assert lines_of("lib/c.py", hits) == {3: True}
    assert lines_of("d.py", hits) is None


def test_lines_that_stand_in_two_classes_are_run_where_one_of_them_is() -> None:
    twice = XML.replace(b"</classes>", b'<class filename="a.py"><line number="2" hits="1"/></class></classes>')
    hits = read_report(twice)
    assert hits is not None
    assert hits["/tmp/sandbox/workspace/src/a.py"] == {1: True, 2: True, 3: True, 5: False}
