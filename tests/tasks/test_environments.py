"""What holds for every environment: the known solution passes, silence does not, and a run knows of no other."""

import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from flywheel.errors import ConfigurationError
from flywheel.records import Complexity
from flywheel.settings import Settings, TasksSettings
from flywheel.tasks import catalog, source
from flywheel.tasks import environment as environment_module
from flywheel.tasks.environment import Environment, Observation
from flywheel.tasks.source import SourceTask, Split
from flywheel.tasks.text_transformation.environment import TextTransformation

TASKS = Settings.load(profile="quickstart").tasks
SAMPLE = 25
NAMES = ["bfcl", "code-repair", "text-transformation"]


def environment(name: str) -> Environment:
    return catalog.environment_of(name, TASKS)


def followed(found: Environment, task: SourceTask) -> tuple[list[Observation], bool]:
    """What the environment says to its own known solution, and whether it is verified."""
    run = found.run(task)
    observations = [run.step(run.known_answer())]
    while not observations[-1].over:
        observations.append(run.step(run.known_answer()))
    return observations, run.verify().passed


def sample(tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
    return tasks[:: max(1, len(tasks) // SAMPLE)]


@pytest.mark.parametrize("name", NAMES)
def test_tasks_have_ids_of_their_own_that_begin_with_the_source(name: str) -> None:
    found = environment(name)
    ids = [task.id for task in found.tasks()]
    assert len(set(ids)) == len(ids) > 20
    assert {catalog.environment_name(task_id) for task_id in ids} == {name} == {found.name}
    assert found.by_id(ids[-1]).id == ids[-1]
    with pytest.raises(KeyError):
        found.by_id(f"{name}:there-is-none")


@pytest.mark.parametrize("name", NAMES)
def test_the_known_solution_passes_and_says_the_same_each_time(name: str) -> None:
    found = environment(name)
    for task in sample(found.tasks()):
        first, passed = followed(found, task)
        assert passed, task.id
        assert (first, passed) == followed(found, task)


@pytest.mark.parametrize("name", ["code-repair", "text-transformation"])
def test_silence_and_chatter_are_not_verified_as_done(name: str) -> None:
    found = environment(name)
    task = found.tasks()[0]
    assert not found.run(task).verify().passed
    for answer in ("", "I would be glad to help you with that."):
        run = found.run(task)
        run.step(answer)
        verification = run.verify()
        assert (verification.passed, verification.reason == "as expected") == (False, False)
        assert verification.task < 1


@pytest.mark.parametrize("name", ["code-repair", "text-transformation"])
def test_there_are_held_out_tasks_and_a_split_is_a_matter_of_the_task_alone(name: str) -> None:
    splits = {task.id: task.split for task in environment(name).tasks()}
    assert {Split.TRAIN, Split.HELDOUT} <= set(splits.values())
    settings = TASKS.model_copy(update={"sources": ("code-repair", "text-transformation")})
    assert {task.id: task.split for task in catalog.environment_of(name, settings).tasks()} == splits


def test_the_example_of_the_manual_runs() -> None:
    manual = Path(__file__).parents[2] / "docs" / "environments.md"
    (code,) = re.findall(r"```python\n(.*?)```", manual.read_text(encoding="utf-8"), re.DOTALL)
    names = {**vars(environment_module), **vars(source), "Complexity": Complexity}
    exec(code, names)
    lift = cast("Environment", names["Lift"].of_settings(TASKS))
    (task,) = lift.tasks()
    assert followed(lift, task)[1]
    wrong = lift.run(task)
    wrong.step("2")
    assert wrong.verify().reason == "the answer is '2'"


def test_an_unknown_source_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="no task source 'poems'; there are bfcl, synthetic, agentdojo"):
        catalog.environment_of("poems", TASKS)


class Poems(TextTransformation):
    """Another package's environment."""

    name = "poems"


class Misnamed(TextTransformation):
    name = "novels"


class Broken:
    @classmethod
    def of_settings(cls, tasks: TasksSettings) -> Environment:
        raise RuntimeError("no licence")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        importlib.metadata.EntryPoint(name, f"{__name__}:{kind}", catalog.GROUP)
        for name, kind in (("poems", "Poems"), ("tales", "Misnamed"), ("plays", "Broken"))
    ]
    own = importlib.metadata.EntryPoints(entries)
    monkeypatch.setattr(importlib.metadata, "entry_points", own.select)


@pytest.mark.usefixtures("installed")
def test_other_packages_add_environments_by_entry_point() -> None:
    assert catalog.environment_names()[-3:] == ("poems", "tales", "plays")
    found = catalog.environment_of("poems", TASKS)
    assert followed(found, found.tasks()[0])[1]


@pytest.mark.usefixtures("installed")
def test_an_environment_that_cannot_be_loaded_is_named_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match=r"plays .*cannot be loaded: no licence"):
        catalog.environment_of("plays", TASKS)
    with pytest.raises(ConfigurationError, match=r"tales .*calls itself 'novels'"):
        catalog.environment_of("tales", TASKS)


@pytest.mark.usefixtures("installed")
def test_a_broken_environment_stops_no_task_of_another_one() -> None:
    start = catalog.run_starter(TasksSettings(sources=("plays", "text-transformation")))
    task = environment("text-transformation").tasks()[0]
    assert start(task).step(start(task).known_answer()).over
    with pytest.raises(ConfigurationError, match="cannot be loaded: no licence"):
        start(msgspec.structs.replace(task, id="plays:hamlet"))
    with pytest.raises(ConfigurationError, match=r"of no configured source; add 'code-repair' to tasks\.sources"):
        start(msgspec.structs.replace(task, id="code-repair:clamp"))
