"""A change must be small: the multiplier of SPEC section 8 must reach a threshold."""

from typing import Literal

from pydantic import Field

from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome


class SmallChange(Gate):
    """Passed where the change's multiplier, 0.1–1, reaches the threshold. The multiplier is the score."""

    gate: Literal["minimal_diff"]
    threshold: float | None = Field(
        None, ge=0.1, le=1, allow_inf_nan=False, description="of the multiplier; by default the risk tier's"
    )

    least = 0.3

    @property
    def wanted(self) -> float | None:
        """The least multiplier."""
        return self.threshold

    def check(self, candidate: Candidate) -> Outcome:
        """Score the change."""
        found = candidate.minimal_diff
        findings = tuple(f"−{loss.by:.3f}: {loss.reason}" for loss in found.losses)
        multiplier = found.metrics.reward_multiplier
        reason = f"multiplier {multiplier:.3f}, +{found.added_lines:,} −{found.removed_lines:,} lines"
        return Outcome(score=multiplier, reason=reason, evidence=Evidence(findings=findings))
