"""What judges say: a score, or an abstention that says why there is none. Never one in the place of the other."""

from typing import Literal

from msgspec import Struct

from flywheel.arbiter.evaluation.judges.criteria import Criterion

AbstentionKind = Literal["no-answer", "refused", "empty", "unreadable", "out-of-range", "too-long", "disagreement"]
"""Why there is no score.

``no-answer``: the model was not reached, timed out or broke. ``refused``: it said that it will not. ``empty``,
``unreadable``, ``out-of-range``: what it replied, also when asked again, is nothing, is not in the form, has a number
outside of 0–1. ``too-long``: the material was not shown to it. ``disagreement``: scores are too far apart.
"""


class Score(Struct, frozen=True, kw_only=True, tag="score"):
    """How well an answer does by one criterion, 0–1, and how sure the judge is, 0–1."""

    value: float
    confidence: float
    reason: str


class Abstention(Struct, frozen=True, kw_only=True, tag="abstention"):
    """No score. ``reason`` is in words."""

    kind: AbstentionKind
    reason: str


Finding = Score | Abstention


class Opinion(Struct, frozen=True, kw_only=True):
    """What one judge said when it was asked once: the evidence behind a judgement.

    Attributes:
        judge: its id.
        model: what it runs.
        finding: as it came, before any calibration.
        sample: which time it was asked, from 0.
        cached: whether it was said earlier, about the same.
    """

    judge: str
    model: str
    finding: Finding
    sample: int = 0
    cached: bool = False


class Judgement(Struct, frozen=True, kw_only=True):
    """What the judges together say of one answer by one criterion.

    Attributes:
        criterion: by which.
        finding: theirs together.
        opinions: all that were asked for, in their order.
        unsure: why the second judge was asked, or should have been; None where the first was sure.
    """

    criterion: Criterion
    finding: Finding
    opinions: tuple[Opinion, ...]
    unsure: str | None = None

    @property
    def judges(self) -> str:
        """Whose scores the finding rests on: ids, joined by ``+``."""
        ids = (opinion.judge for opinion in self.opinions if isinstance(opinion.finding, Score))
        return "+".join(dict.fromkeys(ids))

    @property
    def passed(self) -> bool:
        """Whether there is a score that reaches the threshold."""
        return isinstance(self.finding, Score) and self.finding.value >= self.criterion.threshold
