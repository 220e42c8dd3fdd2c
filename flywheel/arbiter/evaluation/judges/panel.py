"""The judges together: the first is asked, the second where the first is unsure, and what they say becomes one."""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.judges import prompts
from flywheel.arbiter.evaluation.judges.combining import combined, why_unsure
from flywheel.arbiter.evaluation.judges.criteria import Criterion
from flywheel.arbiter.evaluation.judges.judge import Judge
from flywheel.arbiter.evaluation.judges.kept import Kept, NothingKept, Outcome
from flywheel.arbiter.evaluation.judges.material import Material
from flywheel.arbiter.evaluation.judges.opinions import Abstention, Finding, Judgement, Opinion, Score
from flywheel.arbiter.evaluation.judges.replies import read_score
from flywheel.arbiter.evaluation.judges.settings import PANEL, JudgesSettings

SCORED, CACHED = "score", "cached"

Calibrate = Callable[[str, Criterion, float], float]
"""From a judge's id, a criterion and a raw score to the score that counts."""


def uncalibrated(judge: str, criterion: Criterion, value: float) -> float:
    """The score as it is."""
    del judge, criterion
    return value


class Case(Struct, frozen=True, kw_only=True):
    """An answer and the criterion that it is judged by."""

    material: Material
    criterion: Criterion


class Panel:
    """One or two judges. For several threads at once, if their agents are."""

    def __init__(
        self,
        judges: Sequence[Judge],
        settings: JudgesSettings,
        *,
        kept: Kept | None = None,
        calibrate: Calibrate = uncalibrated,
    ) -> None:
        """Nothing is asked yet.

        Args:
            judges: the one that is asked, and the one that is asked where it is unsure.
            settings: when that is, how far apart they may be, and how much they are shown.
            kept: where opinions are kept and counted; nowhere where None.
            calibrate: what a judge's score counts as.
        """
        assert judges, "a panel of nobody says nothing"
        self.judges = tuple(judges)
        self._settings = settings
        self._kept = kept or NothingKept()
        self._calibrate = calibrate

    def judge(self, cases: Sequence[Case], *, tenant_id: str) -> list[Judgement]:
        """What they say of each case, in their order. The cases are of one tenant."""
        first, *others = self.judges
        heard = self._heard(first, cases, tenant_id)
        findings = [self._finding(first, case, said) for case, said in zip(cases, heard, strict=True)]
        doubts = [self._doubt(case, found) for case, found in zip(cases, findings, strict=True)]
        for second in others:
            unsure = [
                index for index, doubt in enumerate(doubts) if doubt is not None and not self._too_long(cases[index])
            ]
            again = self._heard(second, [cases[index] for index in unsure], tenant_id)
            for index, said in zip(unsure, again, strict=True):
                finding = self._finding(second, cases[index], said)
                findings[index] = combined((findings[index], finding), max_gap=self._settings.max_gap)
                heard[index] = [*heard[index], *said]
        judgements = [
            Judgement(criterion=case.criterion, finding=finding, opinions=tuple(said), unsure=doubt)
            for case, finding, said, doubt in zip(cases, findings, heard, doubts, strict=True)
        ]
        self._kept.count(self._outcomes(judgements))
        return judgements

    def _heard(self, judge: Judge, cases: Sequence[Case], tenant_id: str) -> list[list[Opinion]]:
        """What one judge says of each case, once for each sample; what is asked twice is asked once."""
        asked = [(case, sample) for case in cases for sample in range(judge.samples)]
        digests = [_digest(judge, case, sample) for case, sample in asked]
        cases_of = {digest: case for digest, (case, _) in zip(digests, asked, strict=True)}
        known = self._kept.find(tenant_id, cases_of) if cases_of else {}
        missing = [digest for digest, case in cases_of.items() if digest not in known and not self._too_long(case)]
        replies = judge.ask(
            [prompts.score_question(cases_of[digest].criterion, cases_of[digest].material) for digest in missing],
            read_score,
            ids=[digest.hex() for digest in missing],
        )
        new: dict[bytes, Finding] = dict(zip(missing, replies, strict=True))
        self._kept.keep(tenant_id, {digest: found for digest, found in new.items() if isinstance(found, Score)})
        opinions = [
            Opinion(
                judge=judge.id,
                model=judge.model,
                finding=known.get(digest) or new.get(digest) or self._not_shown(case),
                sample=sample,
                cached=digest in known,
            )
            for digest, (case, sample) in zip(digests, asked, strict=True)
        ]
        return [opinions[start : start + judge.samples] for start in range(0, len(opinions), judge.samples)]

    def _finding(self, judge: Judge, case: Case, said: Sequence[Opinion]) -> Finding:
        """One judge's samples as one, and calibrated."""
        found = combined([opinion.finding for opinion in said], max_gap=self._settings.max_gap)
        if isinstance(found, Abstention):
            return found
        return msgspec.structs.replace(found, value=self._calibrate(judge.id, case.criterion, found.value))

    def _doubt(self, case: Case, finding: Finding) -> str | None:
        settings = self._settings
        return why_unsure(
            finding,
            threshold=case.criterion.threshold,
            band=settings.unsure_band,
            least_confidence=settings.unsure_confidence,
        )

    def _too_long(self, case: Case) -> bool:
        return case.material.characters > self._settings.max_characters

    def _not_shown(self, case: Case) -> Abstention:
        found, most = case.material.characters, self._settings.max_characters
        return Abstention(kind="too-long", reason=f"task and answer have {found:,} characters, {most:,} are shown")

    @staticmethod
    def _outcomes(judgements: Sequence[Judgement]) -> "Counter[Outcome]":
        counts: Counter[Outcome] = Counter()
        for judgement in judgements:
            name = judgement.criterion.name
            for opinion in judgement.opinions:
                counts[opinion.judge, name, CACHED if opinion.cached else outcome_of(opinion.finding)] += 1
            counts[PANEL, name, outcome_of(judgement.finding)] += 1
        return counts


def outcome_of(finding: Finding) -> str:
    """A finding as counts name it."""
    return SCORED if isinstance(finding, Score) else finding.kind


def _digest(judge: Judge, case: Case, sample: int) -> bytes:
    """What makes an opinion this one: who is asked, in which words, by which criterion, about what, which time."""
    parts = (judge.digest, prompts.digest(), case.criterion.digest, case.material.digest, sample.to_bytes(2, "big"))
    return blake2b(b"".join(parts), digest_size=32).digest()
