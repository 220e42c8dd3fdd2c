"""What becomes of one record: logs as they are written, with what is counted of them, or the reason why there are none.

All of it is pure and small enough to be handed from one process to another.
"""

from msgspec import Struct
from msgspec.structs import replace

from flywheel.collection.completion import Completed, Terms, complete
from flywheel.collection.fidelity import Tally, tally_of, tally_of_task
from flywheel.collection.importers.interface import Line, Logs, Outcome, Rejected, Run
from flywheel.collection.segments import MAX_PAYLOAD_BYTES
from flywheel.records import Log, encode


class Written(Struct, frozen=True):
    """The logs of one record, encoded."""

    payloads: tuple[bytes, ...]
    tally: Tally


Entry = Written | Line | Rejected


def entry_of(outcome: Outcome, terms: Terms) -> Entry:
    """What becomes of what an importer made of a record."""
    if isinstance(outcome, Run):
        completed = complete(outcome, terms)
        return completed if isinstance(completed, Rejected) else written_run(outcome, completed)
    if isinstance(outcome, Logs):
        logs = logs_of(outcome, terms)
        return written(logs, tally_of_task(logs))
    return outcome


def written_run(run: Run, completed: Completed) -> Written | Rejected:
    """A run's logs, encoded."""
    return written(completed.logs, tally_of(run, completed))


def written(logs: tuple[Log, ...], tally: Tally) -> Written | Rejected:
    """Logs, encoded, unless one is larger than what a frame may hold."""
    payloads = tuple(map(encode, logs))
    if (largest := max(map(len, payloads))) > MAX_PAYLOAD_BYTES:
        return Rejected(reason="record too large", detail=f"a log of it has {largest:,} bytes")
    return Written(payloads, tally)


def logs_of(ready: Logs, terms: Terms) -> tuple[Log, ...]:
    """Ready-made logs, with the import's tenant where they have none of their own."""
    if ready.own_tenant:
        return ready.logs
    return tuple(replace(log, tenant_id=terms.tenant_id) for log in ready.logs)
