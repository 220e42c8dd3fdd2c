"""Which task sources there are, and which of them the configuration names."""

import importlib
import importlib.metadata
from collections.abc import Callable
from functools import lru_cache

from flywheel.errors import ConfigurationError, UnknownSourceTaskError
from flywheel.settings import Settings, TasksSettings
from flywheel.tasks.environment import Environment, Run
from flywheel.tasks.function_call_run import FunctionCallSource
from flywheel.tasks.source import SourceTask, TaskSource

GROUP = "flywheel.environments"
OWN = {
    "bfcl": "flywheel.tasks.function_calling:BfclSource",
    "synthetic": "flywheel.tasks.synthetic:SyntheticSource",
    "agentdojo": "flywheel.tasks.agentdojo:AgentDojo",
    "code-repair": "flywheel.tasks.code_repair.environment:CodeRepair",
    "text-transformation": "flywheel.tasks.text_transformation.environment:TextTransformation",
}
"""Each is a class with ``of_settings``, as are those of the entry point group."""


def load_source(settings: Settings) -> TaskSource:
    """The benchmark that this installation trains on and measures by. Its data is read on first use."""
    return source_of(settings.tasks)


def source_of(tasks: TasksSettings) -> TaskSource:
    """The benchmark that this part of the settings names."""
    source = environment_of(tasks.source, tasks)
    assert isinstance(source, FunctionCallSource), "the setting takes no other"
    return source


def environment_names() -> tuple[str, ...]:
    """Every environment there is, those of other packages last."""
    others = (entry.name for entry in importlib.metadata.entry_points(group=GROUP))
    return (*OWN, *(name for name in others if name not in OWN))


@lru_cache(maxsize=16)
def environment_of(name: str, tasks: TasksSettings) -> Environment:
    """The environment of a name, the same one each time. Its data is read on first use.

    Raises:
        ConfigurationError: there is none, or it cannot be loaded.
    """
    if name in OWN:
        module, _, attribute = OWN[name].partition(":")
        own: Environment = getattr(importlib.import_module(module), attribute).of_settings(tasks)
        return own
    for entry in importlib.metadata.entry_points(group=GROUP, name=name):
        return _of_entry_point(entry, tasks)
    raise ConfigurationError(f"there is no task source {name!r}; there are {', '.join(environment_names())}")


def source_names(tasks: TasksSettings) -> tuple[str, ...]:
    """The benchmark's name and those of ``sources``, each once."""
    return tuple(dict.fromkeys((tasks.source, *tasks.sources)))


def environment_name(task_id: str) -> str:
    """The environment that a task's id begins with."""
    return task_id.partition(":")[0]


def source_task(task_id: str, tasks: TasksSettings) -> SourceTask:
    """The task of this id, of a configured source.

    Raises:
        UnknownSourceTaskError: there is none.
        ConfigurationError: its source cannot be loaded.
        TaskSourceError: its source cannot be read.
    """
    name = environment_name(task_id)
    if name not in source_names(tasks):
        raise UnknownSourceTaskError(f"{task_id[:80]!r} is of no configured source; add its source to tasks.sources")
    try:
        return environment_of(name, tasks).by_id(task_id)
    except KeyError:
        raise UnknownSourceTaskError(
            f"{name} has no task {task_id[:80]!r}; `flywheel tasks list --source {name}` lists them"
        ) from None


def run_starter(tasks: TasksSettings) -> Callable[[SourceTask], Run]:
    """From a task to a new run of it, by the configured environment that its id begins with.

    An environment is loaded when a task of it is first run, so that one that is broken stops no other.
    """

    def start(task: SourceTask) -> Run:
        name = environment_name(task.id)
        if name not in source_names(tasks):
            raise ConfigurationError(f"task {task.id} is of no configured source; add {name!r} to tasks.sources")
        return environment_of(name, tasks).run(task)

    return start


def _of_entry_point(entry: importlib.metadata.EntryPoint, tasks: TasksSettings) -> Environment:
    try:
        environment: Environment = entry.load().of_settings(tasks)
    except Exception as error:
        raise ConfigurationError(f"the task source {entry.name} ({entry.value}) cannot be loaded: {error}") from error
    if environment.name != entry.name:
        raise ConfigurationError(f"the task source {entry.name} ({entry.value}) calls itself {environment.name!r}")
    return environment
