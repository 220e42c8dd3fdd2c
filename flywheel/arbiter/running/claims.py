"""Who runs which task, in PostgreSQL: a task runs once under its id, whichever process and machine it is given to.

A claim is a row that expires. Its runner renews it while the task runs; a killed runner does not, so that the next one
who is given the task may run it. All moments are PostgreSQL's. A runner that is held up for longer than its claim is
good for loses it: two then run the task, and the first that ends has the result.

A task that was routed for its caller to do has a row with that decision and no runner, until the caller reports.
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

from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.tables import task_runs
from flywheel.arbiter.task import TaskResult
from flywheel.errors import DatabaseError, FlywheelError
from flywheel.records import RoutingDecision

LOGGER = logging.getLogger(__name__)
RENEWALS = 4
"""How many renewals a claim's time holds: a few may fail before it is lost."""
FORGOTTEN_AT_ONCE = 10_000
FORGET_EVERY_S = 600.0
row = task_runs.c
ANEW: dict[str, Any] = {"finished_at": None, "result": None, "routed": None, "cancel_reason": None}
"""What a row forgets when the task is begun anew."""


class ReusedTaskIdError(FlywheelError):
    """Raised when a task has the id of another one. Give each task an id of its own."""


class TakenTaskError(FlywheelError):
    """Raised when a task is somebody else's to do: its caller's, who had it routed, or the arbiter's, who runs it."""


class Claim(Struct, frozen=True, kw_only=True):
    """The right to run a task. ``token`` is different for everybody who ever had it."""

    tenant_id: str
    task_id: str
    token: str


