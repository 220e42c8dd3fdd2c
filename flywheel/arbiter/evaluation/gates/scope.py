"""Only files that the spec allows may be touched."""

from typing import Literal

from pydantic import Field

from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome
from flywheel.arbiter.evaluation.gates.patterns import Patterns, matching
from flywheel.settings_section import Section


class Allowed(Section):
    """Which paths a change may touch. What is forbidden is so also where it is allowed."""

    allowed: Patterns = Field(("*",), min_length=1)
    forbidden: Patterns = ()


class Scope(Gate):
    """Passed where all files lie in the scope, the old paths of renamed ones too. The score is the share that does."""

    gate: Literal["scope"] = "scope"
    paths: Allowed

    def check(self, candidate: Candidate) -> Outcome:
        """Look at the paths."""
        touched = sorted({path for file in candidate.change.files for path in (file.old_path, file.path) if path})
        findings = tuple(finding for path in touched if (finding := self._finding(path)) is not None)
        score = 1 - len(findings) / len(touched) if touched else 1.0
        reason = f"{len(findings)} of {len(touched)} touched paths are out of scope" if findings else "all in scope"
        return Outcome(score=score, reason=reason, evidence=Evidence(findings=findings))

    def _finding(self, path: str) -> str | None:
        if matching(self.paths.forbidden, path):
            return f"{path}: forbidden"
        return None if matching(self.paths.allowed, path) else f"{path}: not among the allowed"
