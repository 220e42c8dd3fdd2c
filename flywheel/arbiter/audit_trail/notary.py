"""The notary: signs the arbiter's verdicts, and sees that each comes into the audit trail.

A verdict is written to a file of this machine before the evaluation that names it is logged. A thread appends what is
in the files to the trail, many verdicts in one transaction. So no task waits for it, and what a killed process leaves
behind is appended by whoever comes next: another arbiter, ``flywheel audit deliver``, an erasure.
"""

import logging
import secrets
import threading
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

import msgspec
from msgspec import UNSET
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from flywheel.arbiter.audit_trail.contents import BY_SPEC, Sealed, Verdict, encode_content, verdict_on
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, SigningKey
from flywheel.arbiter.audit_trail.outbox import deliver, encode_sealed, has_waiting
from flywheel.arbiter.audit_trail.rotation import settled_key
from flywheel.arbiter.evaluation.spec_verdict import SpecVerdict
from flywheel.collection.collector import utc_now
from flywheel.collection.forks import begin_in_children
from flywheel.collection.writer import SegmentWriter
from flywheel.errors import FlywheelError, SigningKeyError
from flywheel.records import Caws, Evaluation, QualityGate
from flywheel.settings import Settings

LOGGER = logging.getLogger(__name__)
EVERY_S = 0.5
LONGEST_PAUSE_S = 60.0


class JudgedChange(Protocol):
    """What a working spec says of a change (``flywheel.arbiter.evaluation.spec_evaluator.SpecEvaluation``)."""

    @property
    def verdict(self) -> SpecVerdict:
        """By the spec."""
        ...

    @property
    def quality_gates(self) -> tuple[QualityGate, ...]:
        """What ran."""
        ...

    @property
    def passed_all_mandatory(self) -> bool:
        """Whether the change is accepted."""
        ...

    @property
    def caws_compliant(self) -> bool:
        """Whether it is what the spec asks for."""
        ...

    @property
    def budget_compliant(self) -> bool:
        """Whether it is within the spec's budgets."""
        ...


