"""Several findings about one thing become one. Pure.

The rule, of a judge's samples as of two judges:

- Who abstains adds nothing. Where all abstain, so does the whole, with the reasons.
- Scores within ``max_gap`` of each other are one: their mean. Its confidence is the mean of theirs, less the gap.
- Scores further apart are a disagreement: an abstention, with both. Neither the higher nor the lower is taken, because
  nothing says which judge was wrong.
"""

from collections.abc import Sequence
from statistics import fmean

from flywheel.arbiter.evaluation.judges.opinions import Abstention, Finding, Score


def combined(findings: Sequence[Finding], *, max_gap: float) -> Finding:
    """The findings as one; at least one is needed."""
    scores = [finding for finding in findings if isinstance(finding, Score)]
    if not scores:
        return _nothing([finding for finding in findings if isinstance(finding, Abstention)])
    if len(scores) == 1:
        return scores[0]
    values = [score.value for score in scores]
    gap = max(values) - min(values)
    reasons = " | ".join(dict.fromkeys(score.reason for score in scores))
    if gap > max_gap:
        told = " and ".join(f"{value:g}" for value in values)
        return Abstention(kind="disagreement", reason=f"scores of {told} are more than {max_gap:g} apart: {reasons}")
    confidence = max(0.0, fmean(score.confidence for score in scores) - gap)
    return Score(value=fmean(values), confidence=confidence, reason=reasons)


def why_unsure(finding: Finding, *, threshold: float, band: float, least_confidence: float) -> str | None:
    """Why a finding should be looked at by a second judge; None where it need not."""
    if isinstance(finding, Abstention):
        return f"{finding.kind}: {finding.reason}"
    if finding.confidence < least_confidence:
        return f"the confidence is {finding.confidence:.2f}, below {least_confidence:g}"
    if abs(finding.value - threshold) < band:
        return f"the score is {finding.value:.2f}, within {band:g} of the threshold {threshold:g}"
    return None


def _nothing(abstentions: Sequence[Abstention]) -> Abstention:
    if len(abstentions) == 1:
        return abstentions[0]
    told = "; ".join(dict.fromkeys(f"{one.kind}: {one.reason}" for one in abstentions))
    return Abstention(kind=abstentions[-1].kind, reason=told)
