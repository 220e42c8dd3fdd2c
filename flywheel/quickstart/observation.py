"""What the loop looks at and changes: the folder below home, the database, Dagster and MLflow."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Engine

from flywheel.arbiter.traffic import TrafficReport, traffic_report
from flywheel.pool.intake import stale_days, unknown_segments
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.quickstart.ledger import Ledger
from flywheel.quickstart.stages import Observation, Verdict
from flywheel.quickstart.waiting import POOL_JOB
from flywheel.rollout.promotion import CHAMPION, MODEL_NAME, current_champion, history
from flywheel.services.dagster_api import ACTIVE, DagsterApi, Materialization
from flywheel.services.mlflow_api import MlflowApi
from flywheel.settings import Settings

CANDIDATE_ASSET = "deployment_candidate"


class World(Struct, frozen=True, kw_only=True):
    """One running installation."""

    settings: Settings
    pool: BenchmarkPool
    dagster: DagsterApi
    mlflow: MlflowApi

    @property
    def engine(self) -> Engine:
        """Of our database."""
        return self.pool.engine

    def observe(self, ledger: Ledger) -> Observation:
        """What is there now."""
        judged = self.dagster.latest_materialization(CANDIDATE_ASSET)
        verdict = verdict_of(judged) if judged else None
        return Observation(
            base_model_is_ready=bool(ledger.base_model) and Path(ledger.base_model).exists(),
            tasks_before=self.traffic("before").tasks,
            tasks_before_wanted=self.settings.tasks.routed_before,
            tasks_after=self.traffic("after").tasks,
            tasks_after_wanted=self.settings.tasks.routed_after,
            pool_is_current=self.pool_is_current(),
            verdict=verdict,
            champion=self.champion(),
            was_champion=verdict is not None and str(verdict.version) in {c.version for c in history(self.engine)},
        )

    def traffic(self, label: str) -> TrafficReport:
        """What was routed under a label, in all runs."""
        return traffic_report(self.engine, label=label)

    def champion(self) -> int | None:
        """The version that serves, where the model registry and the arbiter agree on one."""
        named = self.mlflow.aliases(MODEL_NAME).get(CHAMPION)
        return named if named is not None and current_champion(self.engine) == str(named) else None

    def pool_is_current(self) -> bool:
        """Whether every closed segment is indexed, no day is out of date and no run of a day is on its way."""
        if unknown_segments(self.pool) or stale_days(self.pool):
            return False
        return not self.dagster.runs(job=POOL_JOB, statuses=sorted(ACTIVE), limit=1)

    def pool_counts(self) -> dict[str, int]:
        """Lines, points, quarantined, duplicates and waiting, over all days."""
        return dict(pool_counts(self.pool))

    def judgement(self) -> Materialization | None:
        """The newest comparison of models, with its figures."""
        return self.dagster.latest_materialization(CANDIDATE_ASSET)


def verdict_of(judged: Materialization) -> Verdict:
    """The verdict among a judgement's metadata."""
    fields: dict[str, Any] = judged.metadata["verdict"]
    return Verdict(registered=fields["registered"], reason=fields["reason"], version=fields.get("version"))
