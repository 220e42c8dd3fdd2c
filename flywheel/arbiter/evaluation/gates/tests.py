"""Tests that must pass, and must have run."""

from typing import Literal
from xml.etree import ElementTree

from pydantic import Field

from flywheel.arbiter.evaluation.gates.command import CommandGate, ending
from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Outcome
from flywheel.arbiter.evaluation.gates.reports import parsed_xml
from flywheel.sandbox.sandbox import Ran


class Tests(CommandGate):
    """Passed where the command ends with exit code 0; with a report, where it also says that tests ran and passed.

    The score is 1 where it is passed, and otherwise the share of tests passed by the report, below 1.
    """

    __test__ = False  # not one of pytest's

    gate: Literal["tests"]
    report: str | None = Field(None, description="path of the JUnit XML that the command writes, to count tests by")

    @property
    def reports(self) -> tuple[str, ...]:
        """The JUnit report."""
        return (self.report,) if self.report else ()

    def judge(self, candidate: Candidate, ran: Ran, evidence: Evidence) -> Outcome:
        """By exit code, and by the report where there is to be one."""
        if self.report is None:
            return super().judge(candidate, ran, evidence)
        content = ran.files.get(self.report)
        if content is None:
            reason = f"{ending(ran)}, and {self.report} was not written: which tests ran nobody can tell"
            return Outcome(score=0.0, reason=reason, evidence=evidence)
        root = parsed_xml(content)
        if root is None:
            return Outcome(score=0.0, reason=f"{ending(ran)}, and {self.report} is no XML", evidence=evidence)
        passed, count = _passed(root)
        score = passed / count if count else 0.0
        if not ran.succeeded and score == 1.0:
            score = 0.0  # whatever the report says
        reason = f"{ending(ran)}; {passed:,} of {count:,} tests passed" if count else f"{ending(ran)}; no test ran"
        return Outcome(score=score, reason=reason, evidence=evidence)


def _passed(root: ElementTree.Element) -> tuple[int, int]:
    """How many tests passed, and how many ran; skipped ones did not."""
    ran = [case for case in root.iter("testcase") if case.find("skipped") is None]
    failed = [case for case in ran if case.find("failure") is not None or case.find("error") is not None]
    return len(ran) - len(failed), len(ran)
