"""What the next training batch can be made of, and what the pool still lacks for it (SPEC section 6)."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.contents import Contents
from flywheel.pool.halts import halted_because, read_open_halts
from flywheel.pool.offers import read_offers
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import WARM
from flywheel.pool.selection import Choice, Offer, Rule, choose, rules_of
from flywheel.pool.splits import untrainable
from flywheel.pool.tiers import unchecked_days
from flywheel.records import utc_day
from flywheel.settings import BatchSettings, Phase, PhaseThreshold

PHASES: tuple[Phase, ...] = ("sft", "grpo")
"""Of a training batch; an export has one of the four."""
DAYS = """
SELECT coalesce(sum(lines_in_points), 0), coalesce(sum(lines_in_points + quarantined), 0),
       coalesce(sum(privacy_violations) FILTER (WHERE points_removed_at IS NULL), 0),
       count(*) FILTER (WHERE points > 0 AND privacy_violations IS NULL AND points_removed_at IS NULL),
       count(privacy_violations)
FROM days WHERE %(days)s::date[] IS NULL OR day = ANY(%(days)s)
"""


class PhaseReadiness(Struct, frozen=True, kw_only=True):
    """What is there for one phase. ``points`` are those of quality; failures come on top where they are added."""

    points: int
    task_types: int
    agents: int


class Readiness(Struct, frozen=True, kw_only=True):
    """What is there for a batch. ``clean_fraction`` is of all lines judged.

    ``privacy_violations`` counts open ones, ``unverified_days`` days with points that await their privacy check,
    ``unchecked_days`` days whose points in the warm tier are others than the check looked at, ``known_task_types``
    those that are configured.
    """

    sft: PhaseReadiness
    grpo: PhaseReadiness
    clean_fraction: float
    privacy_violations: int
    unverified_days: int
    unchecked_days: int = 0
    halted: str = ""
    known_task_types: int = 0


def readiness(pool: BenchmarkPool, *, now: datetime) -> Readiness:
    """Count what a batch made now would hold, by columns: what points say is not read.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        offers, marked = offered_now(pool, connection, now=now)
        choice = choose(offers, criteria=pool.settings.batch, marked=marked, now=now)
        return readiness_of(pool, connection, choice)


def lacking_now(pool: BenchmarkPool, *, now: datetime) -> tuple[str, ...]:
    """What a batch made now would lack. Where it lacks nothing by columns, what its points say is judged, too.

    Raises:
        PoolError: the lake cannot be read, which is not the same as empty.
        DatabaseError: PostgreSQL cannot be used.
    """
    lacking = missing(readiness(pool, now=now), pool.settings.batch)
    if lacking:
        return lacking
    with pool.transaction() as connection:
        choice, _ = chosen_now(pool, connection, contents_now(pool), now=now)
        return missing(readiness_of(pool, connection, choice), pool.settings.batch)


def contents_now(pool: BenchmarkPool) -> Contents:
    """What the points of the warm tier as it is now say, for training."""
    return Contents(pool, version=pool.lake.version(WARM), usable=attrgetter("trainable"))


def chosen_now(
    pool: BenchmarkPool, connection: "Connection[Any]", contents: Contents, *, now: datetime
) -> tuple[Choice, int]:
    """The batch that the pool would make now, and how many points gave way as nothing can be learned from them."""
    offers, marked = offered_now(pool, connection, now=now, version=contents.version)
    unusable = 0
    while True:
        choice = choose(offers, criteria=pool.settings.batch, marked=marked, now=now)
        gone = contents.judge([*choice.sft, *choice.grpo]).unusable
        if not gone:
            return choice, unusable
        unusable += len(gone)
        offers = [offer for offer in offers if offer.id not in gone]


def offered_now(
    pool: BenchmarkPool, connection: "Connection[Any]", *, now: datetime, version: int | None = None
) -> tuple[list[Offer], dict[str, set[str]]]:
    """What a batch can be chosen from, and per phase the points that are marked.

    These are points that name a benchmark task; for SFT alone, points of any origin.
    """
    criteria = pool.settings.batch
    oldest = now - timedelta(days=max(criteria.sft.max_age_days, criteria.grpo.max_age_days))
    offers = list(read_offers(pool, since=oldest, version=version, verifiable=not criteria.sft_only))
    kept = untrainable(connection, pool.settings, {offer.source_task for offer in offers})
    marked = marked_points(connection, PHASES, since=oldest)
    return [offer for offer in offers if offer.source_task not in kept], marked


