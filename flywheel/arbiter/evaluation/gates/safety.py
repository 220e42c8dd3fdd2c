"""No secret and no destructive statement may be added."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from flywheel.arbiter.evaluation.changed_lines import Line, LineChanges
from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome
from flywheel.arbiter.evaluation.safety import unsafe_in


class Safety(Gate):
    """Passed where no added line has what no answer may (``flywheel.arbiter.evaluation.safety``).

    Lines that were removed are not looked at, nor those that only moved; what the task's own words contain is allowed.
    The findings name what and where, and never repeat it.
    """

    gate: Literal["safety"] = "safety"

    def check(self, candidate: Candidate) -> Outcome:
        """Look at the added lines."""
        removed = {line.text.strip() for lines in candidate.lines for line in lines.removed}
        findings = tuple(
            finding for lines in candidate.lines for finding in _findings(lines, removed, asked=candidate.asked)
        )
        reason = f"{len(findings)} findings" if findings else "nothing unsafe was added"
        return Outcome(score=float(not findings), reason=reason, evidence=Evidence(findings=findings))


def _findings(lines: LineChanges, removed: set[str], *, asked: str) -> Iterator[str]:
    added = [line for line in lines.added if line.text.strip() not in removed]
    for block in _blocks(added):
        for name in unsafe_in("".join(line.text for line in block), asked=asked):
            number = next((line.number for line in block if name in unsafe_in(line.text, asked=asked)), block[0].number)
            yield f"{lines.path}:{number}: {name}"


def _blocks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Lines that follow one another: a statement may go over several."""
    for _, numbered in groupby(enumerate(lines), key=lambda pair: pair[1].number - pair[0]):
        yield [line for _, line in numbered]
