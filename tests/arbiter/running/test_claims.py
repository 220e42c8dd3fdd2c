"""A task runs once under its id, whichever process it is given to, and a killed runner's claim expires."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text, update

from flywheel.arbiter.running.calls import CancelToken, TaskCancelledError
from flywheel.arbiter.running.claims import Claim, Claims, ReusedTaskIdError, TakenTaskError
from flywheel.arbiter.running.streaming import Watch
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.tables import task_outcomes, task_runs
from flywheel.arbiter.task import Limits
from flywheel.errors import RetryLaterError
from tests.arbiter.running.service import ScriptedAgent, logs_of, replaced, service, task

PROGRAM = """
import sys
from pathlib import Path
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.database import connect
from tests.arbiter.running.service import ScriptedAgent, service, task
url, folder, seconds = sys.argv[1:]
settings = ExecutionSettings(claim_s=2.0)
with service(connect(url), Path(folder), {"a": ScriptedAgent(float(seconds))}, settings=settings) as arbiter:
    print("running", flush=True)
    print(arbiter.execute_task(task()).text, flush=True)
"""


def started(url: str, folder: Path, seconds: float) -> "subprocess.Popen[str]":
    """Another process that runs the task, in which an agent takes so long."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, str(folder), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def wait_for_claim(engine: Engine) -> None:
    while True:
        with engine.connect() as connection:
            if connection.scalar(select(task_runs.c.claim)):
                return
        time.sleep(0.02)


def test_a_second_call_gets_the_result_of_the_first(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.9 once", "0.9 twice")
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        first, second = arbiter.execute_task(task()), arbiter.execute_task(task())
        with pytest.raises(ReusedTaskIdError, match="'t1' of 'acme' is another one"):
            arbiter.execute_task(replaced(1, requirements=("something else",)))
    assert (first.replayed, second.replayed) == (False, True)
    assert (second.text, second.decision, len(agent.asked)) == (first.text, first.decision, 1)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 1)
    with engine.connect() as connection:
        assert connection.execute(select(task_outcomes.c.tenant_id, task_outcomes.c.task_id)).all() == [("acme", "t1")]


def test_concurrent_calls_run_it_once_and_all_get_its_result(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent(0.3, "0.9 twice")
    with service(engine, tmp_path, {"a": agent}) as arbiter, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: arbiter.execute_task(task()), range(8)))
    assert len(agent.asked) == 1
    assert {result.text for result in results} == {"1.0 late"}
    assert sum(not result.replayed for result in results) == 1


def test_a_caller_waits_no_longer_than_it_has_time(engine: Engine, tmp_path: Path) -> None:
    released = threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}) as arbiter, ThreadPoolExecutor(1) as threads:
        running = threads.submit(arbiter.execute_task, task())
        wait_for_claim(engine)
        with pytest.raises(RetryLaterError, match="still run by another caller"):
            arbiter.execute_task(replaced(1, limits=Limits(timeout_s=0.1)))
        token = CancelToken()
        threading.Timer(0.1, token.cancel).start()
        with pytest.raises(TaskCancelledError):
            arbiter.execute_task(task(), token=token)
        released.set()
        assert running.result().status == "succeeded"


def test_another_process_waits_for_the_result_and_runs_nothing(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    process = started(database_url, tmp_path / "there", 1.0)
    wait_for_claim(engine)
    agent = ScriptedAgent("0.9 here")
    with service(engine, tmp_path / "here", {"a": agent}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.text, result.replayed, agent.asked) == ("1.0 late", True, [])
    assert process.wait(20) == 0


def test_the_task_of_a_killed_process_is_run_when_its_claim_is_over(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    process = started(database_url, tmp_path / "there", 60.0)
    wait_for_claim(engine)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    with service(engine, tmp_path / "here", {"a": ScriptedAgent("0.9 here")}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.text, result.replayed) == ("0.9 here", False)


def test_a_claim_is_renewed_while_the_task_runs(engine: Engine, tmp_path: Path) -> None:
    slow, other = ScriptedAgent(3.5), ScriptedAgent("0.9 other")
    settings = ExecutionSettings(claim_s=2.0)
    with (
        service(engine, tmp_path / "1", {"a": slow}, settings=settings) as first,
        ThreadPoolExecutor(1) as threads,
    ):
        running = threads.submit(first.execute_task, task())
        wait_for_claim(engine)
        with service(engine, tmp_path / "2", {"a": other}, settings=settings) as second:
            assert second.execute_task(task()).text == "1.0 late"
        assert running.result().stored
    assert other.asked == []


def test_who_lost_its_claim_stores_and_teaches_nothing_but_has_its_answer(engine: Engine, tmp_path: Path) -> None:
    released = threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}) as arbiter, ThreadPoolExecutor(1) as threads:
        running = threads.submit(arbiter.execute_task, task())
        wait_for_claim(engine)
        with engine.begin() as connection:
            connection.execute(update(task_runs).values(claim="somebody else"))
        released.set()
        result = running.result()
    assert (result.text, result.stored) == ("1.0 late", False)
    with engine.connect() as connection:
        assert connection.execute(select(task_outcomes)).all() == []


