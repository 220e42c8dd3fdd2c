"""The reference agent gives the published answer, and errs where it is told to."""

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.evaluation.function_calls import check
from tests.fakes import benchmark_task

TASKS = [benchmark_task(str(number)) for number in range(400)]


def test_it_answers_as_published() -> None:
    for task, answer in zip(TASKS[:5], ReferenceAgent().answer(TASKS[:5]), strict=True):
        assert check(task.expected, task.tools, answer.text).exact
        assert answer.latency_ms > 0
        assert answer.prompt_tokens > answer.output_tokens > 0


def test_its_errors_are_a_share_of_the_tasks_and_the_same_ones_each_time() -> None:
    agent = ReferenceAgent(error_rate=0.3)
    wrong = {task.id for task, answer in zip(TASKS, agent.answer(TASKS), strict=True) if '"noop"' in answer.text}
    again = {t.id for t, a in zip(TASKS[::-1], agent.answer(TASKS[::-1]), strict=True) if '"noop"' in a.text}
    assert wrong == again
    assert 0.2 < len(wrong) / len(TASKS) < 0.4
