"""Who runs which task, in PostgreSQL: a task runs once under its id, whichever process and machine it is given to.

A claim is a row that expires. Its runner renews it while the task runs; a killed runner does not, so that the next one
who is given the task may run it. All moments are PostgreSQL's. A runner that is held up for longer than its claim is
good for loses it: two then run the task, and the first that ends has the result.
"""

import logging
import os
import threading
import uuid
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import INTERVAL, insert
from sqlalchemy.exc import SQLAlchemyError

from flywheel.arbiter.tables import task_runs
from flywheel.arbiter.task import TaskResult
from flywheel.errors import DatabaseError, FlywheelError

LOGGER = logging.getLogger(__name__)
RENEWALS = 4
"""How many renewals a claim's time holds: a few may fail before it is lost."""
FORGOTTEN_AT_ONCE = 10_000
FORGET_EVERY_S = 600.0
row = task_runs.c


class ReusedTaskIdError(FlywheelError):
    """Raised when a task has the id of another one. Give each task an id of its own."""


class Claim(Struct, frozen=True, kw_only=True):
    """The right to run a task. ``token`` is different for everybody who ever had it."""

    tenant_id: str
    task_id: str
    token: str


class Claims:
    """The claims of one arbiter. Safe for threads, and for a process that forks."""

    def __init__(self, engine: Engine, *, claim_s: float, kept: timedelta) -> None:
        """Nothing is asked of the database before the first claim.

        Args:
            engine: of the database that all arbiters share.
            claim_s: after which a claim expires that is not renewed.
            kept: how long results are kept.
        """
        self._engine = engine
        self._claim_s = claim_s
        self._kept = kept
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._open = 0
        self._renewing: tuple[int, threading.Event] | None = None

    def take(self, tenant_id: str, task_id: str, digest: bytes) -> Claim | TaskResult | None:
        """The claim to the task; its result, if it ran before; or None while another runs it.

        Raises:
            ReusedTaskIdError: another task has the id.
            DatabaseError: PostgreSQL cannot be used.
        """
        self._keep_renewing()
        claim = Claim(tenant_id=tenant_id, task_id=task_id, token=uuid.uuid4().hex)
        values = {"claim": claim.token, "runner": self._runner, "expires_at": func.now() + self._lifetime}
        first = insert(task_runs).values(tenant_id=tenant_id, task_id=task_id, digest=digest, **values)
        expired = row.finished_at.is_(None) & (row.expires_at < func.now()) & (row.digest == digest)
        forgotten = row.finished_at < func.now() - self._kept
        renewed = {**values, "digest": digest, "finished_at": None, "result": None}
        statement = first.on_conflict_do_update(
            index_elements=["tenant_id", "task_id"], set_=renewed, where=or_(expired, forgotten)
        )
        with self._engine.begin() as connection:
            if connection.execute(statement.returning(row.claim)).scalar() is not None:
                with self._lock:
                    self._open += 1
                return claim
            held = connection.execute(
                select(row.digest, row.result).where(row.tenant_id == tenant_id, row.task_id == task_id)
            ).one_or_none()
        if held is None:
            return None  # given up this moment: the caller asks again
        if bytes(held.digest) != digest:
            raise ReusedTaskIdError(f"task {task_id!r} of {tenant_id!r} is another one; give this one an id of its own")
        return None if held.result is None else msgspec.json.decode(held.result, type=TaskResult)

    def finish(self, connection: Connection, claim: Claim, result: TaskResult) -> bool:
        """Store the result, in the caller's transaction; False where the claim was lost, and nothing was stored."""
        changed = connection.execute(
            update(task_runs)
            .where(_own(claim), row.finished_at.is_(None))
            .values(result=msgspec.json.encode(result), finished_at=func.now())
        )
        return changed.rowcount == 1

    def amend(self, connection: Connection, result: TaskResult) -> None:
        """Replace the stored result of a finished task."""
        connection.execute(
            update(task_runs)
            .where(row.tenant_id == result.tenant_id, row.task_id == result.task_id, row.finished_at.is_not(None))
            .values(result=msgspec.json.encode(result))
        )

    def result(self, connection: Connection, tenant_id: str, task_id: str) -> TaskResult | None:
        """The stored result, locked until the transaction ends; None where there is none."""
        found = connection.execute(
            select(row.result).where(row.tenant_id == tenant_id, row.task_id == task_id).with_for_update()
        ).scalar_one_or_none()
        return None if found is None else msgspec.json.decode(found, type=TaskResult)

    def release(self, claim: Claim, *, finished: bool) -> None:
        """The claim is not needed any more. Where there is no result, another may have it at once."""
        with self._lock:
            self._open -= 1
        if finished:
            return
        try:
            with self._engine.begin() as connection:
                connection.execute(delete(task_runs).where(_own(claim), row.finished_at.is_(None)))
        except (DatabaseError, SQLAlchemyError):
            LOGGER.warning("the claim to task %s cannot be given up; it expires", claim.task_id, exc_info=True)

    def close(self) -> None:
        """Renew no more. What still runs loses its claim when that expires."""
        with self._lock:
            renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing[1].set()

    @property
    def _runner(self) -> str:
        return f"{self._id}-{os.getpid()}"

    @property
    def _lifetime(self) -> Any:
        return bindparam(None, timedelta(seconds=self._claim_s), type_=INTERVAL())

    def _keep_renewing(self) -> None:
        """Start the thread that renews, where this process has none."""
        with self._lock:
            if self._renewing is not None and self._renewing[0] == os.getpid():
                return
            stop = threading.Event()
            self._renewing = os.getpid(), stop
        threading.Thread(target=self._renew, args=(stop,), name="flywheel-claims", daemon=True).start()

    def _renew(self, stop: threading.Event) -> None:
        pause_s = self._claim_s / RENEWALS
        since_forgetting = FORGET_EVERY_S
        while not stop.wait(pause_s):
            since_forgetting += pause_s
            try:
                if self._open:
                    self._renew_open()
                if since_forgetting >= FORGET_EVERY_S:
                    since_forgetting = 0.0
                    self.forget_old()
            except (DatabaseError, SQLAlchemyError):
                LOGGER.warning("claims of running tasks cannot be renewed", exc_info=True)

    def _renew_open(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(
                update(task_runs)
                .where(row.runner == self._runner, row.finished_at.is_(None))
                .values(expires_at=func.now() + self._lifetime)
            )

    def forget_old(self) -> int:
        """Delete results that were kept long enough, some at a time. Returns how many.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        old = (
            select(row.tenant_id, row.task_id)
            .where(or_(row.finished_at < func.now() - self._kept, row.expires_at < func.now() - self._kept))
            .limit(FORGOTTEN_AT_ONCE)
            .with_for_update(skip_locked=True)
            .subquery()
        )
        own = (row.tenant_id == old.c.tenant_id) & (row.task_id == old.c.task_id)
        with self._engine.begin() as connection:
            return connection.execute(delete(task_runs).where(own)).rowcount


def _own(claim: Claim) -> Any:
    return (row.tenant_id == claim.tenant_id) & (row.task_id == claim.task_id) & (row.claim == claim.token)
