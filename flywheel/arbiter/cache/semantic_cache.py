"""The semantic cache: answers that are given again to tasks that ask the same.

What may be answered from it is a policy, stated in ``may_be_cached`` and ``SemanticCache.put``: no task with side
effects, no failure, nothing that was not evaluated, nothing below a quality. Entries of different tenants, task types,
earlier turns, tools or requirements have nothing to do with each other; only the text of the question may differ a
little, and never in a number.
"""

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import msgspec
import numpy as np
from msgspec import Struct

from flywheel.arbiter.cache.embedding import Embedder, Vector, hashed_ngrams
from flywheel.arbiter.settings import CacheSettings
from flywheel.arbiter.task import Task, TaskResult
from flywheel.records import Evaluation

LOGGER = logging.getLogger(__name__)
OVERHEAD_BYTES = 1_000
"""Of an entry beside its answer and its vector; a test holds it against what Python takes."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_encode = msgspec.json.Encoder(order="deterministic").encode


class CachedAnswer(Struct, frozen=True, kw_only=True):
    """An answer, whose it was, and what it was worth."""

    task_id: str
    agent_id: str
    text: str
    evaluation: Evaluation


class Hit(Struct, frozen=True, kw_only=True):
    """What was found. ``similarity`` is 1 for the same words, which alone are ``exact``."""

    answer: CachedAnswer
    similarity: float
    exact: bool


class _Entry(Struct, frozen=True):
    tenant_id: str
    scope: bytes
    numbers: tuple[str, ...]
    vector: Vector | None
    payload: bytes
    stored_s: float

    @property
    def size(self) -> int:
        numbers = sum(map(len, self.numbers))
        return OVERHEAD_BYTES + len(self.payload) + numbers + (0 if self.vector is None else self.vector.nbytes)


def may_be_cached(task: Task) -> bool:
    """Whether a task may be answered from the cache, and its answer be kept: it wants so and changes nothing anywhere.

    A task with tools is taken to have side effects unless it says that it has none.
    """
    return task.use_cache and not task.has_side_effects


class SemanticCache:
    """Answers in memory, for all tenants of this process together, each of which sees its own alone. Safe for threads.

    Bounded in entries and bytes: the one not used for longest goes first.
    """

    def __init__(
        self,
        settings: CacheSettings,
        *,
        embed: Embedder = hashed_ngrams,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._embed = embed
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._scopes: dict[bytes, dict[bytes, None]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes_used(self) -> int:
        """Of all entries."""
        return self._bytes

    def find(self, tenant_id: str, task: Task) -> Hit | None:
        """The answer to the same question, else to the most similar one that is similar enough."""
        if not may_be_cached(task):
            return None
        scope = _scope(tenant_id, task)
        key = _key(scope, task.text)
        with self._lock:
            entry = self._used(key)
        if entry is not None:
            return _hit(entry, similarity=1.0, exact=True)
        vector = self._vector(task.text)
        if vector is None:
            return None
        with self._lock:
            found = self._nearest(scope, vector, _numbers(task.text))
            entry = self._used(found[0]) if found else None
        return _hit(entry, similarity=found[1], exact=False) if found and entry else None

    def put(self, tenant_id: str, task: Task, result: TaskResult) -> bool:
        """Keep the answer of a task, if it is one to be given again; returns whether it was kept."""
        evaluation = result.evaluation
        if (
            not may_be_cached(task)
            or result.status != "succeeded"
            or result.cached_from is not None
            or result.tool_calls
            or result.finish_reason not in {None, "stop"}
            or evaluation is None
            or evaluation.overall_score < self._settings.min_quality
        ):
            return False
        answer = CachedAnswer(task_id=task.id, agent_id=result.agent_id, text=result.text, evaluation=evaluation)
        scope = _scope(tenant_id, task)
        entry = _Entry(
            tenant_id, scope, _numbers(task.text), self._vector(task.text), _encode(answer), self._monotonic()
        )
        if entry.size > self._settings.max_bytes:
            return False
        with self._lock:
            self._add(_key(scope, task.text), entry)
        return True

    def forget(self, tenant_id: str) -> int:
        """Remove all answers of a tenant, as when it is erased. Returns how many."""
        with self._lock:
            own = [key for key, entry in self._entries.items() if entry.tenant_id == tenant_id]
            for key in own:
                self._remove(key)
        return len(own)

    # --- under the lock ---------------------------------------------------------------------------------------------

    def _used(self, key: bytes) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._monotonic() - entry.stored_s > self._settings.max_age_s:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def _nearest(self, scope: bytes, vector: Vector, numbers: tuple[str, ...]) -> tuple[bytes, float] | None:
        candidates = [
            (key, entry.vector)
            for key in self._scopes.get(scope, ())
            if (entry := self._entries[key]).vector is not None and entry.numbers == numbers
        ]
        if not candidates:
            return None
        similarities = np.stack([known for _, known in candidates if known is not None]) @ vector
        best = int(np.argmax(similarities))
        similarity = min(1.0, float(similarities[best]))
        return (candidates[best][0], similarity) if similarity >= self._settings.similarity else None

    def _add(self, key: bytes, entry: _Entry) -> None:
        if key in self._entries:
            self._remove(key)
        self._entries[key] = entry
        self._scopes.setdefault(entry.scope, {})[key] = None
        self._bytes += entry.size
        while len(self._entries) > self._settings.entries or self._bytes > self._settings.max_bytes:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: bytes) -> None:
        entry = self._entries.pop(key)
        self._bytes -= entry.size
        members = self._scopes[entry.scope]
        del members[key]
        if not members:
            del self._scopes[entry.scope]

    # ----------------------------------------------------------------------------------------------------------------

    def _vector(self, text: str) -> Vector | None:
        """None where only equal texts count, or where the embedder fails: then nothing is similar to anything."""
        if self._settings.similarity >= 1.0:
            return None
        try:
            return self._embed(text)
        except Exception:
            LOGGER.warning("the embedder of the cache failed; only equal texts are found", exc_info=True)
            return None


def _hit(entry: _Entry, *, similarity: float, exact: bool) -> Hit:
    return Hit(answer=msgspec.json.decode(entry.payload, type=CachedAnswer), similarity=similarity, exact=exact)


def _scope(tenant_id: str, task: Task) -> bytes:
    """Digest of all that must be equal."""
    asked = next(number for number in reversed(range(len(task.messages))) if task.messages[number].role == "user")
    around = [message for number, message in enumerate(task.messages) if number != asked]
    same = (tenant_id, task.type, asked, around, task.tools, task.requirements, task.specializations)
    manner = (task.dialect, task.options, task.agent_id)
    return blake2b(_encode((same, task.languages, task.limits.must_have, task.source, manner)), digest_size=32).digest()


def _key(scope: bytes, text: str) -> bytes:
    return blake2b(text.encode(), key=scope, digest_size=32).digest()


def _numbers(text: str) -> tuple[str, ...]:
    return tuple(NUMBER.findall(text))
