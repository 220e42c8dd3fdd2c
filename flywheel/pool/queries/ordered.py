"""A day of the lake in order, which its files do not keep: ids and times are sorted, then the rows are fetched.

In memory are the day's ids and times and a thousand rows; the chosen rows lie in a temporary file meanwhile.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Protocol

from flywheel.pool.lake import ROWS_A_BATCH
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import POINT_COLUMNS

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from flywheel.pool.queries.moved import Moved
    from flywheel.pool.queries.warm import WarmTable

KEYS = ("timestamp", "id")


class Place(Protocol):
    """Where in a day to go on."""

    @property
    def timestamp(self) -> "datetime":
        """Of the last point that was seen."""

    @property
    def id(self) -> str:
        """Its id."""


def ordered_day(
    table: "WarmTable",
    day: date,
    *,
    schema: "pa.Schema",
    condition: "pc.Expression",
    moved: "Moved",
    newest_first: bool,
    after: Place | None,
    limit: int | None,
    folder: Path,
) -> "Iterator[pa.RecordBatch]":
    """The day's rows by timestamp and id, at most ``limit``.

    Args:
        table: the warm tier.
        day: the partition.
        schema: of the rows.
        condition: which rows.
        moved: leaves out what another day has.
        newest_first: or oldest first.
        after: only rows behind this one.
        limit: at most so many; None: all.
        folder: where the rows may lie meanwhile.

    Raises:
        PoolError: the table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if after is not None:
        condition = condition & beyond(after, newest_first=newest_first)
    key_schema = arrow_schema({name: POINT_COLUMNS[name] for name in KEYS})
    found = (moved.passing(batch) for batch in table.read((day,), schema=key_schema, condition=condition))
    keys = pa.Table.from_batches(found, schema=key_schema)
    keys = keys.take(pa.array(sorted_rows(keys, newest_first=newest_first)[:limit]))
    if not len(keys):
        return
    if set(schema.names) <= set(KEYS):
        yield from keys.select(schema.names).cast(schema).to_batches(max_chunksize=ROWS_A_BATCH)
        return
    edge, time = keys["timestamp"][-1], pc.field("timestamp")
    chosen = keys["id"].combine_chunks()
    condition = condition & (time >= edge if newest_first else time <= edge)
    wide = schema
    for field in key_schema:
        wide = wide if field.name in wide.names else wide.append(field)
    rows = table.read((day,), schema=wide, condition=condition)
    kept = (batch.filter(pc.is_in(batch.column("id"), value_set=chosen)) for batch in rows)
    with spooled_batches(kept, schema=wide, folder=folder) as batches:
        order = sorted_rows(pa.Table.from_batches(batches, schema=wide).select(KEYS), newest_first=newest_first)
        for start in range(0, len(order), ROWS_A_BATCH):
            yield gathered(batches, order[start : start + ROWS_A_BATCH]).select(schema.names)


def beyond(after: Place, *, newest_first: bool) -> "pc.Expression":
    """Rows of the same day behind a place."""
    import pyarrow.compute as pc

    time, point_id = pc.field("timestamp"), pc.field("id")
    if newest_first:
        return (time < after.timestamp) | ((time == after.timestamp) & (point_id < after.id))
    return (time > after.timestamp) | ((time == after.timestamp) & (point_id > after.id))


def sorted_rows(keys: "pa.Table", *, newest_first: bool) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Row numbers in order of the keys."""
    import pyarrow.compute as pc

    direction = "descending" if newest_first else "ascending"
    order: np.ndarray[tuple[int], np.dtype[np.uint64]] = pc.sort_indices(
        keys, sort_keys=[(name, direction) for name in KEYS]
    ).to_numpy()
    return order


@contextmanager
def spooled_batches(
    batches: "Iterable[pa.RecordBatch]", *, schema: "pa.Schema", folder: Path
) -> "Iterator[list[pa.RecordBatch]]":
    """The same batches, mapped from a temporary file: the system keeps in memory what it has room for."""
    import pyarrow as pa

    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, prefix=".points-") as file:
        with pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        mapped = pa.memory_map(file.name)
    with mapped, pa.ipc.open_file(mapped) as reader:  # the name is gone, what is mapped stays
        yield [reader.get_batch(number) for number in range(reader.num_record_batches)]


def gathered(batches: "list[pa.RecordBatch]", rows: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> "pa.RecordBatch":
    """Rows of many batches, by their numbers counted through all of them, in the order of the numbers."""
    import numpy as np
    import pyarrow as pa

    starts = np.cumsum([0, *map(len, batches)])
    homes = np.searchsorted(starts, rows, side="right") - 1
    by_home = np.argsort(homes, kind="stable")
    parts = [batches[home].take(pa.array(rows[homes == home] - np.uint64(starts[home]))) for home in np.unique(homes)]
    back = np.empty_like(by_home)
    back[by_home] = np.arange(len(rows))
    (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return whole.take(pa.array(back))
