"""Agents beside each other over a week or a month, and each beside itself in the period before (SPEC section 11)."""

from datetime import date, timedelta
from typing import Literal

from msgspec import Struct

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.statistics import Figures, figures_of
from flywheel.pool.statistics import Tally
from flywheel.reports.tallies import grouped, of_agents, read_tallies
from flywheel.training.intervals import Interval, difference, wilson

Period = Literal["week", "month"]
CONFIDENCE = 0.95


class ComparedAgent(Struct, frozen=True, kw_only=True):
    """An agent in the period, and ``before`` in the one before. Rates are 0–1, with 95 % intervals.

    ``change`` is of the success rate since the period before; None where the agent had no task in it.
    """

    agent_id: str
    figures: Figures
    success_rate: Interval
    before: Figures
    change: Interval | None

    @property
    def verdict(self) -> str:
        """What the change says, in words."""
        if self.change is None:
            return "new"
        if self.change.low > 0:
            return "better"
        return "worse" if self.change.high < 0 else "no more than chance"


class Comparison(Struct, frozen=True, kw_only=True):
    """All agents with a task in the period, the highest success rate first. ``first`` and ``last`` are its UTC days.

    ``counted_until`` is the last of them that is counted: a period that is under way is compared as far as it is.
    """

    period: Period
    first: date
    last: date
    counted_until: date
    agents: tuple[ComparedAgent, ...]


def compare_agents(pool: BenchmarkPool, period: Period, *, until: date) -> Comparison:
    """Compare the agents over the period that ``until`` lies in, up to this day, with the whole period before.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    first, last = days_of(period, until)
    before, _ = days_of(period, first - timedelta(days=1))
    with pool.transaction() as connection:
        tallies = of_agents(read_tallies(connection, before, until))
    halves = grouped(tallies, lambda cell: (cell.agent_id, cell.date >= first))
    compared = [
        compared_agent(agent_id, figures_of(now), figures_of(halves.get((agent_id, False), Tally())))
        for (agent_id, is_now), now in halves.items()
        if is_now
    ]
    compared.sort(key=lambda agent: (-agent.success_rate.value, agent.agent_id))
    return Comparison(period=period, first=first, last=last, counted_until=until, agents=tuple(compared))


def compared_agent(agent_id: str, now: Figures, before: Figures) -> ComparedAgent:
    """An agent with tasks now, beside itself."""
    rate, earlier = (now.successes, now.tasks), (before.successes, before.tasks)
    return ComparedAgent(
        agent_id=agent_id,
        figures=now,
        success_rate=wilson(*rate, confidence=CONFIDENCE),
        before=before,
        change=difference(earlier, rate, confidence=CONFIDENCE) if before.tasks else None,
    )


def days_of(period: Period, day: date) -> tuple[date, date]:
    """First and last day of the ISO week or calendar month that a day lies in."""
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=6)
    first = day.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return first, following - timedelta(days=1)
