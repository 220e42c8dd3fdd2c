"""What agents are busy with in all processes that share the database, and whether they can be asked.

Each process writes rows of its own, so that none overwrites another's, and renews them while it lives. Rows that are
not renewed expire by the database's clock: a killed process is forgotten after ``LEASE_S``, whatever it held.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from flywheel.arbiter.routing.strategy import IDLE, Load
from flywheel.arbiter.tables import agent_loads
from flywheel.errors import DatabaseError

logger = logging.getLogger(__name__)

LEASE_S = 30.0
RENEWAL_S = 10.0
INTERVAL_S = 0.1
"""Shortest time between two writes of a process: what happens in between is one write."""
REFRESH_S = 0.5
WRITE = text("""
INSERT INTO agent_loads (agent_id, process, active, queued, unavailable_until, unavailable_because, expires_at)
VALUES (:agent_id, :process, :active, :queued,
    CASE WHEN :rest_s > 0 THEN now() + make_interval(secs => :rest_s) END, :because,
    now() + make_interval(secs => :lease_s))
ON CONFLICT (agent_id, process) DO UPDATE SET active = excluded.active, queued = excluded.queued,
    unavailable_until = excluded.unavailable_until, unavailable_because = excluded.unavailable_because,
    expires_at = excluded.expires_at
""")


class AgentLoad(Struct, frozen=True, kw_only=True):
    """An agent in all processes together.

    Attributes:
        active: tasks it works on.
        queued: tasks that wait for it.
        processes: that have something to do with it now.
        unavailable_in: those of them that leave it alone since it kept failing.
        unavailable_until: when the last of these tries it again; None where none leaves it alone.
        unavailable_because: the failure.
    """

    active: int = 0
    queued: int = 0
    processes: int = 0
    unavailable_in: int = 0
    unavailable_until: datetime | None = None
    unavailable_because: str = ""

    @property
    def available(self) -> bool:
        """Whether anybody would ask it now."""
        return self.unavailable_in == 0 or self.unavailable_in < self.processes

    @property
    def load(self) -> Load:
        """As routing counts it."""
        return Load(active=self.active, queued=self.queued)


UNUSED = AgentLoad()


def loads_in(connection: Connection, *, without: str = "") -> dict[str, AgentLoad]:
    """Every agent that a living process has something to do with; ``without`` leaves out one process."""
    resting = agent_loads.c.unavailable_until > func.now()
    query = (
        select(
            agent_loads.c.agent_id,
            func.sum(agent_loads.c.active).label("active"),
            func.sum(agent_loads.c.queued).label("queued"),
            func.count().label("processes"),
            func.count().filter(resting).label("unavailable_in"),
            func.max(agent_loads.c.unavailable_until).filter(resting).label("unavailable_until"),
            func.max(agent_loads.c.unavailable_because).filter(resting).label("unavailable_because"),
        )
        .where(agent_loads.c.expires_at > func.now(), agent_loads.c.process != without)
        .group_by(agent_loads.c.agent_id)
    )
    return {
        row.agent_id: AgentLoad(
            active=int(row.active),
            queued=int(row.queued),
            processes=row.processes,
            unavailable_in=row.unavailable_in,
            unavailable_until=row.unavailable_until,
            unavailable_because=row.unavailable_because or "",
        )
        for row in connection.execute(query)
    }


def shared_loads(engine: Engine) -> dict[str, AgentLoad]:
    """The same, in a transaction of its own.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with engine.connect() as connection:
        return loads_in(connection)


class _Told(Struct):
    """What is to be written of one agent. ``rests_until`` is by the process's own clock that never goes back."""

    load: Load = IDLE
    rests_until: float = 0.0
    because: str = ""


