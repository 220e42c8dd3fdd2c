"""Configuration: what the platform can be told, each field with its unit.

Five layers, the later one wins: the defaults here, the profile (``flywheel/profiles/*.toml``), ``flywheel.toml`` in
the working directory, files of secrets in the folder ``FLYWHEEL_SECRETS_DIR`` (``flywheel_database_url``), environment
variables (``FLYWHEEL_DATABASE_URL``, nested ones as ``FLYWHEEL_SFT__MAX_STEPS``).
``Settings.load()`` reads them (``flywheel/settings_layers.py``); nothing else in the package looks at configuration
files.
"""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from flywheel.api.settings import ChatSettings, ServiceSettings
from flywheel.arbiter.evaluation.judges.settings import JudgesSettings
from flywheel.arbiter.evaluation.rubrics.settings import RubricSettings
from flywheel.arbiter.settings import AgentSettings, CapabilitySettings, ExecutionSettings
from flywheel.collection.dead_letters import FOLDER as DEAD_LETTERS
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.settings import CollectionSettings
from flywheel.pool.settings import (
    AccessSettings,
    AnonymizationSettings,
    HealthSettings,
    JoiningSettings,
    PrivacySettings,
    RoutingStatisticsSettings,
)
from flywheel.settings_layers import DEFAULT_PROFILE, ProfileName, TomlLayers, explained, secret_files
from flywheel.settings_section import Section

Phase = Literal["sft", "turn-level-rl", "grpo", "curriculum"]


class ModelSettings(Section):
    """The pretrained model that agents start from."""

    base: str = Field("smollm2", description="smollm2 (from its wheel), scratch (a tiny Llama for tests) or an id")
    max_new_tokens: int = Field(64, gt=0, description="longest answer, in tokens")
    generation_batch: int = Field(16, gt=0, description="prompts generated at once")


class TasksSettings(Section):
    """Where tasks come from and how they are split by the hash of the answer's function name."""

    source: Literal["bfcl", "synthetic"] = Field("bfcl", description="the benchmark that is trained on and measured by")
    sources: tuple[str, ...] = Field((), description="environments routed besides it (docs/environments.md)")
    agentdojo_attack: str = Field("", description="puts an attacker's instructions into AgentDojo's tools; empty: none")
    categories: tuple[str, ...] = ("simple_python", "multiple", "live_simple", "parallel", "irrelevance")
    training_categories: tuple[str, ...] = Field(
        ("simple_python", "multiple", "live_simple"), description="the ones routed and trained on; others are reported"
    )
    heldout_fraction: float = Field(0.27, gt=0, lt=1)
    validation_fraction: float = Field(0.08, gt=0, lt=1)
    routed_before: int = Field(500, gt=0, description="tasks routed before training")
    routed_after: int = Field(80, ge=0, description="fresh tasks routed after a champion was approved")
    round_size: int = Field(32, gt=0, description="tasks decided before the bandit is updated")


class PhaseThreshold(Section):
    """One row of the table in SPEC section 6."""

    points: int = Field(gt=0)
    quality: float = Field(ge=0, le=1)
    max_age_days: int = Field(gt=0)
    task_types: int = Field(1, ge=0, description="different ones among the points; 0: every configured one")
    agents: int = Field(1, ge=1, description="different ones among the points")


class BatchSettings(Section):
    """When a training batch or an export is made and what goes into it. The defaults are production's."""

    sft: PhaseThreshold = PhaseThreshold(points=1_000, quality=0.8, max_age_days=90, task_types=3)
    turn_level_rl: PhaseThreshold = PhaseThreshold(points=5_000, quality=0.7, max_age_days=60, task_types=5)
    grpo: PhaseThreshold = PhaseThreshold(points=10_000, quality=0.7, max_age_days=90, agents=10)
    curriculum: PhaseThreshold = PhaseThreshold(points=20_000, quality=0.6, max_age_days=180, task_types=0)
    clean_fraction: float = Field(0.95, ge=0, le=1, description="share of tasks that must have passed the gates")
    max_sft_points: int = Field(5_000, gt=0)
    max_grpo_points: int = Field(20_000, gt=0)
    sft_only: bool = Field(
        False,
        description="batches for SFT alone, of any answered points: imported runs and logs of your own, whose answers "
        "no benchmark verifies",
    )
    sft_from_failures: bool = Field(False, description="smoke only: imperfect demonstrations leave room for GRPO")

    @property
    def phases(self) -> dict[Phase, PhaseThreshold]:
        """The table of SPEC section 6."""
        return {
            "sft": self.sft,
            "turn-level-rl": self.turn_level_rl,
            "grpo": self.grpo,
            "curriculum": self.curriculum,
        }


