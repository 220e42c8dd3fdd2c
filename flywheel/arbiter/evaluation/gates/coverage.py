"""Tests must run the code that was changed."""

import json
import posixpath
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pydantic import Field

from flywheel.arbiter.evaluation.gates.command import CommandGate, ending
from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Outcome
from flywheel.arbiter.evaluation.gates.patterns import Patterns, matching
from flywheel.arbiter.evaluation.gates.reports import parsed_xml
from flywheel.sandbox.sandbox import Ran

TESTS = ("tests/", "test/", "__tests__/", "test_*", "*_test.*", "conftest.py", "*.test.*", "*.spec.*")
MOST_FINDINGS = 20

Hits = Mapping[str, Mapping[int, bool]]
"""Of each file, of each line that can be run, whether it was."""


class Coverage(CommandGate):
    """Passed where so large a share of the lines that can be run was run.

    The report is Cobertura's XML (coverage.py, nyc, gocover-cobertura, …) or coverage.py's JSON. Of a changed file that
    is not in it, though others of its ending are, all lines that were added count as never run: who leaves a file out
    of the measure gains nothing by it.
    """

    gate: Literal["coverage"]
    report: str = Field("coverage.xml", min_length=1, description="path of the report that the command writes")
    of: Literal["changed", "all"] = Field("changed", description="the changed lines, or all")
    threshold: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="share of the lines; by default the risk tier's"
    )
    exclude: Patterns = Field(TESTS, description="paths that need not be covered, as in a .gitignore")

    least = 0.8

    @property
    def wanted(self) -> float | None:
        """The least share."""
        return self.threshold

    @property
    def reports(self) -> tuple[str, ...]:
        """The coverage report."""
        return (self.report,)

    def judge(self, candidate: Candidate, ran: Ran, evidence: Evidence) -> Outcome:
        """By the report, where the command ended well."""
        if not ran.succeeded:
            return Outcome(score=0.0, reason=ending(ran), evidence=evidence)
        content = ran.files.get(self.report)
        if content is None:
            error = f"the command wrote no {self.report}"
            return Outcome(score=0.0, reason=error, evidence=evidence, error=error)
        hits = read_report(content)
        if hits is None:
            error = f"{self.report} is neither Cobertura's XML nor coverage.py's JSON"
            return Outcome(score=0.0, reason=error, evidence=evidence, error=error)
        if not any(hits.values()):
            return Outcome(score=0.0, reason=f"{self.report} has no lines: nothing was measured", evidence=evidence)
        counted = self._of_all(hits) if self.of == "all" else self._of_changed(candidate, hits)
        return _outcome(counted, of=self.of, evidence=evidence)

    def _of_all(self, hits: Hits) -> "list[Counted]":
        return [
            Counted(path=path, lines=lines)
            for path, lines in hits.items()
            if not matching(self.exclude, path.lstrip("/"))
        ]

    def _of_changed(self, candidate: Candidate, hits: Hits) -> "list[Counted]":
        endings = {posixpath.splitext(path)[1] for path in hits}
        counted = []
        for changes in candidate.lines:
            if matching(self.exclude, changes.path) or posixpath.splitext(changes.path)[1] not in endings:
                continue
            numbers = {line.number for line in changes.added if line.text.strip()}
            lines = lines_of(changes.path, hits)
            if lines is None:
                counted.append(Counted(path=changes.path, lines=dict.fromkeys(numbers, False), measured=False))
            else:
                counted.append(
                    Counted(path=changes.path, lines={at: hit for at, hit in lines.items() if at in numbers})
                )
        return counted


class Counted(Struct, frozen=True, kw_only=True):
    """The lines of a file that count, and whether each was run."""

    path: str
    lines: Mapping[int, bool]
    measured: bool = True


def _outcome(counted: list[Counted], *, of: str, evidence: Evidence) -> Outcome:
    total = sum(len(one.lines) for one in counted)
    run = sum(sum(one.lines.values()) for one in counted)
    which = "changed lines" if of == "changed" else "lines"
    if not total:
        return Outcome(score=1.0, reason=f"none of the {which} that count can be run", evidence=evidence)
    findings = [finding for one in counted if (finding := _finding(one)) is not None]
    kept = msgspec.structs.replace(evidence, findings=tuple(findings[:MOST_FINDINGS]))
    return Outcome(score=run / total, reason=f"{run:,} of {total:,} {which} were run", evidence=kept)


def _finding(one: Counted) -> str | None:
    missed = sorted(number for number, hit in one.lines.items() if not hit)
    if not missed:
        return None
    if not one.measured:
        return f"{one.path}: not in the report, so that its {len(missed):,} new lines count as never run"
    shown = ", ".join(map(str, missed[:20])) + (" …" if len(missed) > 20 else "")
    return f"{one.path}: never run: {shown}"


def lines_of(path: str, hits: Hits) -> Mapping[int, bool] | None:
    """The report's lines of a file. Reports name files from the root, or from a folder of sources."""
    exact = [name for name in hits if name == path or name.endswith("/" + path)]
    named = exact or [name for name in hits if not name.startswith("/") and path.endswith("/" + name)]
    return hits[min(named, key=len)] if named else None


def read_report(content: bytes) -> Hits | None:
    """The report; None where it is none."""
    if content.lstrip().startswith(b"{"):
        return _read_json(content)
    root = parsed_xml(content)
    if root is None or root.tag != "coverage":
        return None
    sources = [source.text.strip() for source in root.iter("source") if source.text]
    hits: dict[str, dict[int, bool]] = {}
    for one in root.iter("class"):
        name = one.get("filename", "")
        path = posixpath.normpath(posixpath.join(sources[0], name) if len(sources) == 1 else name)
        lines = hits.setdefault(path, {})
        for line in one.iter("line"):
            number, count = line.get("number", ""), line.get("hits", "")
            if number.isdigit() and count.isdigit():
                lines[int(number)] = lines.get(int(number), False) or int(count) > 0
    return hits


def _read_json(content: bytes) -> Hits | None:
    try:
        files: dict[str, dict[str, Any]] = json.loads(content)["files"]
        return {
            posixpath.normpath(path): {
                **dict.fromkeys(map(int, file["missing_lines"]), False),
                **dict.fromkeys(map(int, file["executed_lines"]), True),
            }
            for path, file in files.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
