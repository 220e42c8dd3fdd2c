"""The tasks of the smoke profile."""

from collections import defaultdict

import pytest

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.errors import TaskSourceError
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.prompt import reference_answer
from flywheel.tasks.source import BenchmarkTask, Split
from flywheel.tasks.synthetic import SyntheticSource


@pytest.fixture(scope="module")
def tasks() -> tuple[BenchmarkTask, ...]:
    return tuple(load_source(Settings.load(profile="smoke")).tasks())


def test_the_same_content_is_in_one_split_however_it_is_phrased(tasks: tuple[BenchmarkTask, ...]) -> None:
    splits = defaultdict(set)
    for task in tasks:
        splits[reference_answer(task)].add(task.split)
    assert len(splits) == 180
    assert all(len(found) == 1 for found in splits.values())


def test_every_type_has_tasks_in_every_split(tasks: tuple[BenchmarkTask, ...]) -> None:
    settings = Settings.load(profile="smoke")
    found = {(task.task_type, task.split) for task in tasks}
    assert found == {(kind, split) for kind in settings.tasks.categories for split in Split}


def test_there_are_tasks_enough_for_the_smoke_profile(tasks: tuple[BenchmarkTask, ...]) -> None:
    settings = Settings.load(profile="smoke").tasks
    assert sum(task.split is Split.TRAIN for task in tasks) >= settings.routed_before + settings.routed_after


def test_reference_answers_are_right(tasks: tuple[BenchmarkTask, ...]) -> None:
    assert all(check(task.expected, task.tools, reference_answer(task)).exact for task in tasks)


def test_an_unknown_category_is_named() -> None:
    with pytest.raises(TaskSourceError, match="no such task category: poems"):
        SyntheticSource(categories=("poems",), heldout_fraction=0.3, validation_fraction=0.1)
