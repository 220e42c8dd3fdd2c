"""Which points go into a batch: pure choice over what the pool offers.

SFT takes first: successful points of high quality, one a task. GRPO takes other tasks, so that it starts from a model
that has not seen them, and adds failures: what always succeeds teaches nothing. Within each phase the choice is
stratified by task type and complexity, and the most recent points of a stratum come first. Exports choose with the same
functions and rules (``flywheel.pool.export_choice``).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter
from typing import Literal, TypeVar

from msgspec import Struct

from flywheel.settings import BatchSettings, Phase

Name = TypeVar("Name", str, tuple[str, str])


class Offer(Struct, frozen=True, gc=False):
    """A point that could be chosen. ``source_task`` is what two phases, or two splits, may not share: the benchmark
    task, or tenant and task id where the point is of none.
    """

    id: str
    day: date
    timestamp: datetime
    source_task: str
    task_type: str
    complexity: str
    agent_id: str
    success: bool
    overall_score: float
    tenant_id: str = ""
    rl_ready: bool = True


class Rule(Struct, frozen=True, kw_only=True):
    """Which points a phase takes, and which of them its least number counts: a row of the table in SPEC section 6.

    Attributes:
        quality: least overall score, 0–1.
        max_age_days: oldest points.
        failures: ``none`` is taken; all are ``added``, whatever their score, and the least number counts the rest; or
            they are ``counted`` as successes are, and held against the same quality.
    """

    quality: float
    max_age_days: int
    failures: Literal["none", "added", "counted"] = "none"

    def counts(self, offer: Offer) -> bool:
        """Whether a point is of quality, so that the least number counts it."""
        return offer.overall_score >= self.quality and (offer.success or self.failures == "counted")

    def takes(self, offer: Offer) -> bool:
        """Whether a point is taken at all."""
        return self.counts(offer) or (self.failures == "added" and not offer.success)


class Choice(Struct, frozen=True, kw_only=True):
    """The points of each phase, in order."""

    sft: tuple[Offer, ...]
    grpo: tuple[Offer, ...]


def rules_of(criteria: BatchSettings) -> dict[Phase, Rule]:
    """The rules of a training batch."""
    sft, grpo = criteria.sft, criteria.grpo
    return {
        "sft": Rule(
            quality=sft.quality,
            max_age_days=sft.max_age_days,
            failures="counted" if criteria.sft_from_failures else "none",
        ),
        "grpo": with_failures(quality=grpo.quality, max_age_days=grpo.max_age_days),
    }


def with_failures(*, quality: float, max_age_days: int) -> Rule:
    """The rule that adds failures. Where it asks for no quality it counts them, too: every point holds it."""
    return Rule(quality=quality, max_age_days=max_age_days, failures="added" if quality else "counted")


def choose(offers: Iterable[Offer], *, criteria: BatchSettings, marked: dict[str, set[str]], now: datetime) -> Choice:
    """Choose a batch.

    Args:
        offers: what the pool holds.
        criteria: thresholds and sizes.
        marked: per phase the ids of points that an earlier batch used.
        now: ages are counted from here.
    """
    known, rules = list(offers), rules_of(criteria)
    for_sft = one_a_task(
        eligible(known, rules["sft"], marked=marked.get("sft", set()), now=now, measured=not criteria.sft_only)
    )
    sft = pick(for_sft, rules["sft"], least=criteria.sft.points, most=criteria.max_sft_points)
    if criteria.sft_only:
        return Choice(sft=sft, grpo=())
    taken = {offer.source_task for offer in sft}
    others = [offer for offer in known if offer.source_task not in taken]
    for_grpo = one_a_task(eligible(others, rules["grpo"], marked=marked.get("grpo", set()), now=now))
    grpo = pick(for_grpo, rules["grpo"], least=criteria.grpo.points, most=criteria.max_grpo_points)
    return Choice(sft=sft, grpo=grpo)


def eligible(
    offers: Iterable[Offer], rule: Rule, *, marked: set[str], now: datetime, measured: bool = True
) -> list[Offer]:
    """Points that a phase can learn from: young, not used before, of quality or failures as asked.

    ``measured``: with an answer, latency and tokens, as a column says; else whether they have an answer is left to
    those who read what they say. Imported runs have answers that nobody timed.
    """
    return [
        offer
        for offer in fresh(offers, rule.max_age_days, marked=marked, now=now)
        if (offer.rl_ready or not measured) and rule.takes(offer)
    ]


def fresh(offers: Iterable[Offer], max_age_days: int, *, marked: set[str], now: datetime) -> list[Offer]:
    """Those young enough that no earlier batch used in this phase."""
    oldest = now - timedelta(days=max_age_days)
    return [offer for offer in offers if offer.timestamp >= oldest and offer.id not in marked]


def one_a_task(offers: Iterable[Offer]) -> list[Offer]:
    """The best point of each task; of equally good ones the most recent."""
    best: dict[str, Offer] = {}
    for offer in sorted(offers, key=lambda offer: (offer.overall_score, offer.timestamp, offer.id)):
        best[offer.source_task] = offer
    return list(best.values())


def pick(
    candidates: Sequence[Offer],
    rule: Rule,
    *,
    least: int,
    most: int,
    recent_first: bool = True,
    mix: Mapping[str, float] | None = None,
) -> tuple[Offer, ...]:
    """The stratified choice. Failures have their natural share, but take no place that the least number needs."""
    good: list[Offer] = []
    failed: list[Offer] = []
    for offer in candidates:
        (good if rule.counts(offer) else failed).append(offer)
    size = min(most, len(candidates))
    seats = apportioned({"good": len(good), "failed": len(failed)}, seats=size).get("good", 0)
    seats = max(seats, min(least, len(good), size))
    chosen = [
        offer
        for some, count in ((good, seats), (failed, size - seats))
        for offer in stratified(some, size=count, recent_first=recent_first, mix=mix)
    ]
    return tuple(in_order(chosen, recent_first=recent_first))


def stratified(
    offers: Sequence[Offer], *, size: int, recent_first: bool = True, mix: Mapping[str, float] | None = None
) -> tuple[Offer, ...]:
    """At most ``size`` offers, each stratum of task type and complexity with its share.

    Args:
        offers: what there is.
        size: how many to choose at most.
        recent_first: which of a stratum are chosen; otherwise by id, a digest, which is as good as chance.
        mix: shares of the complexities that are to be kept, though fewer are chosen; by default what there is.
    """
    ordered = in_order(offers, recent_first=recent_first)
    if not mix:
        return first_of_strata(ordered, size=size, stratum=attrgetter("task_type", "complexity"))
    levels: dict[str, list[Offer]] = defaultdict(list)
    for offer in ordered:
        levels[offer.complexity].append(offer)
    seats = kept_shares({level: len(levels[level]) for level in mix}, mix, seats=min(size, len(offers)))
    chosen = [
        offer
        for level, count in seats.items()
        for offer in first_of_strata(levels[level], size=count, stratum=attrgetter("task_type"))
    ]
    return tuple(in_order(chosen, recent_first=recent_first))


def in_order(offers: Iterable[Offer], *, recent_first: bool) -> list[Offer]:
    """The order of a batch; ids break ties."""
    if recent_first:
        return sorted(offers, key=attrgetter("timestamp", "id"), reverse=True)
    return sorted(offers, key=attrgetter("id"))


def first_of_strata(ordered: Sequence[Offer], *, size: int, stratum: Callable[[Offer], Name]) -> tuple[Offer, ...]:
    """The first offers of each stratum, as many as are its share (largest remainders), in the order they had."""
    names = list(map(stratum, ordered))
    left = apportioned(Counter(names), seats=min(size, len(ordered)))
    chosen: list[Offer] = []
    for name, offer in zip(names, ordered, strict=True):
        if left[name]:
            left[name] -= 1
            chosen.append(offer)
    return tuple(chosen)


def kept_shares(sizes: Mapping[str, int], mix: Mapping[str, float], *, seats: int) -> dict[str, int]:
    """Seats that keep the shares: as many as the scarcest name allows, none where a name has nothing."""
    if not all(sizes[name] for name in mix):
        seats = 0
    given = apportioned(mix, seats=seats)
    while seats and any(given[name] > sizes[name] for name in given):
        seats = min(seats - 1, *(int((sizes[name] + 1) / mix[name]) for name in given if given[name] > sizes[name]))
        given = apportioned(mix, seats=seats)
    return given


def apportioned(sizes: Mapping[Name, float], *, seats: int) -> dict[Name, int]:
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
