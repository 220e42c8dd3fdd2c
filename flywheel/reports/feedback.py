"""The feedback report on an agent (SPEC section 2): how it did, where it goes, what it should be trained in.

Made of the daily roll-ups and of measured changes of capabilities, which are kept for two years: the report of any of
these days can be made at any time, and nothing else has to be stored. A day's report looks at the ``WINDOW_DAYS`` that
end with the day, never beyond it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from hashlib import blake2b
from operator import itemgetter

import msgspec
from msgspec import Struct

from flywheel.arbiter.capability_events import CapabilityEvent, events
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.statistics import Figures, figures_of
from flywheel.pool.statistics import Tally
from flywheel.reports.tallies import Cell, grouped, of_agents, read_tallies
from flywheel.reports.trends import Trend, trend_of
from flywheel.training.intervals import Interval, difference

WINDOW_DAYS = 28
"""Whole weeks, so that each weekday counts as much as the others."""
LEAST_TASKS = 20
"""Of an agent, and of all others, in a task type; fewer are not compared."""
CONFIDENCE = 0.99
"""That an agent is called better or worse than the others in a task type by less than chance."""
COLUMNS: dict[str, tuple[str, str]] = {
    "agent_id": ("string", "a row for each agent with a task in the window, or that changed on the day"),
    "day": ("date", "the UTC day that the report is of"),
    "today": ("struct", "tasks, success rate, quality, latency and tokens of the day"),
    "window": ("struct", f"the same of the {WINDOW_DAYS} days that end with it"),
    "trends": ("map", "of success rate, quality and latency over the window: direction, slope a day, τ, p-value"),
    "capability_changes": ("list", "found on the day: added, improved or degraded, with success rates from and to"),
    "training_needs": ("list", "task types in which the agent does worse than the others, beyond chance"),
    "strengths": ("list", "task types in which it does better"),
}
"""The fields of a report, their types and what they are."""
Quantity = Callable[[Figures], float | None]
QUANTITIES: tuple[tuple[str, bool, Quantity], ...] = (
    ("success_rate", True, lambda figures: figures.success_rate),
    ("quality", True, lambda figures: figures.mean_quality),
    ("latency_ms", False, lambda figures: figures.mean_latency_ms),
)
"""What trends are of, whether more of it is better, and where it is."""


class CapabilityChange(Struct, frozen=True, kw_only=True):
    """A measured change of what the agent can do. Success rates are 0–1; ``before`` is None where it was added."""

    kind: str
    field: str
    name: str
    before: float | None
    after: float
    sentence: str


class Standing(Struct, frozen=True, kw_only=True):
    """How an agent does in a task type beside all others; ``lead`` is its success rate minus theirs."""

    task_type: str
    tasks: int
    success_rate: float
    others_tasks: int
    others_success_rate: float
    lead: Interval

    @property
    def sentence(self) -> str:
        """The same in words."""
        return (
            f"{self.task_type}: {self.success_rate:.1%} of {self.tasks:,} tasks succeeded, of the others' "
            f"{self.others_tasks:,} {self.others_success_rate:.1%} ({self.lead.value * 100:+.1f} points, "
            f"{self.lead.low * 100:+.1f} to {self.lead.high * 100:+.1f})"
        )


class FeedbackReport(Struct, frozen=True, kw_only=True):
    """What a day says of an agent. ``window`` is of the ``WINDOW_DAYS`` that end with it; so are all but ``today``.

    ``training_needs`` and ``strengths`` are task types in which the agent is worse or better than the others by more
    than chance explains, the widest gap first. ``capability_changes`` were found on the day.
    """

    agent_id: str
    day: date
    today: Figures
    window: Figures
    trends: dict[str, Trend]
    capability_changes: tuple[CapabilityChange, ...]
    training_needs: tuple[Standing, ...]
    strengths: tuple[Standing, ...]


class Window(Struct, frozen=True, kw_only=True):
    """The tasks of a window: of each agent by day and by task type, and of all agents by task type."""

    by_day: dict[tuple[str, date], Tally]
    by_type: dict[tuple[str, str], Tally]
    of_type: dict[str, Tally]


def feedback_reports(pool: BenchmarkPool, day: date) -> tuple[FeedbackReport, ...]:
    """The reports of a UTC day, one for each agent that had a task in its window or changed on the day, by id.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        tallies = of_agents(read_tallies(connection, day - timedelta(days=WINDOW_DAYS - 1), day))
    midnight = datetime.combine(day, time(), UTC)
    found = events(pool.engine, since=midnight, until=midnight + timedelta(days=1))
    window = window_of(tallies)
    agents = sorted({cell.agent_id for cell in tallies} | {event.agent_id for event in found})
    return tuple(
        report_of(agent_id, day, window, [event for event in found if event.agent_id == agent_id])
        for agent_id in agents
    )


