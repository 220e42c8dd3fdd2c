"""Opinions that are kept, and counted, in PostgreSQL.

Only scores are kept: a judge that abstained may answer the next time. A tenant is given its own alone, also where
another's material is the same. Where the database cannot be used, judges are asked and nothing is kept.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Protocol

import msgspec
from sqlalchemy import Engine, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import INTERVAL, insert
from sqlalchemy.exc import SQLAlchemyError

from flywheel.arbiter.evaluation.judges.opinions import Score
from flywheel.arbiter.evaluation.judges.tables import judge_counts, judge_opinions
from flywheel.errors import DatabaseError

LOGGER = logging.getLogger(__name__)
FORGET_EVERY_S = 600.0
Outcome = tuple[str, str, str]
"""Judge, criterion, and what came of it."""


class Kept(Protocol):
    """Where opinions are kept and counted."""

    def find(self, tenant_id: str, digests: Iterable[bytes]) -> dict[bytes, Score]:
        """Those of a tenant that are there and not too old."""
        ...

    def keep(self, tenant_id: str, scores: Mapping[bytes, Score]) -> None:
        """Keep a tenant's."""
        ...

    def count(self, outcomes: "Counter[Outcome]") -> None:
        """Add to the counts."""
        ...


class NothingKept:
    """For callers without a database: nothing is kept, and nothing counted beyond what they are told."""

    def find(self, tenant_id: str, digests: Iterable[bytes]) -> dict[bytes, Score]:
        """None."""
        del tenant_id, digests
        return {}

    def keep(self, tenant_id: str, scores: Mapping[bytes, Score]) -> None:
        """Forget them."""

    def count(self, outcomes: "Counter[Outcome]") -> None:
        """Forget it."""


class KeptInDatabase:
    """Opinions in PostgreSQL, for several processes."""

    def __init__(self, engine: Engine, *, days: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read yet; an opinion is given again for so many days."""
        self._engine = engine
        self._age = timedelta(days=days)
        self._clock_s = clock_s
        self._forget_at_s = clock_s() + FORGET_EVERY_S

    def find(self, tenant_id: str, digests: Iterable[bytes]) -> dict[bytes, Score]:
        """See ``Kept``."""
        row = judge_opinions.c
        query = select(row.digest, row.finding).where(
            row.tenant_id == tenant_id, row.digest.in_(list(digests)), row.created_at > self._oldest
        )
        if not self._age:
            return {}
        try:
            with self._engine.connect() as connection:
                found = connection.execute(query).all()
        except (DatabaseError, SQLAlchemyError):
            LOGGER.warning("kept opinions of judges cannot be read; the judges are asked", exc_info=True)
            return {}
        return {bytes(digest): msgspec.json.decode(finding, type=Score) for digest, finding in found}

    def keep(self, tenant_id: str, scores: Mapping[bytes, Score]) -> None:
        """See ``Kept``. Of several who ask the same at once the first one's is kept, until it is too old."""
        if not scores or not self._age:
            return
        rows = [
            {"tenant_id": tenant_id, "digest": digest, "finding": msgspec.json.encode(score), "created_at": func.now()}
            for digest, score in sorted(scores.items())
        ]
        statement = insert(judge_opinions).values(rows)
        newer = {name: statement.excluded[name] for name in ("finding", "created_at")}
        statement = statement.on_conflict_do_update(
            index_elements=["tenant_id", "digest"], set_=newer, where=judge_opinions.c.created_at <= self._oldest
        )
        try:
            with self._engine.begin() as connection:
                connection.execute(statement)
                if self._clock_s() >= self._forget_at_s:
                    connection.execute(delete(judge_opinions).where(judge_opinions.c.created_at <= self._oldest))
                    self._forget_at_s = self._clock_s() + FORGET_EVERY_S
        except (DatabaseError, SQLAlchemyError):
            LOGGER.warning("opinions of judges cannot be kept; the same is asked again", exc_info=True)

    def count(self, outcomes: "Counter[Outcome]") -> None:
        """See ``Kept``. Rows are locked in one order, so that no two who count wait for each other."""
        if not outcomes:
            return
        names = ("judge", "criterion", "outcome")
        rows = [dict(zip(names, key, strict=True)) | {"findings": n} for key, n in sorted(outcomes.items())]
        statement = insert(judge_counts).values(rows)
        added = {"findings": judge_counts.c.findings + statement.excluded.findings}
        statement = statement.on_conflict_do_update(index_elements=list(names), set_=added)
        try:
            with self._engine.begin() as connection:
                connection.execute(statement)
        except (DatabaseError, SQLAlchemyError):
            LOGGER.warning("findings of judges cannot be counted: %s", dict(outcomes), exc_info=True)

    @property
    def _oldest(self):  # type: ignore[no-untyped-def]
        return func.now() - bindparam(None, self._age, type_=INTERVAL())
