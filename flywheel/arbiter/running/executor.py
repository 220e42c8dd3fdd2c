"""Single tasks: claimed, answered from the cache or run, and settled, for threads and for coroutines."""

import asyncio
import logging
import threading
import time
from functools import partial
from hashlib import blake2b

import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from flywheel.arbiter.cache.semantic_cache import SemanticCache
from flywheel.arbiter.running.cached import answered_from_cache
from flywheel.arbiter.running.calls import CancelToken, in_thread
from flywheel.arbiter.running.claims import Claim, Claims
from flywheel.arbiter.running.parts import Parts
from flywheel.arbiter.running.streaming import Watch
from flywheel.arbiter.running.task_run import Ran, TaskRun
from flywheel.arbiter.settling import settle
from flywheel.arbiter.task import NO_LIMITS, Task, TaskResult
from flywheel.errors import ConfigurationError, DatabaseError, RetryLaterError
from flywheel.settings import RoutingSettings

LOGGER = logging.getLogger(__name__)
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5


class Executor:
    """Runs single tasks of one tenant. Safe for threads."""

    def __init__(
        self, engine: Engine, parts: Parts, claims: Claims, routing: RoutingSettings, cache: SemanticCache | None
    ) -> None:
        self._engine = engine
        self._parts = parts
        self._claims = claims
        self._routing = routing
        self._cache = cache

    def execute(self, task: Task, *, token: CancelToken, watch: Watch) -> TaskResult:
        """See ``Arbiter.execute_task``."""
        if task.tenant_id not in {None, self._parts.tenant_id}:
            raise ConfigurationError(
                f"task {task.id!r} is of tenant {task.tenant_id!r}, this arbiter runs those of "
                f"{self._parts.tenant_id!r}; hand it to Arbiter.for_tenant"
            )
        started_s = time.monotonic()
        until_s = self._until(task, started_s)
        claim = self._claim(task, token=token, until_s=until_s, watch=watch)
        if isinstance(claim, TaskResult):
            return msgspec.structs.replace(claim, replayed=True)
        finished = False
        try:
            run = partial(self._run, task, started_s=started_s, until_s=until_s, token=token, watch=watch)
            result = self._finish(claim, run())
            finished = result.stored
        finally:
            self._claims.release(claim, finished=finished)
        if self._cache is not None:
            self._cache.put(self._parts.tenant_id, task, result)
        return result

    async def aexecute(self, task: Task, *, token: CancelToken, watch: Watch) -> TaskResult:
        """The same in a thread of its own. Cancelled, it ends when the task is accounted for."""
        loop = asyncio.get_running_loop()
        forwarded = msgspec.structs.replace(
            watch,
            on_text=watch.on_text and partial(loop.call_soon_threadsafe, watch.on_text),
            on_decision=watch.on_decision and partial(loop.call_soon_threadsafe, watch.on_decision),
            on_accepted=watch.on_accepted and partial(loop.call_soon_threadsafe, watch.on_accepted),
        )
        work = partial(self.execute, task, token=token, watch=forwarded)
        running = asyncio.wrap_future(in_thread(work, name=f"flywheel-task-{task.id[:40]}"))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            token.cancel()
            await asyncio.wait([running])
            if not running.cancelled() and (error := running.exception()) is not None:
                LOGGER.info("cancelled task %s: %s", task.id, error)
            raise

    def _until(self, task: Task, started_s: float) -> float | None:
        ends = []
        if task.limits.timeout_s is not None:
            ends.append(started_s + task.limits.timeout_s)
        if task.deadline is not None:
            ends.append(started_s + (task.deadline - self._parts.clock()).total_seconds())
        return min(ends, default=None)

    def _claim(self, task: Task, *, token: CancelToken, until_s: float | None, watch: Watch) -> Claim | TaskResult:
        """The claim, or the result, waiting for it where another runs the task."""
        digest, pause_s = digest_of(task), FIRST_PAUSE_S
        while True:
            found = self._claims.take(self._parts.tenant_id, task.id, digest, token)
            watch.accepted()
            if found is not None:
                return found
            token.raise_if_cancelled()
            if until_s is not None and time.monotonic() + pause_s > until_s:
                raise RetryLaterError(f"task {task.id!r} is still run by another caller; ask for its result again")
            token.wait(threading.Event(), seconds=pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _run(self, task: Task, *, started_s: float, until_s: float | None, token: CancelToken, watch: Watch) -> Ran:
        run = TaskRun(self._parts, task, started_s=started_s, until_s=until_s, token=token, watch=watch)
        if self._cache is not None and token.reason is None:
            found_s = time.monotonic()
            hit = self._cache.find(self._parts.tenant_id, task)
            ran = None if hit is None else answered_from_cache(run, hit, found_s=found_s)
            if ran is not None:
                return ran
        return run.run()

    def _finish(self, claim: Claim, ran: Ran) -> TaskResult:
        """Store the result and learn from it, in one transaction. An answer that cannot be stored is still one."""
        try:
            with self._engine.begin() as connection:
                if self._claims.finish(connection, claim, ran.result):
                    settle(connection, ran.outcomes, self._routing)
                    return ran.result
            LOGGER.warning("task %s took longer than its claim was renewed, and another runner has it", claim.task_id)
        except (DatabaseError, SQLAlchemyError):
            LOGGER.warning("the result of task %s cannot be stored", claim.task_id, exc_info=True)
        return msgspec.structs.replace(ran.result, stored=False)


def digest_of(task: Task) -> bytes:
    """Of what is asked; how long the caller waits may be different when it asks again."""
    limits = msgspec.structs.replace(task.limits, timeout_s=None) if task.limits != NO_LIMITS else NO_LIMITS
    asked = msgspec.structs.replace(task, limits=limits, deadline=None, tenant_id=None, use_cache=True, embedding=())
    return blake2b(msgspec.json.encode(asked, order="deterministic"), digest_size=32).digest()
