"""A candidate that a person approved in the registry becomes an agent that the arbiter routes to."""

from datetime import UTC, datetime

import dagster as dg

from flywheel.rollout.promotion import current_champion, promote
from resources.benchmark_pool import BenchmarkPoolResource
from resources.model_registry import ModelRegistry


@dg.sensor(
    target=None,
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Follows the alias champion in the model registry: registers that version as the arbiter's agent.",
)
def candidate_approved(benchmark_pool: BenchmarkPoolResource, model_registry: ModelRegistry) -> dg.SkipReason:
    """Bring the arbiter's agent registry to what the model registry says."""
    champion = model_registry.champion()
    if champion is None:
        return dg.SkipReason("no version has the alias champion")
    with benchmark_pool.open() as pool:
        serving = current_champion(pool.engine)
        if serving == champion.version:
            return dg.SkipReason(f"version {serving} serves already")
        promote(
            pool.engine,
            version=champion.version,
            tags=champion.tags,
            now=datetime.now(UTC),
            actor="model registry",
            reason="the alias champion was set",
        )
    return dg.SkipReason(f"version {champion.version} was registered with the arbiter, in the place of {serving}")
