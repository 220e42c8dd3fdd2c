"""Capability match: the agent whose profile fits the task."""

from collections.abc import Collection, Hashable
from typing import Literal

import numpy as np
from msgspec import Struct

from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.strategy import Distribution, Pool, distribution_of, evenly, standing_in
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.records import Strategy

TYPE, LANGUAGE, SPECIALIZATION = 0.4, 0.3, 0.3
"""The weights of SPEC section 7."""


class CapabilityMatch(Struct, frozen=True, kw_only=True):
    """0.4 · type + 0.3 · language + 0.3 · specialization, each the share of what the task names that the agent has.

    Of equal matches one is drawn. A task that names no language, or no specialization, is matched there by everybody;
    an agent that names no task types or languages takes all.
    """

    @property
    def kind(self) -> Literal[Strategy.CAPABILITY_MATCH]:
        """What the log calls it."""
        return Strategy.CAPABILITY_MATCH

    def reuse_key(self, task: RoutedTask) -> Hashable | None:
        """Besides the candidates, what the task names."""
        return ("capability", task.languages, task.specializations)

    def distribution(self, task: RoutedTask, pool: Pool) -> Distribution:
        """All probability to the highest match."""
        parts = [match(profile, task) for profile in pool.profiles]
        scores = np.array([TYPE * t + LANGUAGE * language + SPECIALIZATION * s for t, language, s in parts])
        top = scores == scores.max()
        ties = int(top.sum())

        def why_score(i: int) -> str:
            type_, language, specialization = parts[i]
            return (
                f"match {scores[i]:.3f} = {TYPE} × type {type_:.2f} + {LANGUAGE} × language {language:.2f} + "
                f"{SPECIALIZATION} × specialization {specialization:.2f}"
            )

        def why_chosen(i: int) -> str:
            drawn = f"drawn among {ties} with the highest match" if ties > 1 else "the highest match"
            return f"{pool.profiles[i].id}: {drawn}; {why_score(i)}"

        return distribution_of(
            evenly(top),
            scores=scores,
            estimates=pool.belief.utility[pool.members],
            standing=standing_in(pool),
            why_score=why_score,
            why_chosen=why_chosen,
        )


def match(profile: AgentProfile, task: RoutedTask) -> tuple[float, float, float]:
    """How well type, languages and specializations fit, each 0–1."""
    languages = 1.0 if not profile.languages else _share(task.languages, profile.languages)
    return float(profile.can_do(task.task_type)), languages, _share(task.specializations, profile.specializations)


def _share(wanted: Collection[str], held: Collection[str]) -> float:
    return len(set(wanted) & set(held)) / len(set(wanted)) if wanted else 1.0
