"""Every process sees what all others have to do, loses nothing of it, and forgets those that were killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, func, select, text

from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.loads import UNUSED, AgentLoad, SharedLoads, shared_loads
from flywheel.arbiter.routing.strategy import Load
from flywheel.arbiter.tables import agent_loads
from flywheel.database import connect

HOLDER = """
import sys, time
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.loads import SharedLoads
from flywheel.database import connect

slots = Slots(SharedLoads(connect(sys.argv[1]), lease_s=float(sys.argv[2]), renewal_s=0.2))
with slots.hold("a", limit=1, tasks=4):
    print("holding", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def load_of(engine: Engine, agent_id: str = "a") -> AgentLoad:
    return shared_loads(engine).get(agent_id, UNUSED)


def rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(agent_loads)) or 0


def test_two_processes_are_added_up_and_neither_overwrites_the_other(engine: Engine) -> None:
    with SharedLoads(engine) as one, SharedLoads(engine) as other:
        here, there = Slots(one), Slots(other)
        with here.hold("a", limit=2), here.hold("a", limit=2), there.hold("a", limit=2, tasks=3):
            assert until(lambda: load_of(engine).load == Load(active=5))
            assert load_of(engine).processes == 2
        assert until(lambda: load_of(engine) == UNUSED)
    assert rows(engine) == 0


def test_what_closes_takes_its_load_back(engine: Engine) -> None:
    shared = SharedLoads(engine)
    shared.load("a", Load(active=1, queued=2))
    assert until(lambda: load_of(engine).load == Load(active=1, queued=2))
    shared.close()
    assert rows(engine) == 0


def test_a_killed_process_is_forgotten_when_its_lease_ends_and_a_living_one_is_not(
    engine: Engine, database_url: str
) -> None:
    command = [sys.executable, "-c", HOLDER, database_url, "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        assert until(lambda: load_of(engine).load == Load(active=4))
        time.sleep(4)  # longer than the lease: it is renewed
        assert load_of(engine).load == Load(active=4)
        os.kill(process.pid, signal.SIGKILL)
    assert until(lambda: load_of(engine) == UNUSED, seconds=10)
    with SharedLoads(engine, renewal_s=0.1) as living:
        living.load("b", Load(active=1))
        assert until(lambda: rows(engine) == 1), "the row of the dead one is removed"


def test_an_agent_that_is_left_alone_is_unavailable_until_its_rest_is_over(engine: Engine) -> None:
    with SharedLoads(engine) as shared, SharedLoads(engine) as other:
        shared.unavailable("a", 1.5, "it answered 500")
        assert until(lambda: not load_of(engine).available)
        assert load_of(engine).unavailable_because == "it answered 500"
        other.load("a", Load(active=1))
        assert until(lambda: load_of(engine).processes == 2)
        assert until(lambda: load_of(engine).unavailable_in == 0)
        assert load_of(engine).available


def test_an_outage_of_the_database_is_survived(engine: Engine) -> None:
    with SharedLoads(engine, renewal_s=0.2) as shared:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE agent_loads RENAME TO elsewhere"))
        shared.load("a", Load(active=1))
        time.sleep(0.5)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO agent_loads"))
        assert until(lambda: load_of(engine).load == Load(active=1))
