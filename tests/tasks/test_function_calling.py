"""The benchmark's tasks, read from the installed wheel."""

import importlib.metadata
import sys
from collections import defaultdict
from itertools import pairwise

import pytest

from flywheel.arbiter.evaluation.function_calls import check
from flywheel.errors import TaskSourceError
from flywheel.settings import Settings
from flywheel.tasks.catalog import source_of
from flywheel.tasks.function_calling import DISTRIBUTION, BfclSource
from flywheel.tasks.prompt import reference_answer
from flywheel.tasks.source import BenchmarkTask, Split


def installed() -> bool:
    try:
        importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


pytestmark = pytest.mark.skipif(not installed(), reason=f"the data wheel {DISTRIBUTION} is not installed")


@pytest.fixture(scope="module")
def tasks() -> tuple[BenchmarkTask, ...]:
    return tuple(source_of(Settings.load(profile="quickstart").tasks).tasks())


def test_no_function_tested_held_out_is_an_answer_in_training(tasks: tuple[BenchmarkTask, ...]) -> None:
    splits = defaultdict(set)
    for task in tasks:
        for call in task.expected[:1]:
            splits[call.name].add(task.split)
    assert len(splits) > 500
    assert {name for name, found in splits.items() if len(found) > 1} == set()


def test_every_task_has_an_id_of_its_own_and_is_found_by_it(tasks: tuple[BenchmarkTask, ...]) -> None:
    source = source_of(Settings.load(profile="quickstart").tasks)
    assert len({task.id for task in tasks}) == len(tasks) > 1200
    assert source.by_id(tasks[7].id) == tasks[7]
    with pytest.raises(KeyError):
        source.by_id("bfcl:simple_python_9999")


def test_the_published_answer_passes_its_own_check(tasks: tuple[BenchmarkTask, ...]) -> None:
    wrong = [task.id for task in tasks if not check(task.expected, task.tools, reference_answer(task)).exact]
    assert wrong == []


def test_another_tasks_answer_fails_the_check(tasks: tuple[BenchmarkTask, ...]) -> None:
    simple = [task for task in tasks if task.category == "simple_python"]
    passed = [a.id for a, b in pairwise(simple) if check(a.expected, a.tools, reference_answer(b)).exact]
    assert passed == []


def test_there_are_tasks_enough_for_the_quick_start(tasks: tuple[BenchmarkTask, ...]) -> None:
    settings = Settings.load(profile="quickstart")
    routed = settings.tasks.routed_before + settings.tasks.routed_after
    trained = [task for task in tasks if task.category in settings.tasks.training_categories]
    assert sum(task.split is Split.TRAIN for task in trained) >= routed
    assert sum(task.split is Split.HELDOUT for task in trained) >= 150
    assert {task.task_type for task in trained} <= set(settings.task_types)


def test_irrelevant_questions_expect_no_call(tasks: tuple[BenchmarkTask, ...]) -> None:
    irrelevant = [task for task in tasks if task.category == "irrelevance"]
    assert irrelevant
    assert all(task.expected == () and reference_answer(task) == "" for task in irrelevant)


def test_the_benchmarks_package_is_never_imported(tasks: tuple[BenchmarkTask, ...]) -> None:
    assert tasks
    assert not [name for name in sys.modules if name == "bfcl_eval.model_handler"]


def test_an_unknown_category_is_named() -> None:
    with pytest.raises(TaskSourceError, match="no such task category: chess"):
        BfclSource(categories=("chess",), heldout_fraction=0.3, validation_fraction=0.1)
