"""The shape of a routing strategy: candidates and what is known of them in, a choice with its reasons out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from flywheel.arbiter.registry import AgentProfile
from flywheel.records import Strategy


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of an agent in one task type: tasks done and the sum of their qualities, each 0–1."""

    tasks: int = 0
    quality_sum: float = 0.0


class Candidate(Struct, frozen=True, kw_only=True):
    """An agent that could take the task.

    ``load`` is the share of the current round's tasks that it was given already, 0–1.
    """

    profile: AgentProfile
    evidence: Evidence
    capability: float
    load: float = 0.0


class Scored(Struct, frozen=True, kw_only=True):
    """One candidate as the strategy saw it.

    Attributes:
        estimate: expected quality, 0–1.
        score: what the choice was made by, 0–1.
        propensity: probability with which the strategy chooses it, given what it knew.
        reason: its score in words.
    """

    candidate: Candidate
    estimate: float
    score: float
    propensity: float
    reason: str


class Choice(Struct, frozen=True, kw_only=True):
    """A decision. ``confidence`` is the probability that no other candidate is better, given the evidence."""

    selected: str
    strategy: Strategy
    confidence: float
    scored: tuple[Scored, ...]
    primary_reason: str
    secondary_factors: tuple[str, ...] = ()


class RoutingStrategy(Protocol):
    """Chooses among candidates. Pure: evidence and randomness come in."""

    def choose(self, task_type: str, candidates: Sequence[Candidate], rng: np.random.Generator) -> Choice:
        """Choose one of at least one candidates."""
        ...
