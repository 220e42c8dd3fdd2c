"""Streams of traffic: which tasks they take, and that a killed one resumes and counts nothing twice."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN_FILE
from flywheel.arbiter.evaluation.rubrics.settings import RubricSettings
from flywheel.arbiter.settings import AgentSettings
from flywheel.arbiter.tables import bandit_state, task_outcomes
from flywheel.arbiter.traffic import TrafficReport, run_tasks, stream, traffic_report
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.database import connect
from flywheel.errors import ConfigurationError, SegmentError, ServiceError, TaskSourceError
from flywheel.records import Evaluation, RoutingDecision, decode_log
from flywheel.settings import Settings
from flywheel.tasks import catalog
from flywheel.tasks.source import Split
from tests.fakes import FakeSource, benchmark_task

COUNT = 40
ALL_FOR_THE_TASK = "format: 0, tool: 0, task: 1, minimal: 0, cost: 0"
AGENTS = (
    AgentSettings(id="reference", kind="reference"),
    AgentSettings(id="sloppy", kind="reference", error_rate=0.6),
)
SOURCE = FakeSource(
    [benchmark_task(f"{n}", task_type=("synthetic-add", "synthetic-lookup")[n % 2]) for n in range(80)]
    + [benchmark_task(f"heldout-{n}", split=Split.HELDOUT) for n in range(20)]
    + [benchmark_task(f"other-{n}", task_type="irrelevance") for n in range(20)]
)


@pytest.fixture
def engine(database_url: str) -> Engine:
    return connect(database_url)


@pytest.fixture
def traffic_settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(catalog, "load_source", lambda settings: SOURCE)
    tasks = settings.tasks.model_copy(update={"routed_before": COUNT, "routed_after": 20, "round_size": 10})
    return settings.model_copy(update={"tasks": tasks, "agents": AGENTS})


def logged(settings: Settings) -> Counter[tuple[str, str]]:
    """How often each kind of log of each task is in the closed segments."""
    items = [item for path in closed_segments(settings.segments_dir) for item in read_segment(path)]
    logs = [decode_log(item.payload) for item in items if isinstance(item, Frame)]
    return Counter((log.task_id, type(log).__name__) for log in logs)


def assert_counted_once(engine: Engine, report: TrafficReport, tasks: int) -> None:
    with engine.connect() as connection:
        learned = connection.scalar(select(func.sum(bandit_state.c.tasks)))
        quality = connection.scalar(select(func.sum(bandit_state.c.quality_sum)))
        outcomes = connection.execute(select(func.count(), func.sum(task_outcomes.c.quality))).one()
    assert report.tasks == tasks == learned == outcomes[0]
    assert quality == pytest.approx(outcomes[1])


def test_the_streams_take_training_tasks_of_training_categories_and_share_none(
    traffic_settings: Settings, engine: Engine
) -> None:
    before = {task.id for task in stream(traffic_settings, engine, label="before")}
    after = {task.id for task in stream(traffic_settings, engine, label="after")}
    assert (len(before), len(after)) == (COUNT, 20)
    assert not before & after
    assert not any("heldout" in task_id or "other" in task_id for task_id in before | after)


def test_a_run_reports_every_task_once_and_again_without_running_it(traffic_settings: Settings, engine: Engine) -> None:
    seen: list[tuple[int, int]] = []
    report = run_tasks(
        traffic_settings, engine, label="before", on_progress=lambda done, total, _: seen.append((done, total))
    )
    assert_counted_once(engine, report, COUNT)
    assert seen[0] == (0, COUNT)
    assert seen == sorted(seen)
    assert seen[-1] == (COUNT, COUNT)
    lines = logged(traffic_settings)
    again = run_tasks(traffic_settings, engine, label="before")
    assert logged(traffic_settings) == lines
    assert again.agents == report.agents == traffic_report(engine, label="before").agents
    assert sum(agent.share for agent in report.agents) == pytest.approx(1)
    by_id = {agent.agent_id: agent for agent in report.agents}
    assert by_id["reference"].success_rate == 1.0
    assert by_id["sloppy"].success_rate is not None
    assert by_id["sloppy"].success_rate < 1.0


def test_the_rubric_of_the_configuration_scores_calls_and_environments_and_is_named(
    traffic_settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    text = BUILTIN_FILE.read_text(encoding="utf-8").replace("id: builtin", "id: team")
    file = tmp_path / "team.yaml"
    file.write_text(text.replace("format: 0.25, tool: 0.30, task: 0.35, minimal: 0.00, cost: 0.10", ALL_FOR_THE_TASK))
    tasks = traffic_settings.tasks.model_copy(update={"sources": ("text-transformation",), "routed_before": 12})
    rubrics = RubricSettings(files=(file,), use="team")
    settings = traffic_settings.model_copy(update={"tasks": tasks, "rubrics": rubrics})
    run_tasks(settings, engine, label="before")
    items = [item for path in closed_segments(settings.segments_dir) for item in read_segment(path)]
    logs = [decode_log(item.payload) for item in items if isinstance(item, Frame)]
    evaluations = [log for log in logs if isinstance(log, Evaluation)]
    assert {log.rubric for log in evaluations} == {"team@1"}
    assert all(log.overall_score == log.rubric_scores.task for log in evaluations)
    assert {log.task_type for log in logs if isinstance(log, RoutingDecision)} >= {"text-transformation"}
    with pytest.raises(ConfigurationError, match="no rubric 'nobody'"):
        run_tasks(settings.model_copy(update={"rubrics": RubricSettings(use="nobody")}), engine, label="before")


def test_after_takes_fresh_tasks_also_when_before_was_made_longer(traffic_settings: Settings, engine: Engine) -> None:
    run_tasks(traffic_settings, engine, label="before")
    run_tasks(traffic_settings, engine, label="after", count=5)
    assert traffic_report(engine, label="after").tasks == 5
    shorter = traffic_settings.tasks.model_copy(update={"routed_before": 10})
    changed = traffic_settings.model_copy(update={"tasks": shorter})
    with engine.connect() as connection:
        used = set(connection.scalars(select(task_outcomes.c.source_id).where(task_outcomes.c.label == "before")))
    assert not used & {task.id for task in stream(changed, engine, label="after")}


# Where the process dies by its own hand, without cleaning up: Python code run before the traffic starts.
KILLS = {
    "between two logs of a task": "logs = collector.Collector; logs.log_evaluation = dying_at(logs.log_evaluation, 14)",
    "after the logs, before the outcomes": "rounds.Rounds.settle = dying_at(rounds.Rounds.settle, 3)",
    "within the commit": "settling.learn = dying_at(settling.learn, 3)",
}
PROGRAM = """
import os, signal, sys
from flywheel.arbiter import rounds, settling
from flywheel.arbiter.traffic import run_tasks
from flywheel.collection import collector
from flywheel.database import connect
from flywheel.settings import Settings
from flywheel.tasks import catalog
from tests.arbiter.test_traffic import SOURCE

