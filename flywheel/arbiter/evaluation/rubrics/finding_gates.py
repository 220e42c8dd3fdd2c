"""Findings of reward hacking as gates of an evaluation."""

from collections.abc import Sequence

from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.records import QualityGate


def finding_gates(findings: Sequence[Finding], rubric: Rubric) -> tuple[QualityGate, ...]:
    """A gate that was not passed for each kind of finding; mandatory where it voids the reward."""
    by_name = {gate_name(finding): rubric.effect_of(finding.name) for finding in findings}
    return tuple(
        QualityGate(name=name, passed=False, score=0.0, threshold=1.0, mandatory=effect == "void")
        for name, effect in by_name.items()
    )


def gate_name(finding: Finding) -> str:
    """What the gate of a finding's kind is called."""
    return f"no_{finding.name}"