class SftSettings(Section):
    """The recipe of supervised fine-tuning."""

    learning_rate: float = Field(2e-4, gt=0)
    epochs: float = Field(1.0, gt=0)
    max_steps: int = Field(-1, description="-1: by epochs")
    batch_size: int = Field(4, gt=0, description="examples a step, over all processes")
    max_length: int = Field(384, gt=0, description="tokens")
    seed: int = 0


class TermWeights(Section):
    """What GRPO multiplies the rubric's terms with while it trains; the rubric, and so every report, stays as it is."""

    format: float = Field(1.0, ge=0)
    tool: float = Field(1.0, ge=0)
    task: float = Field(1.0, ge=0)
    minimal: float = Field(1.0, ge=0)
    cost: float = Field(1.0, ge=0)


class GrpoSettings(Section):
    """The recipe of group relative policy optimization."""

    learning_rate: float = Field(2e-5, gt=0)
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    max_steps: int = Field(12, gt=0)
    prompts_per_step: int = Field(4, gt=0)
    generations: int = Field(8, gt=1, description="completions per prompt")
    micro_batch: int = Field(8, gt=0, description="completions in one backward pass of a process: sets peak memory")
    temperature: float = Field(1.0, gt=0)
    beta: float = Field(0.0, ge=0, description="weight of the KL term")
    term_weights: TermWeights = TermWeights()
    judge_weight: float = Field(
        0.0, ge=0, description="of the first judge's ranking within a group, 0-1, beside the terms; 0: none is asked"
    )
    judge_criterion: str = Field("relevance", description="of judges.criteria: what answers are ranked by")
    scale_rewards: Literal["group", "batch", "none"] = Field(
        "batch",
        description="whose deviation divides; in a group of equal answers, group makes a token's cost a verdict",
    )
    max_prompt_tokens: int = Field(
        320, gt=0, description="tasks with longer prompts are left out: they set peak memory"
    )
    seed: int = 0


class EvaluationSettings(Section):
    """How models are compared on held-out tasks."""

    heldout_tasks: int = Field(200, gt=0, description="at most")
    validation_tasks: int = Field(60, gt=0)
    samples: int = Field(1, gt=0, description="sampled answers per task at temperature 1, of the trained models")
    reported_tasks: int = Field(12, gt=0, description="tasks of each category that is reported but not trained on")
    processes: int = Field(
        1, gt=0, description="that answer side by side on processors, each with a copy of the model; on a GPU one does"
    )
    min_improvement: float = Field(0.1, ge=0, description="relative, of exact accuracy against the baseline")
    confidence: float = Field(0.95, gt=0, lt=1)
    seed: int = 0


class TrainerSettings(Section):
    """How training processes are started."""

    processes: int = Field(1, gt=0, description="accelerate processes")
    threads: int = Field(0, ge=0, description="of each process, on processors; 0: the machine's cores, shared out")
    precision: Literal["bf16", "fp32"] = Field("bf16", description="of the computation; weights are always fp32")
    device: Literal["auto", "cpu", "gpu"] = "auto"
    launch_arguments: tuple[str, ...] = Field((), description="passed to accelerate launch, for FSDP or several nodes")


StrategyName = Literal["thompson", "ucb", "epsilon-greedy", "contextual", "capability-match", "load-balance"]


class RoutingSettings(Section):
    """How the arbiter chooses among agents (docs/arbiter.md)."""

    strategy: StrategyName = "thompson"
    quality_per_usd: float = Field(0.0, ge=0, description="quality, 0–1, that one US dollar less per task is worth")
    quality_per_second: float = Field(0.0, ge=0, description="quality, 0–1, that one second less is worth")
    max_usd_per_million_tokens: float | None = Field(None, ge=0, description="never an agent above this price")
    must_have: tuple[str, ...] = Field((), description="never an agent without these specializations")
    half_life_days: float = Field(30.0, ge=0, description="age at which an outcome counts half; 0: it never ages")
    max_active: int = Field(10, gt=0, description="tasks that an agent works on at once")
    priors: dict[str, float] = Field({}, description="expected quality, 0–1, by agent id or model family")


class PortSettings(Section):
    """Where the services listen, on this machine."""

    host: str = "127.0.0.1"
    dagster: int = Field(3000, gt=0, lt=65536)
    mlflow: int = Field(5001, gt=0, lt=65536, description="not 5000: macOS listens there itself")
    api: int = Field(8200, gt=0, lt=65536)
    otlp_grpc: int = Field(4317, ge=0, lt=65536, description="OpenTelemetry over gRPC; 0: not at all")