def dying_at(function, call):
    calls = 0
    def counted(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return counted

catalog.load_source = lambda settings: SOURCE
settings = Settings.model_validate_json(sys.stdin.read())
{kill}
run_tasks(settings, connect(settings.database_url), label="before")
"""


@pytest.mark.parametrize("moment", KILLS)
def test_a_killed_run_resumes_and_counts_nothing_twice(traffic_settings: Settings, engine: Engine, moment: str) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(kill=KILLS[moment])],
        input=traffic_settings.model_dump_json(exclude={"tenant_salt"}),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = traffic_report(engine, label="before").tasks
    assert 0 < done < COUNT
    report = run_tasks(traffic_settings, engine, label="before")
    assert_counted_once(engine, report, COUNT)
    lines = logged(traffic_settings)
    assert {task_id for task_id, _ in lines} == {
        f"before-{task.id}" for task in stream(traffic_settings, engine, label="before")
    }
    repeated = {task_id for (task_id, _), times in lines.items() if times > 1}
    assert len(lines) == 3 * COUNT
    assert len(repeated) == (1 if moment == "between two logs of a task" else 0)
    assert all(times == 1 for (_, kind), times in lines.items() if kind == "Evaluation")


def test_a_stream_has_one_runner_at_a_time(traffic_settings: Settings, engine: Engine) -> None:
    def start_another(done: int, total: int, message: str) -> None:
        with pytest.raises(ServiceError, match="another process is running the tasks of 'before'"):
            run_tasks(traffic_settings, engine, label="before")

    run_tasks(traffic_settings, engine, label="before", count=10, on_progress=start_another)


def test_a_disk_that_takes_no_logs_stops_the_stream_and_counts_nothing(
    traffic_settings: Settings, engine: Engine
) -> None:
    traffic_settings.segments_dir.parent.mkdir(parents=True, exist_ok=True)
    traffic_settings.segments_dir.write_text("in the way")
    with pytest.raises(SegmentError, match="logs could not be written"):
        run_tasks(traffic_settings, engine, label="before")
    assert traffic_report(engine, label="before").tasks == 0
    traffic_settings.segments_dir.unlink()
    assert_counted_once(engine, run_tasks(traffic_settings, engine, label="before"), COUNT)


def test_too_few_tasks_are_an_error_with_the_numbers(traffic_settings: Settings, engine: Engine) -> None:
    tasks = traffic_settings.tasks.model_copy(update={"routed_before": 75})
    with pytest.raises(TaskSourceError, match="20 tasks are wanted for 'after', and 5 training tasks"):
        stream(traffic_settings.model_copy(update={"tasks": tasks}), engine, label="after")


def test_an_unknown_label_is_refused(traffic_settings: Settings, engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="'sideways' is unknown"):
        run_tasks(traffic_settings, engine, label="sideways")
