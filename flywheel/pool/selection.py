"""Which points go into a batch: pure choice over what the pool offers.

SFT takes first: successful points of high quality, one a task. GRPO takes other tasks, so that it starts from a model
that has not seen them, and takes failures too: what always succeeds teaches nothing. Within each phase the choice is
stratified by task type and complexity, and the most recent points of a stratum come first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter

from msgspec import Struct

from flywheel.settings import BatchSettings, PhaseThreshold


class Offer(Struct, frozen=True, kw_only=True):
    """A point that could be chosen. ``source_task`` is what two phases may not share."""

    id: str
    day: date
    timestamp: datetime
    source_task: str
    task_type: str
    complexity: str
    agent_id: str
    success: bool
    overall_score: float


class Choice(Struct, frozen=True, kw_only=True):
    """The points of each phase, in order."""

    sft: tuple[Offer, ...]
    grpo: tuple[Offer, ...]


def choose(offers: Iterable[Offer], *, criteria: BatchSettings, marked: dict[str, set[str]], now: datetime) -> Choice:
    """Choose a batch.

    Args:
        offers: what the pool holds.
        criteria: thresholds and sizes.
        marked: per phase the ids of points that an earlier batch used.
        now: ages are counted from here.
    """
    known = list(offers)
    for_sft = [
        offer
        for offer in fresh(known, criteria.sft, marked=marked.get("sft", set()), now=now)
        if offer.overall_score >= criteria.sft.quality and (offer.success or criteria.sft_from_failures)
    ]
    sft = stratified(one_a_task(for_sft), size=criteria.max_sft_points)
    taken = {offer.source_task for offer in sft}
    for_grpo = [
        offer
        for offer in fresh(known, criteria.grpo, marked=marked.get("grpo", set()), now=now)
        if offer.source_task not in taken and (offer.overall_score >= criteria.grpo.quality or not offer.success)
    ]
    return Choice(sft=sft, grpo=stratified(one_a_task(for_grpo), size=criteria.max_grpo_points))


def fresh(offers: Iterable[Offer], threshold: PhaseThreshold, *, marked: set[str], now: datetime) -> list[Offer]:
    """Those young enough that no earlier batch used in this phase."""
    oldest = now - timedelta(days=threshold.max_age_days)
    return [offer for offer in offers if offer.timestamp >= oldest and offer.id not in marked]


def one_a_task(offers: Iterable[Offer]) -> list[Offer]:
    """The best point of each task; of equally good ones the most recent."""
    best: dict[str, Offer] = {}
    for offer in sorted(offers, key=lambda offer: (offer.overall_score, offer.timestamp, offer.id)):
        best[offer.source_task] = offer
    return list(best.values())


def stratified(offers: Sequence[Offer], *, size: int) -> tuple[Offer, ...]:
    """At most ``size`` offers, each stratum with its share (largest remainders), recent first, ids break ties."""
    strata: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    for offer in offers:
        strata[offer.task_type, offer.complexity].append(offer)
    shares = apportioned({name: len(members) for name, members in strata.items()}, seats=min(size, len(offers)))
    chosen = [
        offer
        for name in sorted(strata)
        for offer in sorted(strata[name], key=attrgetter("timestamp", "id"), reverse=True)[: shares[name]]
    ]
    return tuple(sorted(chosen, key=attrgetter("timestamp", "id"), reverse=True))


def apportioned(sizes: dict[tuple[str, str], int], *, seats: int) -> dict[tuple[str, str], int]:
    """Seats in proportion to sizes by the method of largest remainders (Hamilton)."""
    total = sum(sizes.values())
    if not total:
        return {}
    exact = {name: seats * size / total for name, size in sizes.items()}
    given = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(sizes, key=lambda name: (given[name] - exact[name], name))
    for name in by_remainder[: seats - sum(given.values())]:
        given[name] += 1
    return given
