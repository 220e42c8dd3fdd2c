"""Requests that name themselves (``Idempotency-Key``): a retry is answered as the first one was, and stores nothing.

A name is claimed in PostgreSQL before anything is stored, so it holds for all receivers of a pool and through a
restart. While PostgreSQL is away a receiver goes by its own memory; and a receiver that dies between storing and
answering leaves a claim that another takes over after ``ABANDONED``. In both cases a retry may store its records a
second time: equal lines are one line to the pool.
"""

import secrets
import threading
from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

from flywheel.errors import DatabaseError, FlywheelError, RetryLaterError
from flywheel.pool.pool import BenchmarkPool

ABANDONED = timedelta(seconds=60)
REMEMBERED = 10_000
LONGEST_NAME = 255

CLAIM = """
INSERT INTO received_requests AS held (key_id, name, digest, claim, at)
VALUES (%(key)s, %(name)s, %(digest)s, %(claim)s, %(now)s)
ON CONFLICT (key_id, name) DO UPDATE SET claim = excluded.claim, at = excluded.at, digest = excluded.digest,
    status = NULL, answer = NULL
    WHERE held.at < %(expired)s OR (held.status IS NULL AND held.digest = excluded.digest AND held.at < %(abandoned)s)
"""


class ReusedNameError(FlywheelError):
    """Raised when an Idempotency-Key comes with another body than before. Give each request a key of its own."""


class UnderWayError(RetryLaterError):
    """Raised while the first request of an Idempotency-Key is worked on. Ask again in a moment."""


class Answer(Struct, frozen=True):
    """What a request was answered."""

    status: int
    body: bytes


class Request(Struct, frozen=True):
    """A request that names itself. ``digest`` is of its path and body."""

    key_id: str
    name: str
    digest: bytes


class IdempotentRequests:
    """Who works on which named request, and what was answered. Safe for threads; calls wait for PostgreSQL."""

    def __init__(self, pool: BenchmarkPool, *, kept: timedelta) -> None:
        self._pool = pool
        self._kept = kept
        self._lock = threading.Lock()
        self._memory: OrderedDict[tuple[str, str], tuple[bytes, Answer | None]] = OrderedDict()
        self._claims: dict[tuple[str, str], str] = {}

    def begin(self, request: Request, *, now: datetime) -> Answer | None:
        """The answer that the request had before; None: it is the caller's to work on, and to end.

        Raises:
            ReusedNameError: another request was called so.
            UnderWayError: it is being worked on.
        """
        place = (request.key_id, request.name)
        with self._lock:
            if place in self._memory:
                return judged(request, *self._memory[place])
            self._memory[place] = (request.digest, None)
        try:
            answer = self._claim(request, now=now)
        except DatabaseError:
            return None  # memory alone remembers this one
        except BaseException:
            self._forget(place)
            raise
        if answer is not None:
            self._remember(request, answer)
        return answer

    def end(self, request: Request, answer: Answer) -> None:
        """Remember what it was answered."""
        self._remember(request, answer)
        claim = self._claims.pop((request.key_id, request.name), None)
        if claim is None:
            return
        try:
            with self._pool.transaction() as connection:
                connection.execute(
                    "UPDATE received_requests SET status = %s, answer = %s"
                    " WHERE key_id = %s AND name = %s AND claim = %s",
                    (answer.status, answer.body, request.key_id, request.name, claim),
                )
        except DatabaseError:
            return  # this receiver remembers it; to others the claim is abandoned after a while

    def release(self, request: Request) -> None:
        """Nothing was stored, or nobody knows: a retry works on it anew."""
        place = (request.key_id, request.name)
        self._forget(place)
        claim = self._claims.pop(place, None)
        if claim is None:
            return
        try:
            with self._pool.transaction() as connection:
                connection.execute(
                    "DELETE FROM received_requests WHERE key_id = %s AND name = %s AND claim = %s", (*place, claim)
                )
        except DatabaseError:
            return  # the claim is abandoned after a while

    def forget_old(self, *, now: datetime) -> int:
        """Delete what is older than is kept. Returns how many.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        with self._pool.transaction() as connection:
            return connection.execute("DELETE FROM received_requests WHERE at < %s", (now - self._kept,)).rowcount

    def _claim(self, request: Request, *, now: datetime) -> Answer | None:
        claim = secrets.token_hex(8)
        values = {
            "key": request.key_id,
            "name": request.name,
            "digest": request.digest,
            "claim": claim,
            "now": now,
            "expired": now - self._kept,
            "abandoned": now - ABANDONED,
        }
        with self._pool.transaction() as connection:
            if connection.execute(CLAIM, values).rowcount:
                self._claims[request.key_id, request.name] = claim
                return None
            row = connection.execute(
                "SELECT digest, status, answer FROM received_requests WHERE key_id = %s AND name = %s",
                (request.key_id, request.name),
            ).fetchone()
        if row is None:
            raise UnderWayError("the request was being given up by another receiver; send it again")
        return judged(request, bytes(row[0]), None if row[1] is None else Answer(row[1], bytes(row[2])))

    def _remember(self, request: Request, answer: Answer) -> None:
        place = (request.key_id, request.name)
        with self._lock:
            self._memory[place] = (request.digest, answer)
            self._memory.move_to_end(place)
            while len(self._memory) > REMEMBERED:
                self._memory.popitem(last=False)

    def _forget(self, place: tuple[str, str]) -> None:
        with self._lock:
            self._memory.pop(place, None)


def judged(request: Request, digest: bytes, answer: Answer | None) -> Answer:
    """The answer that is remembered.

    Raises:
        ReusedNameError: it is of another request.
        UnderWayError: there is none yet.
    """
    if digest != request.digest:
        raise ReusedNameError(f"Idempotency-Key {request.name[:80]!r} was sent with another body before; use a new one")
    if answer is None:
        raise UnderWayError(
            f"the request with Idempotency-Key {request.name[:80]!r} is under way; ask again in a moment"
        )
    return answer