class Settings(BaseSettings):
    """Everything the platform can be told."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="FLYWHEEL_", env_nested_delimiter="__", env_ignore_empty=True
    )

    profile: ProfileName = DEFAULT_PROFILE
    home: Path = Field(Path(".flywheel"), description="folder of everything this installation writes")
    database_url: str = Field("", description="postgresql://… of a server of your own; empty: the embedded one")
    lake_url: str = Field("", description="folder or object store URL; empty: below home")
    tenant_id: str = Field("quickstart", description="whose tasks the local arbiter runs")
    tenant_salt: SecretStr = Field(SecretStr(""), description="secret of the tenant hash; empty: a file below home")
    tenant_salt_previous: SecretStr = Field(SecretStr(""), description="the one before it, while it is rotated away")
    signing_key: SecretStr = Field(
        SecretStr(""), description="secret of the arbiter's verdicts, 64 hex digits; empty: a file below home"
    )
    signing_key_previous: SecretStr = Field(SecretStr(""), description="the one before it, to rotate it away")
    hot_days: int = Field(7, gt=0)
    warm_days: int = Field(90, gt=0)
    cold_days: int = Field(730, gt=0)
    verdict_days: int = Field(730, gt=0, description="how long the audit trail keeps what verdicts say")
    history_days: int = Field(7, ge=0, description="how long the lake keeps versions that were replaced")
    simulated_now: datetime | None = Field(None, description="a moment in the place of the clock, for simulations")
    pool_processes: int = Field(0, ge=0, description="for a large day or import, side by side; 0: the machine's cores")
    task_types: tuple[str, ...] = Field(
        (
            *("code-editing", "research", "data-analysis", "design", "planning"),
            *("text-transformation", "tool-calling", "chat"),
        ),
        description="known task types; an unknown one fails its gate",
    )
    joining: JoiningSettings = JoiningSettings()
    model: ModelSettings = ModelSettings()
    agents: tuple[AgentSettings, ...] = ()
    tasks: TasksSettings = TasksSettings()
    batch: BatchSettings = BatchSettings()
    sft: SftSettings = SftSettings()
    grpo: GrpoSettings = GrpoSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    trainer: TrainerSettings = TrainerSettings()
    rubrics: RubricSettings = RubricSettings()
    access: AccessSettings = AccessSettings()
    privacy: PrivacySettings = PrivacySettings()
    anonymization: AnonymizationSettings = AnonymizationSettings()
    health: HealthSettings = HealthSettings()
    routing_statistics: RoutingStatisticsSettings = RoutingStatisticsSettings()
    routing: RoutingSettings = RoutingSettings()
    execution: ExecutionSettings = ExecutionSettings()
    capabilities: CapabilitySettings = CapabilitySettings()
    judges: JudgesSettings = JudgesSettings()
    ports: PortSettings = PortSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    service: ServiceSettings = ServiceSettings()
    collection: CollectionSettings = CollectionSettings()
    chat: ChatSettings = ChatSettings()

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then secrets, then files."""
        return (
            init_settings,
            env_settings,
            secret_files(settings_cls),
            TomlLayers(settings_cls, init_settings().get("profile")),
        )

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """Read all layers.

        Raises:
            ConfigurationError: a field is unknown or out of bounds, or the file of a secret cannot be read; the message
                names it.
        """
        with explained():
            loaded = cls(**overrides)
        return loaded.model_copy(update={"home": loaded.home.expanduser().absolute()})

    @property
    def segments_dir(self) -> Path:
        """Where collectors append."""
        return self.home / "segments"

    @property
    def dead_letters_dir(self) -> Path:
        """Where collectors keep what they could not write."""
        return self.collection.dead_letters or self.segments_dir / DEAD_LETTERS

    @property
    def spans_dir(self) -> Path:
        """Where OpenTelemetry spans wait until their trace is whole."""
        return self.home / "spans"

    @property
    def verdicts_dir(self) -> Path:
        """Where signed verdicts wait until they are in the audit trail."""
        return self.home / "verdicts"

    @property
    def audit_head(self) -> Path:
        """The newest head of the audit trail that this installation has seen, signed."""
        return self.home / "audit_head.json"

    @property
    def lake(self) -> str:
        """Folder or URL of the lake."""
        return self.lake_url or str(self.home / "lake")

    @property
    def models_dir(self) -> Path:
        """Cache of model folders; the registry holds the originals."""
        return self.home / "models"
