"""What an export asks for, and which points it takes: pure choice, with the functions that choose training batches."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import inf
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import Struct

from flywheel.errors import QueryError
from flywheel.pool.contents import Judgement
from flywheel.pool.filters import PointFilter
from flywheel.pool.selection import Offer, Rule, eligible, pick, with_failures
from flywheel.records import Complexity
from flywheel.settings import Phase, Settings
from flywheel.tasks.source import Split
from flywheel.tasks.splits import split_of

SplitName = Literal["train", "validation", "held-out"]
LONGEST_AGE_DAYS = 36_500  # a century: there are no older logs, and longer ones leave the calendar
RESERVE = 32
"""So many chosen points have one in reserve: drawing it at once costs less than reading the tier again."""
SPLITS: tuple[SplitName, ...] = ("train", "validation", "held-out")
SPLIT_NAMES: dict[Split, SplitName] = {
    Split.TRAIN: "train",
    Split.VALIDATION: "validation",
    Split.HELDOUT: "held-out",
}


class ExportCriteria(Struct, frozen=True, kw_only=True):
    """What decides an export.

    Attributes:
        phase: which row of SPEC's table it is for; its points are marked for this phase.
        min_points: fewer points of quality, and nothing is exported. Failures do not count.
        max_points: at most so many, failures included.
        min_quality: least overall score, 0–1, of points that are no failures.
        max_age_days: oldest points.
        min_task_types: least number of different task types.
        min_agents: least number of different agents.
        only: what every point must hold, failures too.
        complexity_mix: shares by complexity that are kept exactly, summing to 1; empty: as the pool has them.
        prefer_recent: the most recent of a stratum first; otherwise by id, a digest, spread over all times.
        include_failures: points that did not succeed come on top, whatever their quality, in their natural share.
        remove_near_duplicates: of points that say almost the same the best stays.
        validation_fraction: share of tasks for validation, 0–1.
        heldout_fraction: share of tasks held out, 0–1; the rest is for training.
        noise_epsilon: ε of noise on the rewards; None: as the privacy policy has it.
        noise_delta: δ of Gaussian noise, 0–1; None: Laplace noise, whose δ is 0.
    """

    phase: Phase
    min_points: int
    max_points: int
    min_quality: float
    max_age_days: int
    min_task_types: int = 1
    min_agents: int = 1
    only: PointFilter = PointFilter()
    complexity_mix: dict[str, float] = {}
    prefer_recent: bool = True
    include_failures: bool = False
    remove_near_duplicates: bool = True
    validation_fraction: float = 0.1
    heldout_fraction: float = 0.1
    noise_epsilon: float | None = None
    noise_delta: float | None = None


class ExportChoice(Struct, frozen=True, kw_only=True):
    """The points of an export in order, failures among them, and how many were left out.

    ``no_place`` counts those that the complexity mix, or the greatest number, has no place for.
    """

    offers: tuple[Offer, ...]
    unusable: int = 0
    near_duplicates: int = 0
    no_place: int = 0


def criteria_for(settings: Settings, phase: Phase, **changes: Any) -> ExportCriteria:
    """The criteria of a phase as configured; at most twice its points.

    ``changes`` replace fields. Where they name task types or agents, no more different ones are asked for than those.

    Raises:
        QueryError: they contradict each other.
    """
    row = settings.batch.phases[phase]
    only = changes.get("only", PointFilter())
    types, agents = row.task_types or len(settings.task_types), row.agents
    fields: dict[str, Any] = {
        "min_points": row.points,
        "max_points": max(2 * row.points, changes.get("min_points", 0)),
        "min_quality": row.quality,
        "max_age_days": row.max_age_days,
        "min_task_types": min(types, len(set(only.task_types)) or types),
        "min_agents": min(agents, len(set(only.agents)) or agents),
    }
    criteria = ExportCriteria(phase=phase, **(fields | changes))
    problems = "; ".join(contradictions(criteria))
    if problems:
        raise QueryError(f"these criteria cannot be met by any point: {problems}")
    return criteria


def contradictions(criteria: ExportCriteria) -> Iterator[str]:
    """What is wrong with criteria, a sentence each."""
    only, mix = criteria.only, criteria.complexity_mix
    if not 0 < criteria.min_points <= criteria.max_points:
        yield f"at least {criteria.min_points:,} points and at most {criteria.max_points:,}"
    if not 0 <= criteria.min_quality <= 1:
        yield f"quality {criteria.min_quality} is not within 0–1"
    if not 0 < criteria.max_age_days <= LONGEST_AGE_DAYS:
        yield f"an age of at most {criteria.max_age_days:,} days; it must be within 1–{LONGEST_AGE_DAYS:,}"
    if criteria.phase == "sft" and criteria.include_failures:
        yield "SFT learns from successes only, failures are for the other phases"
    fractions = (criteria.validation_fraction, criteria.heldout_fraction)
    if not (all(share >= 0 for share in fractions) and sum(fractions) < 1):
        yield f"validation {fractions[0]} and held-out {fractions[1]} leave no share for training"
    epsilon, delta = criteria.noise_epsilon, criteria.noise_delta
    if epsilon is not None and not 0 < epsilon < inf:
        yield f"noise with an ε of {epsilon:g}, which must be above 0"
    if delta is not None and (epsilon is None or not 0 < delta < 1):
        yield f"a δ of {delta:g}: it must be above 0 and below 1, and goes with an ε"
    if only.since and only.until and only.since >= only.until:
        yield f"a time from {only.since} to {only.until}"
    if unknown := sorted(set(mix) - {level.value for level in Complexity}):
        yield f"complexity {', '.join(unknown)} is none of {', '.join(level.value for level in Complexity)}"
    if mix and not (all(share > 0 for share in mix.values()) and abs(sum(mix.values()) - 1) <= 1e-6):
        yield f"the shares of the complexity mix must be above 0 and sum to 1, not {sum(mix.values()):g}"


def choose_export(
    offers: Iterable[Offer],
    criteria: ExportCriteria,
    *,
    marked: set[str],
    now: datetime,
    judge: Callable[[Sequence[Offer]], Judgement] = lambda _: Judgement(),
) -> ExportChoice:
    """Choose an export: choose, let the points' contents be judged, and choose again without those that must not stay.

    Args:
        offers: what the pool holds.
        criteria: what decides.
        marked: ids of points that an earlier batch used in this phase.
        now: ages are counted from here.
        judge: given chosen points and a small reserve, those that stayed and the best first, says which must not stay.
            It is asked until all that are chosen were judged.
    """
    only = criteria.only
    asked = offers if only == PointFilter() else [offer for offer in offers if matches(offer, only)]
    candidates = eligible(asked, rule_of(criteria), marked=marked, now=now)
    judged: set[str] = set()
    unusable = near_duplicates = 0
    while True:
        chosen = picked(candidates, criteria, most=criteria.max_points)
        if not judged.issuperset(offer.id for offer in chosen):
            known = {offer.id for offer in chosen}
            wider = picked(candidates, criteria, most=criteria.max_points + 1 + criteria.max_points // RESERVE)
            spare = [offer for offer in wider if offer.id not in known]
            stayed = [offer for offer in chosen if offer.id in judged]
            new = [offer for offer in chosen if offer.id not in judged]
            judgement = judge([*best_first(stayed), *best_first(new), *best_first(spare)])
            judged |= known | {offer.id for offer in spare}
            unusable += len(judgement.unusable)
            near_duplicates += len(judgement.near_duplicates)
            gone = judgement.unusable | judgement.near_duplicates
            candidates = [offer for offer in candidates if offer.id not in gone]
            if not gone.isdisjoint(known):
                continue
        return ExportChoice(
            offers=chosen,
            unusable=unusable,
            near_duplicates=near_duplicates,
            no_place=len(candidates) - len(chosen),
        )


def picked(candidates: Sequence[Offer], criteria: ExportCriteria, *, most: int) -> tuple[Offer, ...]:
    """The stratified choice that the criteria ask for."""
    return pick(
        candidates,
        rule_of(criteria),
        least=criteria.min_points,
        most=most,
        recent_first=criteria.prefer_recent,
        mix=criteria.complexity_mix,
    )


def best_first(offers: Iterable[Offer]) -> list[Offer]:
    """The order in which points are judged: of two that say the same the first stays."""
    return sorted(offers, key=attrgetter("overall_score", "timestamp", "id"), reverse=True)


def rule_of(criteria: ExportCriteria) -> Rule:
    """The rule of an export."""
    if criteria.include_failures:
        return with_failures(quality=criteria.min_quality, max_age_days=criteria.max_age_days)
    return Rule(quality=criteria.min_quality, max_age_days=criteria.max_age_days)


def matches(offer: Offer, only: PointFilter) -> bool:
    """Whether a point holds every condition of a filter."""
    return (
        (only.since is None or offer.timestamp >= only.since)
        and (only.until is None or offer.timestamp < only.until)
        and (not only.task_types or offer.task_type in only.task_types)
        and (not only.complexities or offer.complexity in only.complexities)
        and (not only.agents or offer.agent_id in only.agents)
        and (not only.tenants or offer.tenant_id in only.tenants)
        and (only.min_quality is None or offer.overall_score >= only.min_quality)
        and (only.success is None or offer.success == only.success)
        and (only.rl_ready is None or offer.rl_ready == only.rl_ready)
    )


def split_tasks(
    tasks: Collection[str],
    criteria: ExportCriteria,
    *,
    held_out: Collection[str] = (),
    published: Mapping[str, Split] | None = None,
) -> dict[str, SplitName]:
    """The split of each task.

    By the hash of its name, so it is the same in every export with these fractions. What an earlier batch held out
    stays held out, and what a benchmark keeps from training keeps its place there.

    Args:
        tasks: to be split.
        criteria: the fractions.
        held_out: tasks of earlier held-out sets.
        published: the benchmark's own split of its tasks.
    """
    fractions = {
        "heldout_fraction": criteria.heldout_fraction,
        "validation_fraction": criteria.validation_fraction,
    }
    own = published or {}

    def name_of(task: str) -> SplitName:
        if task in held_out:
            return "held-out"
        benchmark = own.get(task, Split.TRAIN)
        return SPLIT_NAMES[split_of(task, **fractions) if benchmark is Split.TRAIN else benchmark]

    return {task: name_of(task) for task in tasks}


def lacking(choice: ExportChoice, criteria: ExportCriteria, *, configured: Sequence[str]) -> Iterator[str]:
    """What an export still lacks, a sentence with its numbers each."""
    offers, rule = choice.offers, rule_of(criteria)
    of_quality = sum(rule.counts(offer) for offer in offers)
    if of_quality < criteria.min_points:
        yield (
            f"{of_quality:,} of {criteria.min_points:,} new points with quality ≥ {criteria.min_quality} "
            f"of the last {criteria.max_age_days} days for {criteria.phase}{left_out(choice)}"
        )
    types = {offer.task_type for offer in offers}
    if len(types) < criteria.min_task_types:
        absent = sorted(set(criteria.only.task_types or configured) - types)
        yield f"{len(types)} of {criteria.min_task_types} task types for {criteria.phase}: no {', '.join(absent)}"
    agents = {offer.agent_id for offer in offers}
    if len(agents) < criteria.min_agents:
        yield f"{len(agents)} of {criteria.min_agents} agents for {criteria.phase}"


def left_out(choice: ExportChoice) -> str:
    """How many points were left out and why, to follow a sentence; empty where none was."""
    counted = {
        "for which the complexity mix has no place": choice.no_place,
        "near-duplicates": choice.near_duplicates,
        "without a conversation to learn from": choice.unusable,
    }
    reasons = ", ".join(f"{number:,} {why}" for why, number in counted.items() if number)
    return f"; left out are {reasons}" if reasons else ""


def nothing_to_train_on(splits: Mapping[str, SplitName]) -> Iterator[str]:
    """The same, where no task of an export is in its train split. ``splits`` are by source task."""
    if splits and "train" not in splits.values():
        counts = Counter(splits.values())
        told = " and ".join(f"{counts[split]:,} for {split}" for split in SPLITS if counts[split])
        yield f"no task to train on: of its {len(splits):,} tasks {told}"


def distribution(offers: Sequence[Offer], splits: Mapping[str, SplitName] | None) -> dict[str, dict[str, int]]:
    """How many points there are of each kind. ``splits`` are by source task; without them all is for training."""
    return {
        "task_types": dict(Counter(offer.task_type for offer in offers)),
        "complexities": dict(Counter(offer.complexity for offer in offers)),
        "agents": dict(Counter(offer.agent_id for offer in offers)),
        "outcomes": dict(Counter("success" if offer.success else "failure" for offer in offers)),
        "splits": dict(Counter("train" if splits is None else splits[offer.source_task] for offer in offers)),
    }


def described(criteria: ExportCriteria) -> dict[str, Any]:
    """The criteria as JSON has them."""
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(criteria))
    return built