class Notary:
    """Signs verdicts for any number of threads. Use it as a context manager, or close it.

    Attributes:
        unsigned: how many evaluations were let go without a verdict, because none could be written down.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        *,
        clock: Callable[[], datetime] = utc_now,
        every_s: float = EVERY_S,
    ) -> None:
        """The installation's notary. Nothing is asked of the database before the first verdict.

        Args:
            settings: say where the key is and where verdicts wait.
            engine: of the database that has the trail.
            clock: the time, for names of files.
            every_s: how long a verdict waits for others before they are appended.
        """
        self._settings = settings
        self._engine = engine
        self._every_s = every_s
        self._key: SigningKey | None = None
        self._writer = SegmentWriter(settings.verdicts_dir, clock=clock)
        self.unsigned = 0
        self.begin()
        begin_in_children(self)

    def begin(self) -> None:
        """Take the state of a new one, also in a forked child."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check(self) -> SigningKey:
        """The key that verdicts are signed with, for callers who had rather not begin than sign nothing.

        Raises:
            SigningKeyError: the trail is signed with another key.
            PoolError: the file of the key cannot be used.
            DatabaseError: PostgreSQL cannot be used, and was not before.
        """
        if self._key is None:
            self._key = settled_key(self._settings, self._engine)
        return self._key

    def sign(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with its verdict, which waits on disk to be appended.

        Raises:
            AuditTrailError: it cannot be signed; the message says why.
            OSError: there is no room for it.
        """
        caws = evaluation.caws or Caws()
        if caws.spec_id is None:
            passed = tuple(gate.name for gate in evaluation.quality_gates if gate.passed)
            caws = Caws(gates_passed=passed)
        stated = msgspec.structs.replace(evaluation, caws=caws)
        verdict = verdict_on(stated, verdict_id=new_id(), nonce=new_id())
        signed = msgspec.structs.replace(caws, verdict_id=verdict.verdict_id, arbiter_signature=self.attest(verdict))
        return msgspec.structs.replace(evaluation, caws=signed)

    def attest(self, verdict: Verdict) -> str:
        """The signature of a verdict, which waits on disk to be appended.

        Raises:
            AuditTrailError: it cannot be signed; the message says why.
            OSError: there is no room for it.
        """
        sealed = Sealed(kind="verdict", content=encode_content(verdict))
        signature = self.check().sign(VERDICT_DOMAIN, sealed.digest)
        self._writer.append(encode_sealed(msgspec.structs.replace(sealed, signature=signature)))
        self._wake.set()
        self._start()
        return signature

    def signed(self, evaluation: Evaluation) -> Evaluation:
        """The same; one that cannot be signed goes without a verdict, is counted and logged."""
        try:
            return self.sign(evaluation)
        except (FlywheelError, OSError) as error:
            self.unsigned += 1
            LOGGER.warning("the evaluation of task %s goes without a verdict: %s", evaluation.task_id, error)
            return without_verdict(evaluation)

    def deliver(self) -> int:
        """Append all that waits now. Returns how many verdicts did.

        Raises:
            SigningKeyError: the trail is signed with a key that this installation does not have.
            SegmentError: a file of verdicts cannot be read.
            OSError: a file cannot be written.
            DatabaseError: PostgreSQL cannot be used. All of it waits on.
        """
        self._writer.close()
        folder, head = self._settings.verdicts_dir, self._settings.audit_head
        if not has_waiting(folder):
            return 0
        try:
            return deliver(self._engine, folder, self.check(), head_file=head)
        except SigningKeyError:
            self._key = None  # it was rotated
            return deliver(self._engine, folder, self.check(), head_file=head)

    def close(self) -> None:
        """Append what waits and end the thread. What cannot be appended now waits for the next notary."""
        with self._lock:
            thread, self._thread = self._thread, None
        self._stop.set()
        self._wake.set()
        if thread is not None:
            thread.join()
        self._try_to_deliver()
        self._stop.clear()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._keep_delivering, name="flywheel-notary", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is ending: the next notary delivers what waits
                self._thread = None

    def _keep_delivering(self) -> None:
        pause_s = self._every_s
        while True:
            self._wake.wait()
            if self._stop.wait(pause_s):
                return
            self._wake.clear()
            if self._try_to_deliver():
                pause_s = self._every_s
            else:
                self._wake.set()
                pause_s = min(2 * max(pause_s, self._every_s), LONGEST_PAUSE_S)

    def _try_to_deliver(self) -> bool:
        try:
            self.deliver()
        except (FlywheelError, SQLAlchemyError, OSError) as error:
            LOGGER.warning("verdicts wait in %s: %s", self._settings.verdicts_dir, error)
            return False
        return True


def without_verdict(evaluation: Evaluation) -> Evaluation:
    """The evaluation without a verdict that another one had, such as that of a cached answer."""
    if evaluation.caws is UNSET:
        return evaluation
    if evaluation.caws.spec_id is None:
        return msgspec.structs.replace(evaluation, caws=UNSET)
    unsigned = msgspec.structs.replace(evaluation.caws, verdict_id=None, arbiter_signature=None)
    return msgspec.structs.replace(evaluation, caws=unsigned)


def under_spec(evaluation: Evaluation, verdict: SpecVerdict) -> Evaluation:
    """The evaluation with what a working spec says of it, to be signed."""
    return msgspec.structs.replace(evaluation, caws=Caws(**{name: getattr(verdict, name) for name in BY_SPEC}))


def sign_at_once(settings: Settings, engine: Engine, evaluation: Evaluation) -> Evaluation:
    """The evaluation with a verdict that is in the audit trail when this returns.

    Raises:
        AuditTrailError: it cannot be signed, for example because it names no tenant.
        PoolError: the file of the key cannot be used.
        OSError: a file cannot be written.
        DatabaseError: PostgreSQL cannot be used; the verdict waits to be appended.
    """
    with Notary(settings, engine) as notary:
        signed = notary.sign(evaluation)
        notary.deliver()
    return signed


def sign_change_at_once(
    settings: Settings,
    engine: Engine,
    judged: JudgedChange,
    *,
    task_id: str,
    agent_id: str,
    at: datetime,
) -> Caws:
    """The signed verdict on a change that a working spec judged and no rubric scored, in the trail when this returns.

    Args:
        settings: whose tenant it is, and where the key is.
        engine: of the database that has the trail.
        judged: what the spec says.
        task_id: the task that the change was made for.
        agent_id: who made it.
        at: when it was judged.

    Raises:
        AuditTrailError: it cannot be signed; the message says why.
        PoolError: the file of the key cannot be used.
        OSError: a file cannot be written.
        DatabaseError: PostgreSQL cannot be used; the verdict waits to be appended.
    """
    caws = Caws(**{name: getattr(judged.verdict, name) for name in BY_SPEC})
    verdict = Verdict(
        verdict_id=new_id(),
        nonce=new_id(),
        tenant_id=settings.tenant_id,
        task_id=task_id,
        agent_id=agent_id,
        decided_at=at,
        quality_gates=judged.quality_gates,
        passed_all_mandatory=judged.passed_all_mandatory,
        caws_compliant=judged.caws_compliant,
        budget_compliant=judged.budget_compliant,
        **{name: getattr(caws, name) for name in BY_SPEC},
    )
    with Notary(settings, engine) as notary:
        signature = notary.attest(verdict)
        notary.deliver()
    return msgspec.structs.replace(caws, verdict_id=verdict.verdict_id, arbiter_signature=signature)


def new_id() -> str:
    """128 random bits: the id of a verdict, or its nonce."""
    return secrets.token_hex(16)
