"""An agent that generates on this machine: SmolLM2 or any model that transformers loads."""

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flywheel.arbiter.agents.strategy import Answer, Progress, ignore_progress
from flywheel.errors import AgentError, FlywheelError
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

if TYPE_CHECKING:
    from flywheel.training.generation import Generator


class LoadedModels:
    """Models in memory by folder: agents that differ only in prompt or temperature share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Path, threading.Lock] = {}
        self._generators: dict[Path, Generator] = {}

    @contextmanager
    def using(self, model_dir: Path) -> "Iterator[Generator]":
        """The model of a folder, loaded on first use, for one thread at a time.

        Raises:
            AgentError: it cannot be loaded.
        """
        with self._lock:
            lock = self._locks.setdefault(model_dir, threading.Lock())
        with lock:
            if model_dir not in self._generators:
                self._generators[model_dir] = _loaded(model_dir)
            yield self._generators[model_dir]


def _loaded(model_dir: Path) -> "Generator":
    from flywheel.training.generation import Generator

    try:
        return Generator(model_dir)
    except (OSError, ValueError) as error:  # what transformers raises for folders it cannot read
        raise AgentError(f"the model in {model_dir} cannot be loaded: {error}") from error


class LocalAgent:
    """A language model on this machine, asked with one prompt style at one temperature, in batches."""

    def __init__(
        self,
        find_model: Callable[[], Path],
        models: LoadedModels,
        *,
        prompt: PromptStyle,
        temperature: float,
        max_new_tokens: int,
        batch_size: int,
    ) -> None:
        """Nothing is loaded or fetched before the first task.

        Args:
            find_model: the model's folder; may download it.
            models: where loaded models are kept.
            prompt: with or without demonstrations.
            temperature: 0 is greedy.
            max_new_tokens: longest answer, in tokens.
            batch_size: prompts generated at once.
        """
        self._find_model = find_model
        self._models = models
        self._prompt: PromptStyle = prompt
        self._temperature = temperature
        self._max_new_tokens = max_new_tokens
        self._batch_size = batch_size

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """Answer all tasks; a sampled answer depends on its task, not on the others or on earlier calls."""
        prompts = [prompt_messages(task, self._prompt) for task in tasks]
        with self._models.using(self._model_dir()) as model:
            started = time.perf_counter()
            generations = model.generate(
                prompts,
                max_new_tokens=self._max_new_tokens,
                temperature=self._temperature,
                seeds=[zlib.crc32(task.id.encode()) for task in tasks],
                batch_size=self._batch_size,
                on_progress=on_progress,
            )
        latency_ms = (time.perf_counter() - started) * 1000 / max(1, len(tasks))
        return [
            Answer(
                text=generation.text,
                messages=messages,
                prompt_tokens=generation.prompt_tokens,
                output_tokens=generation.output_tokens,
                latency_ms=latency_ms,
            )
            for messages, generation in zip(prompts, generations, strict=True)
        ]

    def _model_dir(self) -> Path:
        try:
            return self._find_model()
        except (FlywheelError, OSError) as error:
            raise AgentError(f"the agent's model cannot be found: {error}") from error
