"""What measured results say an agent can do: a capability was added, improved or degraded, with the test behind it.

Pure. A capability is a task type, a language or a specialization. Tests may be repeated after every outcome (see
``flywheel.sequential``); of an agent that did not change they ever say so of one capability with the configured error
rate at most, half of which each of the two tests has.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.settings import CapabilitySettings
from flywheel.sequential import log_e_above, rate_change

Field = Literal["task_types", "languages", "specializations"]
Kind = Literal["added", "improved", "degraded"]
Proposal = Literal["add", "remove"]
FIELDS: tuple[Field, ...] = ("task_types", "languages", "specializations")
BLOCK = 20
"""Outcomes between two moments at which a rate may be found to have changed."""
SMALLEST_CHANGE = 0.05
"""Of a success rate; a smaller one is not worth a word, however sure it is."""
LARGEST_E = 1e300
"""E-values are shown up to here: beyond, they are no numbers any more in JSON."""


class Outcomes(Struct, frozen=True, kw_only=True):
    """Outcomes of an agent in one capability since the last event there, in order, ``BLOCK`` by ``BLOCK``."""

    agent_id: str
    field: Field
    name: str
    tasks: tuple[int, ...]
    successes: tuple[int, ...]
    until: datetime


class Finding(Struct, frozen=True, kw_only=True):
    """Something that changed. ``evidence`` has the test and its numbers; ``proposal`` is what to do in the profile."""

    kind: Kind
    evidence: dict[str, Any]
    proposal: Proposal | None = None


def find(
    outcomes: Outcomes, profile: AgentProfile, settings: CapabilitySettings, *, already_added: bool
) -> Finding | None:
    """What the outcomes say, if anything. Nothing is added that the profile names or an earlier event added."""
    if outcomes.name not in named(profile, outcomes.field) and not already_added:
        found = _added(outcomes, profile, settings)
        if found is not None:
            return found
    return _changed(outcomes, profile, settings)


def named(profile: AgentProfile, field: Field) -> tuple[str, ...]:
    """What a profile names; empty means all, of task types and languages."""
    found: tuple[str, ...] = getattr(profile, field)
    return found


def with_proposal(profile: AgentProfile, field: Field, name: str, proposal: Proposal) -> tuple[str, ...]:
    """The field as a proposal would have it.

    Raises:
        ValueError: nothing would be left of it, which would mean all.
    """
    present = named(profile, field)
    if proposal == "add":
        return present if name in present else (*present, name)
    left = tuple(one for one in present if one != name)
    if not left and present:
        raise ValueError(f"{name!r} is all that {profile.id} names as {field}; nothing would mean all. Disable it")
    return left


def _added(outcomes: Outcomes, profile: AgentProfile, settings: CapabilitySettings) -> Finding | None:
    tasks, successes = sum(outcomes.tasks), sum(outcomes.successes)
    threshold = settings.capable_success_rate
    log_e = log_e_above(successes, tasks, threshold)
    if log_e < _needed(settings):
        return None
    evidence = {
        "test": "always-valid mixture likelihood ratio (Robbins 1970), one rate",
        "null_hypothesis": f"success rate at most {threshold:g}",
        **_numbers(log_e, settings),
        "tasks": tasks,
        "successes": successes,
        "success_rate": successes / tasks,
    }
    takes_all = outcomes.field != "specializations" and not named(profile, outcomes.field)
    return Finding(kind="added", evidence=evidence, proposal=None if takes_all else "add")


def _changed(outcomes: Outcomes, profile: AgentProfile, settings: CapabilitySettings) -> Finding | None:
    found = rate_change(np.array(outcomes.successes), np.array(outcomes.tasks))
    if found.log_e < _needed(settings):
        return None
    before, after = _part(outcomes, slice(found.blocks_before)), _part(outcomes, slice(found.blocks_before, None))
    rise = after["success_rate"] - before["success_rate"]
    if abs(rise) < SMALLEST_CHANGE:
        return None
    evidence = {
        "test": "always-valid change point by universal inference (Wasserman et al. 2020)",
        "null_hypothesis": "one success rate throughout",
        **_numbers(found.log_e, settings),
        "before": before,
        "after": after,
    }
    present = named(profile, outcomes.field)
    unfit = rise < 0 and after["success_rate"] < settings.capable_success_rate
    removable = outcomes.name in present and (len(present) > 1 or outcomes.field == "specializations")
    return Finding(
        kind="improved" if rise > 0 else "degraded",
        evidence=evidence,
        proposal="remove" if unfit and removable else None,
    )


def _part(outcomes: Outcomes, blocks: slice) -> dict[str, Any]:
    tasks, successes = sum(outcomes.tasks[blocks]), sum(outcomes.successes[blocks])
    return {"tasks": tasks, "successes": successes, "success_rate": successes / tasks}


def _needed(settings: CapabilitySettings) -> float:
    """Logarithm of the e-value from which a test speaks: it has half of the error rate."""
    return math.log(2 / settings.error_rate)


def _numbers(log_e: float, settings: CapabilitySettings) -> dict[str, float]:
    return {
        "e_value": min(math.exp(min(log_e, math.log(LARGEST_E))), LARGEST_E),
        "needed": 2 / settings.error_rate,
        "p_value_bound": min(1.0, math.exp(-log_e)),
        "error_rate": settings.error_rate,
    }


def in_words(field: Field, name: str, finding_kind: Kind, evidence: dict[str, Any]) -> str:
    """An event in one sentence."""
    sure = f"e-value {evidence['e_value']:.3g}, {evidence['needed']:.3g} needed"
    if finding_kind == "added":
        share = f"{evidence['successes']} of {evidence['tasks']} tasks succeeded"
        return f"{field} {name}: {share}, {evidence['null_hypothesis']} is refuted ({sure})"
    before, after = evidence["before"], evidence["after"]
    rates = f"{before['success_rate']:.3f} of {before['tasks']} tasks → {after['success_rate']:.3f} of {after['tasks']}"
    return f"{field} {name}: {rates} ({sure})"


def already_added(kinds: Sequence[Kind]) -> bool:
    """Whether the newest of these events, oldest first, leaves the capability added."""
    return next((kind == "added" for kind in reversed(kinds) if kind != "improved"), False)
