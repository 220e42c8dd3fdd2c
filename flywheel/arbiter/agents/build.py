"""From an agent's profile to the agent."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from flywheel.arbiter.agents.local import LoadedModels, LocalAgent
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.agents.strategy import Agent
from flywheel.arbiter.registry import AgentProfile
from flywheel.errors import AgentError
from flywheel.settings import Settings

REGISTRY_SCHEME = "models:/"

ResolveModel = Callable[[str, int], str | Path]
"""Finds the folder of a registered model by name and version, downloading it where needed."""


def refuse_registry_models(name: str, version: int) -> Path:
    """For callers without a model registry.

    Raises:
        AgentError: always; the message names the model.
    """
    raise AgentError(f"{name} version {version} is in the model registry, and none is connected: run `flywheel up`")


class AgentFactory:
    """Makes agents; local models with the same folder are loaded once."""

    def __init__(self, settings: Settings, *, resolve_model: ResolveModel = refuse_registry_models) -> None:
        self._settings = settings
        self._resolve_model = resolve_model
        self._models = LoadedModels()

    def __call__(self, profile: AgentProfile) -> Agent:
        """The agent of this profile. What can fail about it fails at its first answer."""
        if profile.kind == "reference":
            return ReferenceAgent(error_rate=profile.error_rate)
        if profile.kind == "openai":
            return OpenAICompatibleAgent(
                base_url=profile.base_url,
                model=profile.model,
                api_key_env=profile.api_key_env,
                prompt=profile.prompt,
                temperature=profile.temperature,
                max_new_tokens=self._settings.model.max_new_tokens,
                timeout_s=profile.timeout_s,
            )
        return LocalAgent(
            partial(self._model_dir, profile.model),
            self._models,
            prompt=profile.prompt,
            temperature=profile.temperature,
            max_new_tokens=self._settings.model.max_new_tokens,
            batch_size=self._settings.model.generation_batch,
        )

    def _model_dir(self, model: str) -> Path:
        if model == "base":
            from flywheel.training.pretrained import ensure_base_model

            return ensure_base_model(self._settings)
        if model.startswith(REGISTRY_SCHEME):
            name, _, version = model.removeprefix(REGISTRY_SCHEME).rpartition("/")
            if not name or not version.isdecimal():
                raise AgentError(f"{model!r} is not of the form {REGISTRY_SCHEME}NAME/VERSION")
            return Path(self._resolve_model(name, int(version)))
        folder = Path(model).expanduser()
        if not folder.is_dir():
            raise AgentError(f"{model!r} is neither base, nor {REGISTRY_SCHEME}NAME/VERSION, nor a folder")
        return folder
