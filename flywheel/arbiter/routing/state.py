"""What the arbiter has learned, in PostgreSQL: it survives a restart, and several arbiters add to it at once."""

from collections.abc import Iterable

from sqlalchemy import Connection, Engine, select
from sqlalchemy.dialects.postgresql import insert

from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.routing.strategy import Evidence
from flywheel.arbiter.tables import bandit_state


class BanditState:
    """Evidence per agent and task type."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def evidence(self, task_types: Iterable[str]) -> dict[tuple[str, str], Evidence]:
        """What is known in these task types, by (agent id, task type). Pairs without a task are absent."""
        columns = (
            bandit_state.c.agent_id, bandit_state.c.task_type, bandit_state.c.tasks, bandit_state.c.quality_sum
        )  # fmt: skip
        query = select(*columns).where(bandit_state.c.task_type.in_(sorted(set(task_types))))
        with self._engine.connect() as connection:
            return {
                (row.agent_id, row.task_type): Evidence(tasks=row.tasks, quality_sum=row.quality_sum)
                for row in connection.execute(query)
            }


def learn(connection: Connection, outcomes: Iterable[Outcome]) -> None:
    """Add outcomes to the evidence, by increments in the database: concurrent arbiters lose no update.

    The caller's transaction decides; rows are taken in one order, so that two of them cannot deadlock.
    """
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.agent_id, outcome.task_type)):
        statement = insert(bandit_state).values(
            agent_id=outcome.agent_id,
            task_type=outcome.task_type,
            tasks=1,
            successes=int(outcome.success),
            quality_sum=outcome.quality,
            latency_ms_sum=outcome.latency_ms,
        )
        counters = ("tasks", "successes", "quality_sum", "latency_ms_sum")
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["agent_id", "task_type"],
                set_={name: bandit_state.c[name] + statement.excluded[name] for name in counters},
            )
        )
