"""What the arbiter keeps of a tenant until it is old: results of single tasks with their answers, judges' opinions."""

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


def count_opinions(pool: BenchmarkPool, tenant: Tenant) -> int:
    """How many opinions of judges are kept of a tenant. They are of answers, and no task is known of them: of some
    tasks alone there are none to count."""
    if tenant.tasks is not None:
        return 0
    with pool.transaction() as connection:
        found = connection.execute("SELECT count(*) FROM judge_opinions WHERE tenant_id = %s", (tenant.id,)).fetchone()
    assert found is not None
    return int(found[0])


def forget_opinions(pool: BenchmarkPool, tenant: Tenant) -> None:
    """Delete all of the tenant's, also where some tasks alone are meant: the judges can be asked again."""
    with pool.transaction() as connection:
        connection.execute("DELETE FROM judge_opinions WHERE tenant_id = %s", (tenant.id,))


def _parameters(tenant: Tenant) -> tuple[Any, ...]:
    tasks = None if tenant.tasks is None else list(tenant.tasks)
    return tenant.id, tasks, tasks
