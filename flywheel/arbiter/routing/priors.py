"""What is expected of an agent in a task type before it did any: from its other types, its family, or what is stated.

The expectation is additive: how well a task type goes, plus how much better than others the agent is,

    expected(agent, type) = type effect + agent effect,

both fitted to the sums with shrinkage, the agent's effect towards its family's, the family's towards none, each by a
few alternating steps (backfitting; Hastie and Tibshirani 1990, section 4.4). An agent's effect leaves out the type that
it is for: what was measured there speaks for itself and counts once.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS = 4
LOWEST, HIGHEST = 0.02, 0.98
"""Between these an expectation lies, so that no prior is sure."""


class Prior(Struct, frozen=True, kw_only=True):
    """How much is expected of whom, and how many tasks that expectation is worth.

    Attributes:
        quality: stated expectation of an agent of which nothing is known, 0–1.
        tasks: tasks that this is worth.
        record_tasks: tasks that an agent's record in other task types is worth at most.
        stated: expectations by agent id or model family, for example from a published benchmark, 0–1.
        stated_tasks: tasks that these are worth.
    """

    quality: float = 0.5
    tasks: float = 2.0
    record_tasks: float = 8.0
    stated: Mapping[str, float] = {}
    stated_tasks: float = 10.0


def expectations(
    prior: Prior, agents: Sequence[str], families: Sequence[str], weight: Array, quality: Array
) -> tuple[Array, Array]:
    """The expected quality of each agent in each task type, and the tasks it is worth; both of shape (agents, types).

    Args:
        prior: what is stated.
        agents: their ids.
        families: their model families; the empty one is nobody's.
        weight: shape (agents, types), how many tasks each did.
        quality: the sums of their rewards, shape as before.
    """
    family = _membership(families)
    stated = np.array([prior.stated.get(a, prior.stated.get(f, np.nan)) for a, f in zip(agents, families, strict=True)])
    known = ~np.isnan(stated)
    worth = np.where(known, prior.stated_tasks, prior.tasks)
    grand = (prior.quality * prior.tasks + quality.sum()) / (prior.tasks + weight.sum())
    effects, types = np.zeros(len(agents)), np.full(weight.shape[1], grand)
    done = weight.sum(axis=1)
    for _ in range(STEPS):
        types = (prior.tasks * grand + (quality - weight * effects[:, None]).sum(axis=0)) / (
            prior.tasks + weight.sum(axis=0)
        )
        rest = quality - weight * types
        by_family = family.T @ rest.sum(axis=1) / (prior.record_tasks + family.T @ done)
        towards = np.where(known, np.nan_to_num(stated) - prior.quality, family @ by_family)
        effects = (worth * towards + rest.sum(axis=1)) / (worth + done)
    others = done[:, None] - weight
    elsewhere = (worth * towards)[:, None] + rest.sum(axis=1)[:, None] - rest
    expected = types + elsewhere / (worth[:, None] + others)
    strength = worth[:, None] + prior.record_tasks * others / (prior.record_tasks + others)
    return np.clip(expected, LOWEST, HIGHEST), strength


def _membership(families: Sequence[str]) -> Array:
    """Shape (agents, families): 1 where an agent is of a family. Of the empty family is nobody."""
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name in families if name))}
    member = np.zeros((len(families), max(1, len(names))))
    for position, name in enumerate(families):
        if name:
            member[position, names[name]] = 1.0
    return member
