"""The arbiter of the service: one for the installation, seen as each tenant's own by the tenant's key."""

import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import numpy as np

from flywheel.arbiter.agents.build import ResolveModel, refuse_registry_models
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.build import arbiter_of
from flywheel.arbiter.loads import SharedLoads
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.collector import Collector
from flywheel.pool.anonymization.detection import detection_of
from flywheel.pool.pool import BenchmarkPool

LABEL = "service"
"""Names the stream of traffic that comes over HTTP."""


class Arbiters:
    """Makes every tenant an arbiter that shares router, agents, slots, loads and the writer of logs with all others.

    A context manager: when it ends, all logs are in closed segments, and what this process held is given back.
    """

    def __init__(self, pool: BenchmarkPool, *, resolve_model: ResolveModel = refuse_registry_models) -> None:
        """Nothing is asked of the database before the first task.

        Args:
            pool: of the installation.
            resolve_model: finds models of the model registry.
        """
        settings = pool.settings
        self._pool = pool
        self._loads = SharedLoads(pool.engine)
        self._collector = Collector(
            settings.segments_dir,
            settings.tenant_id,
            clock=self._now,
            durability="machine",
            max_age_s=settings.receiver.segment_age_s,
            detection=detection_of(settings.anonymization.types),
            sampling=settings.collection.sampling,
            dead_letters=settings.dead_letters_dir,
        )
        self._notary = Notary(settings, pool.engine, clock=self._now)
        self._arbiter = arbiter_of(
            settings,
            pool.engine,
            self._collector,
            label=LABEL,
            slots=Slots(self._loads),
            clock=self._now,
            rng=np.random.default_rng(),
            notary=self._notary,
            resolve_model=resolve_model,
        )
        self._seeding = threading.Lock()
        self._seeded = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._arbiter.close()
        self._notary.close()
        self._collector.close()
        self._loads.close()

    def of(self, tenant_id: str) -> Arbiter:
        """The arbiter of a tenant.

        Raises:
            DatabaseError: PostgreSQL cannot be used.
        """
        self._seed()
        return self._arbiter.for_tenant(tenant_id, self._collector.for_tenant(tenant_id))

    def _seed(self) -> None:
        """Register the agents of the settings, once, and not before PostgreSQL is there."""
        if self._seeded:
            return
        with self._seeding:
            if not self._seeded:
                AgentRegistry(self._pool.engine).seed_from_settings(self._pool.settings)
                self._seeded = True

    @staticmethod
    def _now() -> datetime:
        return datetime.now(UTC)
