"""What a finished loop measured, gathered from where it is stored."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from flywheel.arbiter.traffic import TrafficReport
from flywheel.errors import ServiceError
from flywheel.pool.expectations import data_docs_index
from flywheel.quickstart.ledger import Ledger
from flywheel.quickstart.observation import World, verdict_of
from flywheel.quickstart.summary import AgentShare, Candidate, Difference, ModelScores, Routing, Summary, Traffic
from flywheel.services.dagster_api import Materialization
from flywheel.services.endpoints import Endpoints

T = TypeVar("T")


def summarize(world: World, ledger: Ledger, endpoints: Endpoints) -> Summary:
    """The summary of a loop that is through.

    Raises:
        ServiceError: no models have been compared yet.
    """
    judged = world.judgement()
    if judged is None or judged.partition is None:
        raise ServiceError("no models have been compared yet; run `flywheel quickstart` to its end")
    verdict = verdict_of(judged)
    return Summary(
        profile=world.settings.profile,
        batch=judged.partition,
        models=figures_of(judged, "models", dict[str, ModelScores]),
        differences=figures_of(judged, "differences", list[Difference]),
        candidate=Candidate(registered=verdict.registered, version=verdict.version, reason=verdict.reason),
        routing=Routing(before=traffic_of(world.traffic("before")), after=traffic_of(world.traffic("after"))),
        pool=world.pool_counts(),
        seconds={stage: round(seconds, 1) for stage, seconds in ledger.seconds.items()},
        peak_memory_gi_b=round(ledger.peak_memory_gib, 2),
        links=links(world, endpoints, judged),
    )


def figures_of(judged: Materialization, name: str, kind: type[T]) -> T:
    """Figures among a judgement's metadata.

    Raises:
        ServiceError: they have another shape.
    """
    try:
        return msgspec.convert(judged.metadata[name], type=kind)
    except (KeyError, msgspec.ValidationError) as error:
        raise ServiceError(f"the figures of batch {judged.partition} cannot be read: {error}") from error


def traffic_of(report: TrafficReport) -> Traffic:
    """A report of the arbiter as part of the summary."""
    return Traffic(
        tasks=report.tasks,
        success_rate=report.success_rate,
        agents={
            agent.agent_id: AgentShare(
                tasks=agent.tasks, share=agent.share, success_rate=agent.success_rate, mean_quality=agent.mean_quality
            )
            for agent in report.agents
        },
    )


def links(world: World, endpoints: Endpoints, judged: Materialization) -> dict[str, str]:
    """Where to look on: services, data docs, the candidate's report."""
    report: Mapping[str, Any] = judged.metadata
    found = {
        "Dagster": f"{endpoints.dagster_url}/asset-groups",
        "MLflow": endpoints.mlflow_url,
        "data docs": data_docs_index(world.settings.home).as_uri(),
        "candidate report": report_link(report.get("report_url"), endpoints),
    }
    return {name: url for name, url in found.items() if url}


def report_link(url: str | None, endpoints: Endpoints) -> str:
    """The candidate's report at MLflow's present address, which may be another than when it was written."""
    if url is None:
        return f"{endpoints.dagster_url}/assets/deployment_candidate"
    return f"{endpoints.mlflow_url}/#{urlsplit(url).fragment}"