class Known(Struct, frozen=True, kw_only=True):
    """What is known of a task under its id.

    Attributes:
        result: what became of it; None where it has not ended.
        routed: the decision, where its caller does it.
        lost: whether its runner was killed: handed over again it runs anew.
    """

    result: TaskResult | None = None
    routed: RoutingDecision | None = None
    lost: bool = False

    @property
    def runs(self) -> bool:
        """Whether an arbiter runs it at this moment, as far as anybody knows."""
        return self.result is None and self.routed is None and not self.lost


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
        self._open: dict[str, tuple[Claim, CancelToken]] = {}
        self._renewing: tuple[int, threading.Event] | None = None

    def take(self, tenant_id: str, task_id: str, digest: bytes, token: CancelToken) -> Claim | TaskResult | None:
        """The claim to the task; its result, if it ran before; or None while another runs it.

        ``token`` is cancelled where somebody asks for that, in whichever process.

        Raises:
            ReusedTaskIdError: another task has the id.
            TakenTaskError: its caller does it.
            DatabaseError: PostgreSQL cannot be used.
        """
        self._keep_renewing()
        claim = Claim(tenant_id=tenant_id, task_id=task_id, token=uuid.uuid4().hex)
        values = {"claim": claim.token, "runner": self._runner, "expires_at": func.now() + self._lifetime}
        first = insert(task_runs).values(tenant_id=tenant_id, task_id=task_id, digest=digest, **values)
        expired = row.finished_at.is_(None) & (row.expires_at < func.now()) & (row.digest == digest)
        statement = first.on_conflict_do_update(
            index_elements=["tenant_id", "task_id"],
            set_={**values, **ANEW, "digest": digest},
            where=or_(expired & row.routed.is_(None), self._forgotten),
        )
        with self._engine.begin() as connection:
            if connection.execute(statement.returning(row.claim)).scalar() is not None:
                with self._lock:
                    self._open[claim.token] = claim, token
                return claim
            held = _held(connection, tenant_id, task_id, digest)
        if held is None:
            return None  # given up this moment: the caller asks again
        if held.routed is not None and held.result is None:
            raise TakenTaskError(f"task {task_id!r} was routed for its caller to do; report its outcome")
        return None if held.result is None else msgspec.json.decode(held.result, type=TaskResult)

    def keep_routed(self, connection: Connection, digest: bytes, decision: RoutingDecision) -> RoutingDecision | None:
        """Keep the decision on a task that its caller does, in the caller's transaction; the one of before, if any.

        Raises:
            ReusedTaskIdError: another task has the id.
            TakenTaskError: it was given to the arbiter to run.
        """
        tenant_id, task_id = decision.tenant_id, decision.task_id
        values = {
            "digest": digest,
            "claim": uuid.uuid4().hex,
            "runner": "",
            "expires_at": func.now(),
            "routed": msgspec.json.encode(decision),
        }
        statement = (
            insert(task_runs)
            .values(tenant_id=tenant_id, task_id=task_id, **values)
            .on_conflict_do_update(
                index_elements=["tenant_id", "task_id"], set_={**ANEW, **values}, where=self._forgotten
            )
        )
        if connection.execute(statement.returning(row.claim)).scalar() is not None:
            return None
        held = _held(connection, tenant_id, task_id, digest)
        if held is None or held.routed is None:
            raise TakenTaskError(f"task {task_id!r} was given to the arbiter to run; give this one an id of its own")
        return msgspec.json.decode(held.routed, type=RoutingDecision)

    def known(self, connection: Connection, tenant_id: str, task_id: str, *, lock: bool = False) -> Known | None:
        """What is known of a task; None where nothing is. ``lock`` holds it until the transaction ends."""
        lost = row.finished_at.is_(None) & row.routed.is_(None) & (row.expires_at < func.now())
        query = select(row.result, row.routed, lost.label("lost")).where(
            row.tenant_id == tenant_id, row.task_id == task_id
        )
        found = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if found is None:
            return None
        return Known(
            result=None if found.result is None else msgspec.json.decode(found.result, type=TaskResult),
            routed=None if found.routed is None else msgspec.json.decode(found.routed, type=RoutingDecision),
            lost=found.lost,
        )

    def cancel(self, tenant_id: str, task_id: str, reason: str) -> None:
        """Ask the task's runner to end it: at once where it is this process, else when it renews its claim next.

        A task that does not run stays as it is.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._lock:
            own = [
                token
                for claim, token in self._open.values()
                if (claim.tenant_id, claim.task_id) == (tenant_id, task_id)
            ]
        for token in own:
            token.cancel(reason)
        if own:
            return
        with self._engine.begin() as connection:
            connection.execute(
                update(task_runs)
                .where(row.tenant_id == tenant_id, row.task_id == task_id)
                .where(row.finished_at.is_(None), row.routed.is_(None))
                .values(cancel_reason=reason)
            )

    def finish(self, connection: Connection, claim: Claim, result: TaskResult) -> bool:
        """Store the result, in the caller's transaction; False where the claim was lost, and nothing was stored."""
        changed = connection.execute(
            update(task_runs)
            .where(_own(claim), row.finished_at.is_(None))
            .values(result=msgspec.json.encode(result), finished_at=func.now())
        )
        return changed.rowcount == 1

    def amend(self, connection: Connection, result: TaskResult) -> None:
        """Replace the stored result of a task that has ended, or end one that its caller did with it."""
        connection.execute(
            update(task_runs)
            .where(row.tenant_id == result.tenant_id, row.task_id == result.task_id)
            .values(result=msgspec.json.encode(result), finished_at=func.coalesce(row.finished_at, func.now()))
        )

    def release(self, claim: Claim, *, finished: bool) -> None:
        """The claim is not needed any more. Where there is no result, another may have it at once."""
        with self._lock:
            self._open.pop(claim.token, None)
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
    def _forgotten(self) -> Any:
        """Whether a row is old enough for its id to be free, whatever the task was."""
        return self._is_old & or_(row.finished_at.is_not(None), row.routed.is_not(None))

    @property
    def _is_old(self) -> Any:
        """Whether a row was kept long enough: from its end on, or from when nobody had it any more."""
        return func.coalesce(row.finished_at, row.expires_at) < func.now() - self._kept

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
        with self._lock:
            held = list(self._open)
        with self._engine.begin() as connection:
            # Not all rows of this runner: one whose claim could not be given up has to expire.
            asked = connection.execute(
                update(task_runs)
                .where(row.runner == self._runner, row.finished_at.is_(None), row.claim.in_(held))
                .values(expires_at=func.now() + self._lifetime)
                .returning(row.claim, row.cancel_reason)
            ).all()
        for claim, reason in asked:
            with self._lock:
                _, token = self._open.get(claim, (None, None))
            if token is not None and reason is not None:
                token.cancel(reason)

    def forget_old(self) -> int:
        """Delete results that were kept long enough, some at a time. Returns how many.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        old = (
            select(row.tenant_id, row.task_id)
            .where(self._is_old)
            .limit(FORGOTTEN_AT_ONCE)
            .with_for_update(skip_locked=True)
            .subquery()
        )
        own = (row.tenant_id == old.c.tenant_id) & (row.task_id == old.c.task_id)
        with self._engine.begin() as connection:
            return connection.execute(delete(task_runs).where(own)).rowcount


def _own(claim: Claim) -> Any:
    return (row.tenant_id == claim.tenant_id) & (row.task_id == claim.task_id) & (row.claim == claim.token)


def _held(connection: Connection, tenant_id: str, task_id: str, digest: bytes) -> Any:
    """The row of a task that somebody has; None where nobody does.

    Raises:
        ReusedTaskIdError: it is another task's.
    """
    held = connection.execute(
        select(row.digest, row.result, row.routed).where(row.tenant_id == tenant_id, row.task_id == task_id)
    ).one_or_none()
    if held is not None and bytes(held.digest) != digest:
        raise ReusedTaskIdError(f"task {task_id!r} of {tenant_id!r} is another one; give this one an id of its own")
    return held
