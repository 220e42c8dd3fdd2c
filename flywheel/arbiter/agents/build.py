"""From an agent's profile to the agent."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flywheel.arbiter.agents.command import CommandAgent
from flywheel.arbiter.agents.endpoint import Endpoints
from flywheel.arbiter.agents.local import LoadedModels, LocalAgent
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.python_function import PythonAgent
from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.agents.running import RunningAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Agent, SingleTaskAgent
from flywheel.arbiter.profiles import AgentProfile, stored
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
    """Makes agents, for several threads at once. Keep one per process: it holds what agents share.

    That is the slots, the endpoints with their circuit breakers and rate limits, and loaded models by folder. The agent
    of a profile is made once, and anew when the profile was changed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        resolve_model: ResolveModel = refuse_registry_models,
        slots: Slots | None = None,
    ) -> None:
        """No agent yet; ``slots`` of its own, reported to nobody, where none are given."""
        self._settings = settings
        self._resolve_model = resolve_model
        self.slots = slots or Slots()
        self._models = LoadedModels()
        self._endpoints = Endpoints()
        self._lock = threading.Lock()
        self._made: dict[str, tuple[dict[str, Any], RunningAgent]] = {}

    def __call__(self, profile: AgentProfile) -> RunningAgent:
        """The agent of this profile. What can fail about it fails at its first answer."""
        fields = stored(profile)
        with self._lock:
            known = self._made.get(profile.id)
            if known is None or known[0] != fields:
                known = self._made[profile.id] = (fields, RunningAgent(self._make(profile), profile, self.slots))
            return known[1]

    def _make(self, profile: AgentProfile) -> Agent | SingleTaskAgent:
        match profile.kind:
            case "reference":
                return ReferenceAgent(error_rate=profile.error_rate)
            case "openai":
                return self._openai(profile)
            case "python":
                return PythonAgent(
                    profile.function,
                    prompt=profile.prompt,
                    timeout_s=profile.timeout_s,
                    max_overdue=profile.max_concurrent,
                )
            case "command":
                return CommandAgent(profile.command, prompt=profile.prompt, timeout_s=profile.timeout_s)
            case "local":
                return LocalAgent(
                    partial(self._model_dir, profile.model),
                    self._models,
                    prompt=profile.prompt,
                    temperature=profile.temperature,
                    max_new_tokens=self._settings.model.max_new_tokens,
                    batch_size=self._settings.model.generation_batch,
                )

    def _openai(self, profile: AgentProfile) -> OpenAICompatibleAgent:
        return OpenAICompatibleAgent(
            self._endpoints.get(profile.base_url, model=profile.model, api_key_env=profile.api_key_env),
            base_url=profile.base_url,
            model=profile.model,
            api_key_env=profile.api_key_env,
            prompt=profile.prompt,
            temperature=profile.temperature,
            max_new_tokens=self._settings.model.max_new_tokens,
            timeout_s=profile.timeout_s,
            requests_per_minute=profile.requests_per_minute,
            tokens_per_minute=profile.tokens_per_minute,
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