def marked_points(connection: "Connection[Any]", phases: Sequence[Phase], *, since: datetime) -> dict[str, set[str]]:
    """Per phase the points from this day on that a batch used and did not give back."""
    marked: dict[str, set[str]] = {phase: set() for phase in phases}
    marks = "SELECT phase, point_id FROM batch_points WHERE NOT released AND phase = ANY(%s) AND day >= %s"
    for phase, point_id in connection.execute(marks, (list(phases), utc_day(since))):
        marked[phase].add(point_id)
    return marked


class DaysState(Struct, frozen=True, kw_only=True):
    """What the ledger says of days with points. ``clean_fraction`` is of all lines judged, None where none was."""

    clean_fraction: float | None
    privacy_violations: int
    unverified_days: int
    unchecked_days: int


def days_state(connection: "Connection[Any]", days: Collection[date] | None = None) -> DaysState:
    """The state of these days, or of all. A day that was asked for and is not in the ledger is unverified."""
    row = connection.execute(DAYS, {"days": None if days is None else list(days)}).fetchone()
    assert row is not None
    clean, judged, violations, unverified, verified = (int(value) for value in row)
    unchecked = unchecked_days(connection)
    return DaysState(
        clean_fraction=clean / judged if judged else None,
        privacy_violations=violations,
        unverified_days=unverified if days is None else len(days) - verified,
        unchecked_days=len(unchecked if days is None else unchecked.intersection(days)),
    )


def unfit_days(state: DaysState, *, wanted: float) -> Iterator[str]:
    """Why days may not be trained on, a sentence with its numbers each. ``wanted`` is the least clean fraction."""
    if state.clean_fraction is not None and state.clean_fraction < wanted:
        yield f"{state.clean_fraction:.1%} of the lines are clean, {wanted:.0%} needed"
    if state.privacy_violations:
        yield f"{state.privacy_violations:,} privacy violations are open, none allowed"
    if state.unverified_days:
        yield f"the privacy check of {state.unverified_days:,} days with points has not run"
    if state.unchecked_days:
        yield (
            f"the warm tier has other points of {state.unchecked_days:,} days than the privacy check looked at; "
            f"run these days again"
        )


def readiness_of(pool: BenchmarkPool, connection: "Connection[Any]", choice: Choice) -> Readiness:
    """The numbers of a choice, and of the days behind it."""
    rules = rules_of(pool.settings.batch)
    state = days_state(connection)
    return Readiness(
        sft=phase_readiness(choice.sft, rules["sft"]),
        grpo=phase_readiness(choice.grpo, rules["grpo"]),
        clean_fraction=state.clean_fraction or 0.0,
        privacy_violations=state.privacy_violations,
        unverified_days=state.unverified_days,
        unchecked_days=state.unchecked_days,
        halted=halted_because(read_open_halts(connection)),
        known_task_types=len(pool.settings.task_types),
    )


def phase_readiness(offers: Sequence[Offer], rule: Rule) -> PhaseReadiness:
    """Counts of one phase."""
    return PhaseReadiness(
        points=sum(rule.counts(offer) for offer in offers),
        task_types=len({offer.task_type for offer in offers}),
        agents=len({offer.agent_id for offer in offers}),
    )


def missing(ready: Readiness, criteria: BatchSettings) -> tuple[str, ...]:
    """What a batch still lacks, a sentence with its numbers each; empty when a batch can be made."""
    lacking = [
        *filter(None, [ready.halted]),
        *missing_for("SFT", ready.sft, criteria.sft, known_task_types=ready.known_task_types),
    ]
    if not criteria.sft_only:
        lacking += missing_for("GRPO", ready.grpo, criteria.grpo, known_task_types=ready.known_task_types)
    state = DaysState(
        clean_fraction=ready.clean_fraction,
        privacy_violations=ready.privacy_violations,
        unverified_days=ready.unverified_days,
        unchecked_days=ready.unchecked_days,
    )
    lacking += unfit_days(state, wanted=criteria.clean_fraction)
    return tuple(lacking)


def missing_for(name: str, ready: PhaseReadiness, threshold: PhaseThreshold, *, known_task_types: int) -> Iterator[str]:
    """What one phase lacks."""
    task_types = threshold.task_types or known_task_types
    if ready.points < threshold.points:
        yield f"{ready.points:,} of {threshold.points:,} new points with quality ≥ {threshold.quality} for {name}"
    if ready.task_types < task_types:
        yield f"{ready.task_types} of {task_types} task types for {name}"
    if ready.agents < threshold.agents:
        yield f"{ready.agents} of {threshold.agents} agents for {name}"