class SharedLoads:
    """Writes this process's loads to the database, from a thread of its own; ``Slots`` tell it what changes.

    A write that fails is logged, and what it would have said is written with the next change or renewal. ``others``
    reads what other processes wrote.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        lease_s: float = LEASE_S,
        renewal_s: float = RENEWAL_S,
        interval_s: float = INTERVAL_S,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """Nothing is written before something is told.

        Args:
            engine: the database.
            lease_s: how long what is written holds if it is not renewed.
            renewal_s: how often it is renewed.
            interval_s: shortest time between two writes.
            refresh_s: age at which what other processes do is read again.
        """
        self.process = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._engine = engine
        self._lease_s, self._renewal_s, self._interval_s = lease_s, renewal_s, interval_s
        self._refresh_s = refresh_s
        self._reading = threading.Lock()
        self._others: dict[str, Load] = {}
        self._read_at: float | None = None
        self._lock = threading.Lock()
        self._told: dict[str, _Told] = {}
        self._changed: set[str] = set()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def load(self, agent_id: str, load: Load) -> None:
        """An agent's load in this process."""
        with self._lock:
            self._told.setdefault(agent_id, _Told()).load = load
            self._note(agent_id)

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """An agent is left alone by this process for so long; 0: it is not."""
        with self._lock:
            told = self._told.setdefault(agent_id, _Told())
            if seconds <= 0 and told.rests_until == 0:
                return
            told.rests_until, told.because = (time.monotonic() + seconds, because) if seconds > 0 else (0.0, "")
            self._note(agent_id)

    def others(self) -> dict[str, Load]:
        """What agents are busy with in other processes, at most ``refresh_s`` old where the database can be read.

        A reading that fails is logged, and the one before holds: choosing an agent must not fail for it.
        """
        if self._reading.acquire(blocking=self._read_at is None):  # whoever else reads, reads for all
            try:
                if self._read_at is None or time.monotonic() - self._read_at >= self._refresh_s:
                    self._read_at = time.monotonic()
                    self._read_others()
            except (DatabaseError, SQLAlchemyError) as error:
                logger.warning("what agents do in other processes cannot be read: %s", error)
            finally:
                self._reading.release()
        return self._others

    def _read_others(self) -> None:
        with self._engine.connect() as connection:
            found = loads_in(connection, without=self.process)
        self._others = {agent_id: known.load for agent_id, known in found.items()}

    def close(self) -> None:
        """Take back what this process wrote. Without it, it expires."""
        self._closing.set()
        self._wake.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _note(self, agent_id: str) -> None:
        self._changed.add(agent_id)
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._keep_writing, name="flywheel-loads", daemon=True)
            self._thread.start()
        self._wake.set()

    def _keep_writing(self) -> None:
        renewed = time.monotonic()
        while not self._closing.is_set():
            self._wake.wait(max(0.0, renewed + self._renewal_s - time.monotonic()))
            self._wake.clear()
            everything = time.monotonic() - renewed >= self._renewal_s
            if everything:
                renewed = time.monotonic()
            self._try(partial(self._write, everything=everything))
            self._closing.wait(self._interval_s)
        self._try(self._take_back)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (DatabaseError, SQLAlchemyError) as error:
            logger.warning("the loads of agents cannot be shared, tried again in %g s: %s", self._renewal_s, error)

    def _take_back(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(agent_loads.delete().where(agent_loads.c.process == self.process))

    def _write(self, *, everything: bool) -> None:
        with self._lock:
            chosen = set(self._told) if everything else set(self._changed)
            self._changed -= chosen
            rows = [self._row(agent_id) for agent_id in sorted(chosen)]
        busy = [row for row in rows if row["active"] or row["queued"] or row["rest_s"] > 0]
        idle = [row["agent_id"] for row in rows if row not in busy]
        try:
            with self._engine.begin() as connection:
                if busy:
                    connection.execute(WRITE, busy)
                if idle:
                    mine = agent_loads.c.process == self.process
                    connection.execute(agent_loads.delete().where(mine, agent_loads.c.agent_id.in_(idle)))
                if everything:
                    connection.execute(agent_loads.delete().where(agent_loads.c.expires_at <= func.now()))
        except (DatabaseError, SQLAlchemyError):
            with self._lock:
                self._changed |= chosen
            raise

    def _row(self, agent_id: str) -> dict[str, Any]:
        told = self._told[agent_id]
        return {
            "agent_id": agent_id,
            "process": self.process,
            "active": told.load.active,
            "queued": told.load.queued,
            "rest_s": max(0.0, told.rests_until - time.monotonic()),
            "because": told.because,
            "lease_s": self._lease_s,
        }
