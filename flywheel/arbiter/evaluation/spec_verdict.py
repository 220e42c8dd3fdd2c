"""What an evaluation against a working spec comes to, as it is signed and kept (SPEC section 2, ``caws``)."""

from flywheel.records import BudgetUsage, CawsScores, Identifier, Wire

__all__ = ["BudgetUsage", "CawsScores", "SpecVerdict"]


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
