"""Judges held against labels: agreement per criterion, and calibration fitted on one part and reported on the rest."""

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.judges import prompts
from flywheel.arbiter.evaluation.judges.agreement import Agreement, Scored, agreement
from flywheel.arbiter.evaluation.judges.calibration import Calibration, Curve, Method, fit
from flywheel.arbiter.evaluation.judges.criteria import Criterion
from flywheel.arbiter.evaluation.judges.labels import Labelled, LabelledFile
from flywheel.arbiter.evaluation.judges.opinions import Abstention, Judgement
from flywheel.arbiter.evaluation.judges.panel import Case, Panel
from flywheel.errors import InputError

AT_ONCE = 64
"""Cases handed to the panel together: a run that is killed has kept the opinions of all before."""

Judged = dict[str, list[Scored]]
Progress = Callable[[int, int], None]


class Calibrated(Struct, frozen=True, kw_only=True):
    """A criterion's scores before and after a calibration, on rows that it was not fitted on.

    ``curve`` is None where the other part has too few labels, or of one kind alone; then ``calibrated`` is None too.
    """

    fitted_on: int
    curve: Curve | None
    raw: Agreement
    calibrated: Agreement | None


class Measured(Struct, frozen=True, kw_only=True):
    """How judges do on a labelled file.

    Attributes:
        judges: their ids, models in brackets.
        agreement: of all rows, per criterion.
        unsure: rows that the first judge was unsure of, per criterion; the second one was asked, if there is one.
        calibration: per criterion, where one was asked for.
    """

    judges: tuple[str, ...]
    labels: str
    agreement: dict[str, Agreement]
    unsure: dict[str, int]
    calibration: dict[str, Calibrated]


def measure(
    file: LabelledFile,
    panel: Panel,
    criteria: Sequence[Criterion],
    *,
    tenant_id: str,
    method: Method | None = None,
    fitted_share: float = 0.5,
    on_progress: Progress = lambda _done, _total: None,
) -> Measured:
    """Let the panel judge the file by those of the criteria that it has labels of.

    Raises:
        InputError: it has labels of none of them, or of one that there is not.
    """
    asked = _asked(file, criteria)
    judgements: list[Judgement] = []
    for start in range(0, len(asked), AT_ONCE):
        cases = [
            Case(material=line.material, criterion=criterion) for line, criterion in asked[start : start + AT_ONCE]
        ]
        judgements += panel.judge(cases, tenant_id=tenant_id)
        on_progress(len(judgements), len(asked))
    rows: Judged = {}
    unsure: dict[str, int] = {}
    for (line, criterion), judgement in zip(asked, judgements, strict=True):
        rows.setdefault(criterion.name, []).append(_scored(line, judgement))
        unsure[criterion.name] = unsure.get(criterion.name, 0) + (judgement.unsure is not None)
    used = {criterion.name: criterion for criterion in criteria if criterion.name in rows}
    return Measured(
        judges=tuple(f"{judge.id} ({judge.model})" for judge in panel.judges),
        labels=file.digest,
        agreement={name: _agreement(rows[name], criterion) for name, criterion in used.items()},
        unsure=unsure,
        calibration={name: _calibrated(rows[name], criterion, method, fitted_share) for name, criterion in used.items()}
        if method
        else {},
    )


def calibrations(
    measured: Measured, panel: Panel, criteria: Sequence[Criterion], *, method: Method, now: datetime
) -> list[Calibration]:
    """What is to be saved of a measurement of one judge; criteria without a curve are left out."""
    [judge] = panel.judges
    by_name = {criterion.name: criterion for criterion in criteria}
    return [
        Calibration(
            judge=judge.id,
            model=judge.model,
            criterion=name,
            version=by_name[name].version,
            prompts=prompts.VERSION,
            method=method,
            curve=found.curve,
            fitted_on=found.fitted_on,
            labels=measured.labels,
            made_at=now,
        )
        for name, found in measured.calibration.items()
        if found.curve is not None
    ]


def for_fitting(group: str, share: float) -> bool:
    """Whether a group's rows are fitted on; by its hash, so that a longer file keeps the parts apart."""
    number = int.from_bytes(blake2b(group.encode("utf-8", "replace"), digest_size=8, person=b"calibration").digest())
    return number < share * 2**64


def _asked(file: LabelledFile, criteria: Sequence[Criterion]) -> list[tuple[Labelled, Criterion]]:
    known = {criterion.name: criterion for criterion in criteria}
    labelled = {name for line in file.lines for name in line.labels}
    if unknown := sorted(labelled - set(known)):
        raise InputError(
            f"the file has labels of {', '.join(unknown)}, and judges.criteria has {', '.join(known)}; "
            f"name the criterion there, or take its labels out"
        )
    return [(line, known[name]) for line in file.lines for name in line.labels]


def _scored(line: Labelled, judgement: Judgement) -> Scored:
    found, name = judgement.finding, judgement.criterion.name
    scored = Scored(score=None, label=line.labels[name], group=line.grouped)
    if isinstance(found, Abstention):
        return msgspec.structs.replace(scored, abstention=found.kind)
    return msgspec.structs.replace(scored, score=found.value)


def _agreement(rows: Sequence[Scored], criterion: Criterion) -> Agreement:
    return agreement(rows, criterion=criterion.label, threshold=criterion.threshold)


def _calibrated(rows: Sequence[Scored], criterion: Criterion, method: Method, share: float) -> Calibrated:
    fitting = [row for row in rows if for_fitting(row.group, share)]
    rest = [row for row in rows if not for_fitting(row.group, share)]
    known = [(row.score, row.label) for row in fitting if row.score is not None]
    curve = fit(method, [score for score, _ in known], [label for _, label in known])
    after = None if curve is None else [_replaced(row, curve) for row in rest]
    return Calibrated(
        fitted_on=len(known),
        curve=curve,
        raw=_agreement(rest, criterion),
        calibrated=None if after is None else _agreement(after, criterion),
    )


def _replaced(row: Scored, curve: Curve) -> Scored:
    return row if row.score is None else msgspec.structs.replace(row, score=curve(row.score))
