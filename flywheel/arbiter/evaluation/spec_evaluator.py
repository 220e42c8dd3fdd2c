"""Evaluates a change under a working spec: all its gates, its waivers, and the verdict (SPEC section 7)."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change
from flywheel.arbiter.evaluation.gates.budget import Budget, adherence
from flywheel.arbiter.evaluation.gates.gate import Candidate, Gate, Outcome
from flywheel.arbiter.evaluation.gates.running import SandboxedCommands, workspace_of
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.spec_verdict import BudgetUsage, CawsScores, SpecVerdict
from flywheel.arbiter.evaluation.working_spec.spec import Waiver, WorkingSpec
from flywheel.errors import SandboxError
from flywheel.records import MinimalDiffMetrics, QualityGate
from flywheel.sandbox.fences import Fence

Status = Literal["passed", "failed", "error", "waived"]


class Origin(Struct, frozen=True, kw_only=True):
    """Where a change comes from, as far as it is said: who made it, for which task, from which commit."""

    agent_id: str | None = None
    task_id: str | None = None
    commit: str | None = None


class GateResult(Struct, frozen=True, kw_only=True):
    """What became of one gate. ``waiver`` is the one without which the change would not have passed it."""

    name: str
    kind: str
    mandatory: bool
    threshold: float
    outcome: Outcome
    waiver: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it ran and reached its threshold; a waived one did not."""
        return self.outcome.error is None and self.outcome.score >= self.threshold

    @property
    def status(self) -> Status:
        """In a word. An error is no failure: nobody knows what the gate would have said."""
        if self.passed:
            return "passed"
        if self.waiver is not None:
            return "waived"
        return "error" if self.outcome.error is not None else "failed"

    @property
    def refuses(self) -> bool:
        """Whether the verdict cannot be positive because of it."""
        return self.mandatory and not self.passed and self.waiver is None

    @property
    def quality_gate(self) -> QualityGate:
        """As it is logged. A waived gate is not mandatory there, so that gates and verdict agree."""
        return QualityGate(
            name=self.name,
            passed=self.passed,
            score=self.outcome.score,
            threshold=self.threshold,
            mandatory=self.mandatory and self.waiver is None,
        )


class IgnoredWaiver(Struct, frozen=True, kw_only=True):
    """A waiver that did not waive, and why."""

    waiver: Waiver
    reason: str


class SpecEvaluation(Struct, frozen=True, kw_only=True):
    """What an evaluation under a working spec came to."""

    spec: WorkingSpec
    results: tuple[GateResult, ...]
    ignored_waivers: tuple[IgnoredWaiver, ...]
    budget_usage: BudgetUsage
    minimal_diff: MinimalDiffMetrics
    origin: Origin

    @property
    def refusing(self) -> tuple[GateResult, ...]:
        """The mandatory gates that were not passed nor waived."""
        return tuple(result for result in self.results if result.refuses)

    @property
    def passed_all_mandatory(self) -> bool:
        """Whether every mandatory gate was passed or waived."""
        return not self.refusing

    @property
    def caws_compliant(self) -> bool:
        """Whether the change holds its spec: the budget is a gate of it, and may be waived like the others."""
        return self.passed_all_mandatory

    @property
    def budget_compliant(self) -> bool:
        """Whether it stayed within its budget, waived or not."""
        return self.budget_usage.budget_compliant

    @property
    def waivers_used(self) -> tuple[Waiver, ...]:
        """The waivers without which it would not have passed."""
        used = {result.waiver for result in self.results if result.waiver is not None}
        return tuple(waiver for waiver in self.spec.waivers if waiver.id in used)

    @property
    def quality_gates(self) -> tuple[QualityGate, ...]:
        """The gates as they are logged."""
        return tuple(result.quality_gate for result in self.results)

    @property
    def scores(self) -> CawsScores:
        """How far the verdict can be trusted. Each is 1 where there is nothing to hold against it.

        - evidence completeness: gates that ran / all gates.
        - budget adherence: the smaller of limit / used, for files and for lines, at most 1.
        - gate integrity: mandatory gates that were passed / mandatory gates; a waived one was not passed.
        - provenance clarity: share of four that are known: the agent, the task, the commit before, and that nothing but
          the workspace could have a say, because every command that ran was confined.
        """
        mandatory = [result for result in self.results if result.mandatory]
        return CawsScores(
            evidence_completeness=_share(result.outcome.error is None for result in self.results),
            budget_adherence=adherence(self.budget_usage),
            gate_integrity=_share(result.passed for result in mandatory),
            provenance_clarity=_share(self._known()),
        )

    def _known(self) -> tuple[bool, ...]:
        origin = self.origin
        ran = [result.outcome.evidence for result in self.results if result.outcome.evidence.command]
        said = tuple(value is not None for value in (origin.agent_id, origin.task_id, origin.commit))
        return (*said, all("no network" in evidence.confined for evidence in ran))

    @property
    def reason(self) -> str:
        """Why it did not pass, in words; what was waived where it did."""
        if self.refusing:
            return "; ".join(f"{result.name}: {_why(result)}" for result in self.refusing)
        waived = [f"{result.name} by {result.waiver}" for result in self.results if result.waiver is not None]
        return "passed, waived: " + ", ".join(waived) if waived else "passed"

    @property
    def verdict(self) -> SpecVerdict:
        """What is signed and kept of it."""
        return SpecVerdict(
            spec_id=self.spec.name,
            spec_digest=self.spec.digest,
            waivers_used=tuple(waiver.id for waiver in self.waivers_used),
            gates_passed=tuple(result.name for result in self.results if result.passed),
            scores=self.scores,
            budget_usage=self.budget_usage,
        )


