"""From the section ``[judges]`` to the judges, and to the evaluator of an arbiter."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flywheel.arbiter.agents.build import AgentFactory, ResolveModel, refuse_registry_models
from flywheel.arbiter.agents.endpoint import Endpoints
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.evaluation.evaluator import Evaluator, FirstThatCan
from flywheel.arbiter.evaluation.function_call_evaluator import FunctionCallEvaluator
from flywheel.arbiter.evaluation.judges.calibration import calibrating
from flywheel.arbiter.evaluation.judges.criteria import criteria_of
from flywheel.arbiter.evaluation.judges.evaluator import JudgeEvaluator, NoJudge
from flywheel.arbiter.evaluation.judges.judge import Judge
from flywheel.arbiter.evaluation.judges.kept import Kept, KeptInDatabase, NothingKept
from flywheel.arbiter.evaluation.judges.panel import Panel, uncalibrated
from flywheel.arbiter.evaluation.judges.settings import JudgeModelSettings
from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of
from flywheel.arbiter.profiles import AgentProfile
from flywheel.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from flywheel.settings import Settings


def evaluator_of(
    settings: "Settings", engine: "Engine", *, resolve_model: ResolveModel = refuse_registry_models
) -> Evaluator:
    """What judges an arbiter's answers: published answers first, then the judges; without any it is said so.

    Raises:
        ConfigurationError: the judges cannot be as configured.
    """
    rubric = rubric_of(settings.rubrics)
    if not settings.judges.models:
        return FirstThatCan(FunctionCallEvaluator(rubric), NoJudge())
    kept = KeptInDatabase(engine, days=settings.judges.cache_days)
    panel = panel_of(settings, kept=kept, resolve_model=resolve_model)
    return FirstThatCan(FunctionCallEvaluator(rubric), JudgeEvaluator(panel, criteria_of(settings.judges), rubric))


def panel_of(
    settings: "Settings",
    *,
    kept: Kept | None = None,
    only: str | None = None,
    calibrated: bool = True,
    resolve_model: ResolveModel = refuse_registry_models,
) -> Panel:
    """The configured judges together, or the one that ``only`` names.

    Raises:
        ConfigurationError: there is none, none of that name, or a calibration is not one of theirs.
    """
    chosen = _chosen(settings.judges.models, only)
    judges = [judge_of(model, settings, resolve_model=resolve_model) for model in chosen]
    calibrate = calibrating(settings.judges, judges) if calibrated else uncalibrated
    return Panel(judges, settings.judges, kept=kept or NothingKept(), calibrate=calibrate)


def judge_of(
    model: JudgeModelSettings, settings: "Settings", *, resolve_model: ResolveModel = refuse_registry_models
) -> Judge:
    """A judge, asked as agents are: with their deadlines, retries, rate limits and circuit breaker."""
    if model.kind == "openai":
        return endpoint_judge(model)
    longest = settings.model.model_copy(update={"max_new_tokens": model.max_new_tokens})
    name = model.model or "base"
    agent = AgentFactory(settings.model_copy(update={"model": longest}), resolve_model=resolve_model)(
        AgentProfile(
            id=model.id,
            kind="local",
            model=name,
            temperature=model.temperature,
            max_concurrent=model.max_concurrent,
        )
    )
    shown = f"base ({settings.model.base})" if name == "base" else name
    return Judge(agent, id=model.id, model=shown, samples=model.samples, identity=_identity(model), holds_schemas=False)


def endpoint_judge(model: JudgeModelSettings) -> Judge:
    """A judge behind an endpoint."""
    asked = OpenAICompatibleAgent(
        Endpoints().get(model.base_url, model=model.model, api_key_env=model.api_key_env),
        base_url=model.base_url,
        model=model.model,
        api_key_env=model.api_key_env,
        prompt="zero-shot",
        temperature=model.temperature,
        max_new_tokens=model.max_new_tokens,
        timeout_s=model.timeout_s,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
    )
    profile = AgentProfile(id=model.id, kind="openai", max_concurrent=model.max_concurrent)
    agent = RunningAgent(asked, profile, Slots())
    return Judge(agent, id=model.id, model=model.model, samples=model.samples, identity=_identity(model))


def _identity(model: JudgeModelSettings) -> str:
    """What an opinion depends on besides the model's name."""
    return f"{model.kind}\0{model.base_url}\0{model.temperature:g}\0{model.max_new_tokens}"


def _chosen(models: Sequence[JudgeModelSettings], only: str | None) -> Sequence[JudgeModelSettings]:
    if not models:
        raise ConfigurationError("no judge is configured; name its endpoint in [[judges.models]] of flywheel.toml")
    if only is None:
        return models
    found = [model for model in models if model.id == only]
    if not found:
        raise ConfigurationError(f"no judge is named {only!r}; configured: {', '.join(model.id for model in models)}")
    return found
