"""What the arbiter keeps of single tasks: their results, with the answers, until they are old."""

from typing import Any

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenants import Tenant

OWN = "FROM task_runs WHERE tenant_id = %s AND (%s::text[] IS NULL OR task_id = ANY(%s))"


def count_runs(pool: BenchmarkPool, tenant: Tenant) -> int:
    """How many there are of a tenant, or of the tasks of it that are meant."""
    with pool.transaction() as connection:
        found = connection.execute(f"SELECT count(*) {OWN}", _parameters(tenant)).fetchone()
    assert found is not None
    return int(found[0])


def forget_runs(pool: BenchmarkPool, tenant: Tenant) -> None:
    """Delete them. A task that runs meanwhile finds its claim lost, and stores nothing."""
    with pool.transaction() as connection:
        connection.execute(f"DELETE {OWN}", _parameters(tenant))


def _parameters(tenant: Tenant) -> tuple[Any, ...]:
    tasks = None if tenant.tasks is None else list(tenant.tasks)
    return tenant.id, tasks, tasks
