"""An agent that generates on this machine: SmolLM2 or any model that transformers loads."""

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flywheel.arbiter.agents.growing import GrowingAnswer, Nobody, first_stop
from flywheel.arbiter.agents.strategy import Answer, Pieces, Progress, ignore_progress, part_of
from flywheel.arbiter.agents.text_calls import in_text, with_calls
from flywheel.errors import AgentError, FlywheelError
from flywheel.records import Message
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

if TYPE_CHECKING:
    from flywheel.training.generation import Generation, Generator


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
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for position, task in enumerate(tasks):
            by_length[self._most_tokens(task)].append(position)
        answers: dict[int, Answer] = {}
        with self._models.using(self._model_dir()) as model:
            for most_tokens, positions in by_length.items():
                progress = part_of(on_progress, before=len(answers), total=len(tasks))
                batch = [tasks[position] for position in positions]
                growing = [GrowingAnswer(task, Nobody()) for task in batch]
                answered = self._generated(model, batch, growing, most_tokens, progress)
                answers |= dict(zip(positions, answered, strict=True))
        return [answers[position] for position in range(len(tasks))]

    def stream(self, task: AgentTask, *, to: Pieces) -> Answer:
        """The answer to one task, handed out while it is written; given up, it ends with its next token."""
        growing = GrowingAnswer(task, to)
        with self._models.using(self._model_dir()) as model:
            [answer] = self._generated(model, [task], [growing], self._most_tokens(task), ignore_progress)
        growing.finish(answer)
        return answer

    def _generated(
        self,
        model: "Generator",
        tasks: Sequence[AgentTask],
        growing: Sequence[GrowingAnswer],
        most_tokens: int,
        on_progress: Progress,
    ) -> list[Answer]:
        prompts = [prompt_messages(in_text(task), self._prompt) for task in tasks]
        started = time.perf_counter()
        generations = model.generate(
            prompts,
            max_new_tokens=most_tokens,
            temperature=[self._temperature_for(task) for task in tasks],
            seeds=[_seed(task) for task in tasks],
            batch_size=self._batch_size,
            on_progress=on_progress,
            watch=lambda number, text: growing[number].is_over(text),
        )
        latency_ms = (time.perf_counter() - started) * 1000 / len(tasks)
        return [
            _answer(task, messages, generation, latency_ms=latency_ms)
            for task, messages, generation in zip(tasks, prompts, generations, strict=True)
        ]

    def _most_tokens(self, task: AgentTask) -> int:
        asked = task.options.most_tokens
        return self._max_new_tokens if asked is None else min(asked, self._max_new_tokens)

    def _temperature_for(self, task: AgentTask) -> float:
        return self._temperature if task.options.temperature is None else task.options.temperature

    def _model_dir(self) -> Path:
        try:
            return self._find_model()
        except (FlywheelError, OSError) as error:
            raise AgentError(f"the agent's model cannot be found: {error}") from error


def _seed(task: AgentTask) -> int:
    return zlib.crc32(task.id.encode()) if task.options.seed is None else task.options.seed


def _answer(task: AgentTask, messages: tuple[Message, ...], generation: "Generation", *, latency_ms: float) -> Answer:
    text = generation.text
    end = first_stop(text, task.options.stop)
    answer = Answer(
        text=text[:end],
        messages=messages,
        prompt_tokens=generation.prompt_tokens,
        output_tokens=generation.output_tokens,
        latency_ms=latency_ms,
        finish_reason="stop" if end is not None or generation.complete else "length",
    )
    return with_calls(answer, task)
