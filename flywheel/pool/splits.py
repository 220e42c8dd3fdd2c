"""Which tasks may be trained on: what their benchmark publishes, what earlier batches held out, and who kept to it."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings, TasksSettings
from flywheel.tasks.catalog import environment_name, environment_names, environment_of, source_names
from flywheel.tasks.source import Split

LEAKED = """
WITH own AS (SELECT DISTINCT source_task, split FROM batch_points WHERE batch_id = %(batch)s)
SELECT source_task FROM own GROUP BY source_task HAVING count(*) > 1
UNION
SELECT own.source_task FROM own JOIN batch_points AS earlier USING (source_task)
JOIN batches ON batches.id = earlier.batch_id
WHERE own.split <> 'held-out' AND earlier.split = 'held-out' AND earlier.batch_id <> %(batch)s
  AND batches.created_at <= (SELECT created_at FROM batches WHERE id = %(batch)s)
"""


def held_out_before(connection: Connection[Any], tasks: Collection[str]) -> frozenset[str]:
    """Which of these tasks some batch held out, also one that was released: they are never trained on again."""
    rows = connection.execute(
        "SELECT DISTINCT source_task FROM batch_points WHERE split = 'held-out' AND source_task = ANY(%b)",
        (list(tasks),),  # as bytes: quoting ten thousand texts takes longer than asking
    )
    return frozenset(task for (task,) in rows)


def trained_before(connection: Connection[Any], tasks: Collection[str]) -> frozenset[str]:
    """Which of these tasks an earlier batch trained on."""
    rows = connection.execute(
        "SELECT DISTINCT source_task FROM batch_points WHERE split = 'train' AND source_task = ANY(%b)",
        (list(tasks),),
    )
    return frozenset(task for (task,) in rows)


def published_splits(settings: Settings, tasks: Collection[str]) -> Mapping[str, Split]:
    """The configured sources' own splits, of those sources that any of these tasks is of; others are not read.

    Raises:
        TaskSourceError: the data of one cannot be read.
    """
    named = {environment_name(task) for task in tasks}
    of_sources = [splits_of_source(name, settings.tasks) for name in source_names(settings.tasks) if name in named]
    return {task: split for splits in of_sources for task, split in splits.items()}


@lru_cache(maxsize=16)
def splits_of_source(name: str, tasks: TasksSettings) -> Mapping[str, Split]:
    """The split of every task of a source; reading the benchmark takes a third of a second."""
    return {task.id: task.split for task in environment_of(name, tasks).tasks()}


def untrainable(connection: Connection[Any], settings: Settings, tasks: Collection[str]) -> frozenset[str]:
    """Which of these benchmark tasks the training loop never trains on: held out by an earlier batch, or by the
    benchmark itself, which keeps them for validation or holds them out, or does not know them; or of another
    environment, whose answers the loop cannot verify.

    Raises:
        TaskSourceError: tasks are of the configured benchmark, and its data cannot be read.
    """
    benchmark, others = settings.tasks.source, set(environment_names()) - {settings.tasks.source}
    own = [task for task in tasks if environment_name(task) == benchmark]
    published = published_splits(settings, own)
    kept = {task for task in own if published.get(task) is not Split.TRAIN}
    unverifiable = {task for task in tasks if environment_name(task) in others}
    return held_out_before(connection, tasks) | kept | unverifiable


def leaked_tasks(pool: BenchmarkPool, batch_id: str) -> tuple[str, ...]:
    """Tasks that a batch trains or validates on and that it or an earlier batch holds out, or has in two splits, or
    trains on though their benchmark keeps them from training.

    There are none; the check asks the ledger, not this sentence. A batch that was released counts as earlier, too.

    Raises:
        PoolError: there is no such batch.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        if connection.execute("SELECT FROM batches WHERE id = %s", (batch_id,)).fetchone() is None:
            raise PoolError(f"there is no batch {batch_id}; `flywheel pool batches` lists them")
        return leaked_now(connection, pool.settings, batch_id)


def leaked_now(connection: Connection[Any], settings: Settings, batch_id: str) -> tuple[str, ...]:
    """The same, in the caller's transaction."""
    leaked = {task for (task,) in connection.execute(LEAKED, {"batch": batch_id})}
    rows = connection.execute(
        "SELECT DISTINCT source_task FROM batch_points"
        " WHERE batch_id = %s AND split = 'train' AND split_part(source_task, ':', 1) = ANY(%s)",
        (batch_id, list(source_names(settings.tasks))),
    )
    trained = [task for (task,) in rows]
    published = published_splits(settings, trained)
    return tuple(sorted(leaked | {task for task in trained if published.get(task, Split.TRAIN) is not Split.TRAIN}))


def check_leakage(connection: Connection[Any], settings: Settings, batch_id: str) -> None:
    """Hold a batch that is about to be committed against what it must not train on.

    Raises:
        PoolError: it does.
    """
    leaked = leaked_now(connection, settings, batch_id)
    if leaked:
        raise PoolError(
            f"batch {batch_id} was not made: {len(leaked):,} of its tasks are held out or in two splits, "
            f"the first is {leaked[0]}; this is an error in the flywheel, please report it"
        )
