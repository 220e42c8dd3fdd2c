"""One arbiter serves all tenants: each has its own logs and results, all share agents, loads and what is learned."""

from collections.abc import Iterator

import msgspec
import pytest

from flywheel.api.arbiters import LABEL, Arbiters
from flywheel.arbiter.evaluation.judges.evaluator import NO_JUDGE
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.settings import AgentSettings
from flywheel.arbiter.task import Task
from flywheel.errors import ConfigurationError
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.receiver.conftest import stored

ECHO = "tests.arbiter.agents.functions:plain"


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened


def question(name: str) -> Task:
    return Task.asking("How high is it?", id=name, type="research")


def test_each_tenant_has_results_and_logs_of_its_own_and_closing_loses_none(
    pool: BenchmarkPool, settings: Settings
) -> None:
    AgentRegistry(pool.engine).register(AgentProfile(id="echo", kind="python", function=ECHO))
    pool = msgspec.structs.replace(pool, settings=settings.model_copy(update={"agents": ()}))
    with Arbiters(pool) as arbiters:
        for tenant in ("acme", "globex"):
            result = arbiters.of(tenant).execute_task(question("1"))
            assert (result.status, result.tenant_id, result.replayed) == ("succeeded", tenant, False)
        assert arbiters.of("acme").execute_task(question("1")).replayed
    logs = [(log["tenantId"], log["log"]) for log in stored(settings)]
    assert sorted(logs) == [(t, kind) for t in ("acme", "globex") for kind in ("execution", "routing")]


def test_what_nobody_can_judge_is_logged_with_the_reason(pool: BenchmarkPool, settings: Settings) -> None:
    AgentRegistry(pool.engine).register(AgentProfile(id="echo", kind="python", function=ECHO))
    pool = msgspec.structs.replace(pool, settings=settings.model_copy(update={"agents": ()}))
    with Arbiters(pool) as arbiters:
        result = arbiters.of("acme").execute_task(question("1"))
    assert (result.evaluation, result.not_evaluated) == (None, NO_JUDGE)
    [execution] = [log for log in stored(settings) if log["log"] == "execution"]
    assert execution["notEvaluated"] == NO_JUDGE


def test_agents_of_the_settings_are_there_from_the_first_task_on(pool: BenchmarkPool, settings: Settings) -> None:
    without = settings.model_copy(update={"agents": ()})
    told = pytest.raises(ConfigurationError, match="no agent is active")
    with BenchmarkPool.open(without) as none, Arbiters(none) as arbiters, told:
        arbiters.of("acme").check_agents()
    agent = AgentSettings(id="echo", kind="python", function=ECHO)
    configured = settings.model_copy(update={"agents": (agent,)})
    with BenchmarkPool.open(configured) as other, Arbiters(other) as arbiters:
        arbiters.of("acme").check_agents()
        assert arbiters.of("acme").execute_task(question("1")).agent_id == "echo"
    assert BanditState(pool.engine).evidence() == {}  # nobody judged it
    assert LABEL == "service"