def test_a_result_that_cannot_be_stored_is_given_and_the_task_may_run_again(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.9 once", "0.9 twice")
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE bandit_state ADD CONSTRAINT full_disk CHECK (tasks < 0)"))
        first = arbiter.execute_task(task())
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE bandit_state DROP CONSTRAINT full_disk"))
        second = arbiter.execute_task(task())
    assert (first.text, first.stored) == ("0.9 once", False)
    assert (second.text, second.stored, second.replayed) == ("0.9 twice", True, False)


def test_results_are_forgotten_when_they_are_old_and_the_id_may_be_used_again(engine: Engine) -> None:
    claims = Claims(engine, claim_s=30.0, kept=timedelta(hours=1))
    assert isinstance(claims.take("acme", "old", b"1", CancelToken()), Claim)
    assert isinstance(claims.take("acme", "young", b"1", CancelToken()), Claim)
    with engine.begin() as connection:
        connection.execute(text("UPDATE task_runs SET finished_at = now(), result = '{}'"))
        connection.execute(
            text("UPDATE task_runs SET finished_at = now() - interval '61 minutes' WHERE task_id = 'old'")
        )
    assert isinstance(claims.take("acme", "old", b"2", CancelToken()), Claim)
    with engine.begin() as connection:
        connection.execute(text("UPDATE task_runs SET finished_at = now() - interval '61 minutes'"))
    assert claims.forget_old() == 2
    claims.close()


def test_a_task_is_cancelled_from_another_process_when_its_runner_renews_next(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    with started(database_url, tmp_path / "other", 60.0) as process:
        wait_for_claim(engine)
        with service(engine, tmp_path / "own", {"a": ScriptedAgent()}) as arbiter:
            arbiter.cancel("t1", "it is not needed any more")
            deadline = time.monotonic() + 20
            while (known := arbiter.known("t1")) is None or known.result is None:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            arbiter.cancel("t1", "too late")
            assert arbiter.known("t1") == known
        process.kill()
    assert known.result.failure is not None
    assert (known.result.status, known.result.failure.reason) == ("cancelled", "it is not needed any more")


def test_a_task_whose_runner_was_killed_is_lost_until_it_runs_anew(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    with started(database_url, tmp_path, 60.0) as process:
        wait_for_claim(engine)
        process.kill()
    with service(engine, tmp_path, {"a": ScriptedAgent()}) as arbiter:
        deadline = time.monotonic() + 20
        while not (known := arbiter.known("t1")) or not known.lost:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert (known.result, known.routed) == (None, None)
        assert arbiter.execute_task(task()).status == "succeeded"


def test_a_task_is_its_caller_s_or_the_arbiter_s_and_never_both(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent(), "b": ScriptedAgent()}) as arbiter:
        first, before = arbiter.route_for_caller(task(1))
        again, replayed = arbiter.route_for_caller(task(1))
        assert (first, before, replayed) == (again, False, True)
        with pytest.raises(TakenTaskError, match="was routed for its caller to do"):
            arbiter.execute_task(task(1))
        with pytest.raises(ReusedTaskIdError):
            arbiter.route_for_caller(replaced(1, requirements=("something else",)))
        arbiter.execute_task(task(2))
        with pytest.raises(TakenTaskError, match="was given to the arbiter to run"):
            arbiter.route_for_caller(task(2))
    assert logs_of(tmp_path)["t1"].decisions == [first]


def test_a_claim_that_could_not_be_given_up_expires_though_its_process_goes_on(engine: Engine, tmp_path: Path) -> None:
    claims = Claims(engine, claim_s=1.0, kept=timedelta(hours=1))
    stuck, running = (claims.take("acme", name, b"1", CancelToken()) for name in ("stuck", "running"))
    assert isinstance(stuck, Claim)
    assert isinstance(running, Claim)
    with engine.begin() as connection:
        connection.execute(
            text("CREATE FUNCTION away() RETURNS trigger AS $$ BEGIN RAISE 'away'; END $$ LANGUAGE plpgsql")
        )
        connection.execute(text("CREATE TRIGGER away BEFORE DELETE ON task_runs EXECUTE FUNCTION away()"))
    claims.release(stuck, finished=False)
    time.sleep(2.0)
    with engine.connect() as connection:
        known = [claims.known(connection, "acme", name) for name in ("stuck", "running")]
    claims.close()
    assert [one is not None and one.lost for one in known] == [True, False]


def test_a_task_that_its_caller_did_is_kept_from_its_report_on(engine: Engine) -> None:
    claims = Claims(engine, claim_s=30.0, kept=timedelta(hours=1))
    assert isinstance(claims.take("acme", "t", b"1", CancelToken()), Claim)
    with engine.begin() as connection:
        connection.execute(text("UPDATE task_runs SET finished_at = now() - interval '10 minutes', result = '{}'"))
        connection.execute(text("UPDATE task_runs SET routed = '{}', expires_at = now() - interval '61 minutes'"))
    assert claims.forget_old() == 0
    with engine.begin() as connection:
        connection.execute(text("UPDATE task_runs SET finished_at = NULL, result = NULL"))
    assert claims.forget_old() == 1
    claims.close()


def test_a_task_runs_though_its_caller_cannot_be_told_that_it_does(engine: Engine, tmp_path: Path) -> None:
    def failing() -> None:
        raise RuntimeError("its event loop is closed")

    with service(engine, tmp_path, {"a": ScriptedAgent("0.9 done")}) as arbiter:
        assert arbiter.execute_task(task(), watch=Watch(on_accepted=failing)).text == "0.9 done"
