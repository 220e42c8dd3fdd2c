"""A task that an early log moved to another day is in both until both were run again. It is read once."""

from typing import TYPE_CHECKING, Any

from psycopg import Connection

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.plan import Plan
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import POINT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


class Moved:
    """Leaves rows of the lake out that the hot tier has too, or that passed before under another day.

    Only days that are out of date can hold such rows, so that only their ids are kept. In the hot tier ids are unique.
    """

    def __init__(self, pool: BenchmarkPool, connection: "Connection[Any]", plan: Plan) -> None:
        self._suspects = ids_of_late_days(plan)
        self._taken: set[str] = set()
        late_hot = [day for day in plan.hot if day in plan.out_of_date]
        if plan.warm and (late_hot or self._suspects):
            with pool.as_service(connection):
                rows = connection.execute(
                    "SELECT id FROM hot_points WHERE day = ANY(%s) AND (day = ANY(%s) OR id = ANY(%s))",
                    (list(plan.hot), late_hot, list(self._suspects)),
                ).fetchall()
            self._taken = {point_id for (point_id,) in rows}

    def passing(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows that are not known yet. The batch has a column ``id``."""
        import pyarrow as pa

        if not self._taken and not self._suspects:
            return batch
        fresh = []
        for point_id in batch.column("id").to_pylist():
            fresh.append(point_id not in self._taken)
            if point_id in self._suspects:
                self._taken.add(point_id)
        return batch.filter(pa.array(fresh, pa.bool_()))


def ids_of_late_days(plan: Plan) -> set[str]:
    """Ids of the points in the lake's days whose run is due."""
    import pyarrow.compute as pc

    late = [day for day in plan.warm if day in plan.out_of_date]
    if plan.warm_table is None or not late or len(plan.warm) + len(plan.hot) == 1:
        return set()
    schema = arrow_schema({"id": POINT_COLUMNS["id"]})
    batches = plan.warm_table.read(late, schema=schema, condition=pc.scalar(True))
    return {point_id for batch in batches for point_id in batch.column("id").to_pylist()}
