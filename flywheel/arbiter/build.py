"""From the settings to the arbiter of an installation."""

from collections.abc import Callable
from datetime import datetime

import numpy as np
from sqlalchemy import Engine

from flywheel.arbiter.agents.build import AgentFactory, ResolveModel, refuse_registry_models
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.evaluation.judges.build import evaluator_of
from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of
from flywheel.collection.collector import Collector
from flywheel.settings import Settings
from flywheel.tasks.catalog import run_starter


def arbiter_of(
    settings: Settings,
    engine: Engine,
    collector: Collector,
    *,
    label: str,
    slots: Slots,
    clock: Callable[[], datetime],
    rng: np.random.Generator,
    notary: Notary | None = None,
    resolve_model: ResolveModel = refuse_registry_models,
) -> Arbiter:
    """An arbiter with the agents, task sources, judges, rubric, routing and limits of the settings; see ``Arbiter``.

    Raises:
        ConfigurationError: the rubric or the judges cannot be as configured.
    """
    return Arbiter(
        engine,
        collector,
        tenant_id=settings.tenant_id,
        label=label,
        make_agent=AgentFactory(settings, resolve_model=resolve_model, slots=slots),
        clock=clock,
        rng=rng,
        routing=settings.routing,
        start_run=run_starter(settings.tasks),
        execution=settings.execution,
        evaluator=evaluator_of(settings, engine, resolve_model=resolve_model),
        rubric=rubric_of(settings.rubrics),
        notary=notary,
    )