def evaluate_under_spec(
    spec: WorkingSpec,
    change: Change,
    *,
    before: Path,
    at: datetime,
    after: Path | None = None,
    asked: str = "",
    origin: Origin | None = None,
    fence: Fence | None = None,
    rubric: Rubric = BUILTIN,
) -> SpecEvaluation:
    """Run every gate of a spec on a change, and judge.

    Args:
        spec: what the change is held to.
        change: whole files before and after.
        before: the folder it was made from. It is not changed; commands get copies.
        at: the moment, for the waivers.
        after: the folder it was taken from, where there is one: binary files are taken from it.
        asked: the task's own words; what they contain is not unsafe.
        origin: where the change comes from, as far as it is known.
        fence: what holds the commands; by default the first that works here.
        rubric: what rewards the change: its findings decide what the gate ``reward_hacking`` refuses.

    Raises:
        InputError: the change cannot be put over the folder.
    """
    commands = SandboxedCommands(spec, workspace_of(change, before=before, after=after), fence=fence)
    candidate = Candidate(before=before, change=change, commands=commands, asked=asked, rubric=rubric)
    results = tuple(_result(spec, gate, candidate, at) for gate in spec.all_gates)
    ignored = (IgnoredWaiver(waiver=waiver, reason=why) for waiver in spec.waivers if (why := waiver.refusal(at)))
    return SpecEvaluation(
        spec=spec,
        results=results,
        ignored_waivers=tuple(ignored),
        budget_usage=Budget(limits=spec.budget).usage(candidate),
        minimal_diff=candidate.minimal_diff.metrics,
        origin=origin or Origin(),
    )


def _result(spec: WorkingSpec, gate: Gate, candidate: Candidate, at: datetime) -> GateResult:
    try:
        outcome = gate.check(candidate)
    except SandboxError as error:
        outcome = Outcome(score=0.0, reason=str(error), error=str(error))
    result = GateResult(
        name=gate.title,
        kind=gate.kind,
        mandatory=gate.mandatory,
        threshold=spec.threshold_of(gate),
        outcome=outcome,
    )
    if not result.refuses:
        return result
    waivers = (waiver for waiver in spec.waivers if waiver.gate == gate.title and waiver.refusal(at) is None)
    waiver = next(waivers, None)
    return result if waiver is None else msgspec.structs.replace(result, waiver=waiver.id)


def _why(result: GateResult) -> str:
    if result.outcome.error is not None:
        return f"it could not be run: {result.outcome.error}"
    return f"{result.outcome.reason} ({result.outcome.score:.3g} of at least {result.threshold:g})"


def _share(facts: Iterable[bool]) -> float:
    known = list(facts)
    return sum(known) / len(known) if known else 1.0
