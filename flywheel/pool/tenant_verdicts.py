"""What the audit trail says of a tenant's tasks: removed with the rest, and the trail says that it was."""

from functools import partial

from flywheel.arbiter.audit_trail.contents import Verdict, read_content
from flywheel.arbiter.audit_trail.erasing import count_verdicts, erase_verdicts
from flywheel.arbiter.audit_trail.outbox import deliver, has_waiting, waiting_in
from flywheel.arbiter.audit_trail.rotation import settled_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenants import Tenant


def count_verdicts_of(pool: BenchmarkPool, tenant: Tenant) -> int:
    """How many there are in the trail, and how many wait on this machine to be appended.

    Raises:
        SegmentError: a file of those that wait cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    waiting = (read_content(sealed.content) for sealed in waiting_in(pool.settings.verdicts_dir))
    theirs = sum(isinstance(one, Verdict) and is_of(tenant, one) for one in waiting)
    return theirs + count_verdicts(pool.engine, tenant.id, tasks=tenant.tasks)


def is_of(tenant: Tenant, verdict: Verdict) -> bool:
    """Whether a verdict is the tenant's, or on one of the tasks of it that are meant."""
    return verdict.tenant_id == tenant.id and (tenant.tasks is None or verdict.task_id in tenant.tasks)


def deliver_verdicts(pool: BenchmarkPool) -> None:
    """Append what waits on this machine: what is not in the trail cannot be erased from it.

    Raises:
        SigningKeyError: something waits, and the trail is signed with another key than this process has.
        SegmentError: a file of those that wait cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    settings = pool.settings
    if has_waiting(settings.verdicts_dir):
        deliver(pool.engine, settings.verdicts_dir, settled_key(settings, pool.engine), head_file=settings.audit_head)


def erase_verdicts_of(pool: BenchmarkPool, tenant: Tenant, *, by: str) -> None:
    """Remove the contents of its verdicts, those that wait on this machine included.

    Raises:
        SigningKeyError: there are some, and the trail is signed with another key than this process has.
        DatabaseError: PostgreSQL cannot be used.
    """
    deliver_verdicts(pool)
    key_of_trail = partial(settled_key, pool.settings, pool.engine)
    erase_verdicts(pool.engine, tenant.id, tasks=tenant.tasks, key_of_trail=key_of_trail, by=by)