def window_of(tallies: Mapping[Cell, Tally]) -> Window:
    """The tasks of all agents, grouped once for all reports."""
    return Window(
        by_day=grouped(tallies, lambda cell: (cell.agent_id, cell.date)),
        by_type=grouped(tallies, lambda cell: (cell.agent_id, cell.task_type)),
        of_type=grouped(tallies, lambda cell: cell.task_type),
    )


def report_of(agent_id: str, day: date, window: Window, changes: Sequence[CapabilityEvent]) -> FeedbackReport:
    """The report of an agent, of which ``changes`` were found on the day. Pure."""
    by_day = {of_day: one for (agent, of_day), one in window.by_day.items() if agent == agent_id}
    total = Tally()
    for one in by_day.values():
        total.merge(one)
    standings = sorted(standings_of(agent_id, window), key=lambda standing: abs(standing.lead.value), reverse=True)
    return FeedbackReport(
        agent_id=agent_id,
        day=day,
        today=figures_of(by_day.get(day, Tally())),
        window=figures_of(total),
        trends={name: trend_in(by_day, of, is_better) for name, is_better, of in QUANTITIES},
        capability_changes=tuple(map(change_of, changes)),
        training_needs=tuple(standing for standing in standings if standing.lead.high < 0),
        strengths=tuple(standing for standing in standings if standing.lead.low > 0),
    )


def trend_in(by_day: Mapping[date, Tally], of: Quantity, higher_is_better: bool) -> Trend:
    """The trend of a quantity over the days that have it."""
    values = {day: of(figures_of(one)) for day, one in by_day.items()}
    known = {day: value for day, value in values.items() if value is not None}
    return trend_of(known, higher_is_better=higher_is_better)


def standings_of(agent_id: str, window: Window) -> Iterator[Standing]:
    """How the agent does beside the others, in each task type in which there are enough tasks of both."""
    for (agent, task_type), own in sorted(window.by_type.items(), key=itemgetter(0)):
        every = window.of_type[task_type]
        tasks, successes = every.tasks - own.tasks, every.successes - own.successes
        if agent != agent_id or min(own.tasks, tasks) < LEAST_TASKS:
            continue
        yield Standing(
            task_type=task_type,
            tasks=own.tasks,
            success_rate=own.successes / own.tasks,
            others_tasks=tasks,
            others_success_rate=successes / tasks,
            lead=difference((successes, tasks), (own.successes, own.tasks), confidence=CONFIDENCE),
        )


def change_of(event: CapabilityEvent) -> CapabilityChange:
    """A measured change with its rates."""
    rates = event.evidence
    before, after = (None, rates) if event.kind == "added" else (rates["before"], rates["after"])
    return CapabilityChange(
        kind=event.kind,
        field=event.field,
        name=event.name,
        before=None if before is None else before["success_rate"],
        after=after["success_rate"],
        sentence=event.sentence,
    )


def digest_of(reports: Sequence[FeedbackReport]) -> str:
    """32 hex digits of what the reports say."""
    return blake2b(msgspec.json.encode(reports), digest_size=16).hexdigest()
