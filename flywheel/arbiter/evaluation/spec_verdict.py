"""What an evaluation against a working spec comes to, as it is signed and kept (SPEC section 2, ``caws``)."""

from flywheel.records import Count, Identifier, Score, Wire


class CawsScores(Wire, frozen=True, kw_only=True):
    """How far a verdict can be trusted, each 0–1. ``spec_evaluator`` has the formulas."""

    evidence_completeness: Score
    budget_adherence: Score
    gate_integrity: Score
    provenance_clarity: Score


class BudgetUsage(Wire, frozen=True, kw_only=True):
    """What a change used of its spec's budget: files touched, and lines added and removed."""

    files_used: Count
    files_limit: Count
    loc_used: Count
    loc_limit: Count
    budget_compliant: bool


class SpecVerdict(Wire, frozen=True, kw_only=True):
    """The verdict on a change under one working spec.

    ``spec_digest`` is the SHA-256 of the spec's canonical form, in hex: an edited spec has another one.
    ``waivers_used`` are the ids of the waivers without which a mandatory gate would have failed; ``gates_passed`` are
    the names of the gates that ran and passed, waived ones not among them.
    """

    spec_id: Identifier
    spec_digest: Identifier
    waivers_used: tuple[str, ...]
    gates_passed: tuple[str, ...]
    scores: CawsScores
    budget_usage: BudgetUsage
