"""What reports count: the tasks of each agent, UTC day, task type and complexity, as the daily roll-ups have them."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from datetime import date
from typing import Any, TypeVar

from msgspec import Struct
from psycopg import Connection

from flywheel.arbiter.running.cached import CACHE
from flywheel.pool.queries.sums import tally_of
from flywheel.pool.statistics import Tally

Key = TypeVar("Key", bound=Hashable)

TALLIES = """
SELECT agent_id, date, task_type, complexity, sum(tasks), sum(successes), sum(quality_sum), sum(latency_ms_sum),
    sum(tokens_sum), sum(coalesce(timed_tasks, tasks))
FROM daily_statistics WHERE date BETWEEN %s AND %s GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""


class Cell(Struct, frozen=True):
    """Whose tasks, of which day and kind. The complexity is ``unknown`` where an older version counted."""

    agent_id: str
    date: date
    task_type: str
    complexity: str


def read_tallies(connection: Connection[Any], first: date, last: date) -> dict[Cell, Tally]:
    """The tasks of the UTC days from ``first`` to ``last``, both included.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    rows = connection.execute(TALLIES, (first, last))
    return {Cell(*row[:4]): tally_of(row[4:]) for row in rows}


def of_agents(tallies: Mapping[Cell, Tally]) -> dict[Cell, Tally]:
    """The tasks that agents did: what the semantic cache answered was done, and judged, before."""
    return {cell: one for cell, one in tallies.items() if cell.agent_id != CACHE}


def grouped(tallies: Mapping[Cell, Tally], by: Callable[[Cell], Key]) -> dict[Key, Tally]:
    """The tasks by a property of their cells."""
    groups: defaultdict[Key, Tally] = defaultdict(Tally)
    for cell, one in tallies.items():
        groups[by(cell)].merge(one)
    return dict(groups)


def tally(tallies: Mapping[Cell, Tally], holds: Callable[[Cell], bool]) -> Tally:
    """All tasks of the cells that a condition holds for."""
    total = Tally()
    for cell, one in tallies.items():
        if holds(cell):
            total.merge(one)
    return total
