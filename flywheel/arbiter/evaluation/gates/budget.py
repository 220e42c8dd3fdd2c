"""A change may touch so many files and lines."""

from typing import Literal

from pydantic import Field

from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome
from flywheel.arbiter.evaluation.spec_verdict import BudgetUsage
from flywheel.settings_section import Section

MOST = 2**31


class Limits(Section):
    """How much a change may touch."""

    files: int = Field(ge=0, le=MOST, strict=True, description="files touched; a renamed one counts once")
    lines: int = Field(ge=0, le=MOST, strict=True, description="lines added and removed; a replaced one counts twice")


class Budget(Gate):
    """Passed within both limits. The score is the smaller of limit / used, at most 1."""

    gate: Literal["budget"] = "budget"
    limits: Limits

    def check(self, candidate: Candidate) -> Outcome:
        """Count."""
        used = self.usage(candidate)
        words = (
            f"{used.files_used:,} files of {used.files_limit:,}",
            f"{used.loc_used:,} changed lines of {used.loc_limit:,}",
        )
        most = sorted(candidate.lines, key=lambda lines: -lines.count)[:10]
        findings = tuple(f"{lines.path}: +{len(lines.added):,} −{len(lines.removed):,}" for lines in most)
        return Outcome(score=adherence(used), reason=", ".join(words), evidence=Evidence(findings=findings))

    def usage(self, candidate: Candidate) -> BudgetUsage:
        """What the change uses."""
        files, lines = len(candidate.change.files), sum(lines.count for lines in candidate.lines)
        return BudgetUsage(
            files_used=files,
            files_limit=self.limits.files,
            loc_used=lines,
            loc_limit=self.limits.lines,
            budget_compliant=files <= self.limits.files and lines <= self.limits.lines,
        )


def adherence(usage: BudgetUsage) -> float:
    """The smaller of limit / used, for files and for lines, at most 1."""
    shares = ((usage.files_limit, usage.files_used), (usage.loc_limit, usage.loc_used))
    return min(1.0, *(limit / used if used else 1.0 for limit, used in shares))
