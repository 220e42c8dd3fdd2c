"""A service with agents behind a model's endpoint, and OpenAI's own client of it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import openai
import pytest

from flywheel.api.app import create_app
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.receiver.keys import create_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.chat.model import Model, served


@pytest.fixture
def model() -> Iterator[Model]:
    """The model of ``url``."""
    made = Model()
    with served(made.app) as url:
        made.url = f"{url}/v1"
        yield made


@pytest.fixture
def chat_settings(settings: Settings) -> Settings:
    """Without the agents of the profile."""
    return settings.model_copy(update={"agents": ()})


@pytest.fixture
def key(chat_settings: Settings) -> str:
    """A key of the tenant acme that may run tasks."""
    with BenchmarkPool.open(chat_settings) as pool:
        made = create_key(pool, "acme", name="test", by="tester", now=datetime.now(UTC), may_run_tasks=True)
    return made.key


@pytest.fixture
def add_agent(chat_settings: Settings, model: Model) -> Callable[..., None]:
    """Registers an agent: by default one that asks the model."""

    def add(agent_id: str, **fields: object) -> None:
        described = {"kind": "openai", "base_url": model.url, "model": "small", "timeout_s": 20.0, **fields}
        with BenchmarkPool.open(chat_settings) as pool:
            AgentRegistry(pool.engine).register(AgentProfile(id=agent_id, **described))  # type: ignore[arg-type]

    return add


@pytest.fixture
def service(chat_settings: Settings, add_agent: Callable[..., None]) -> Iterator[str]:
    """The base URL for OpenAI's clients. One agent is there, ``small``."""
    add_agent("small")
    with served(create_app(chat_settings)) as url:
        yield f"{url}/v1"


@pytest.fixture
def client(service: str, key: str) -> Iterator[openai.OpenAI]:
    """OpenAI's client, which tries nothing twice."""
    with openai.OpenAI(base_url=service, api_key=key, max_retries=0) as opened:
        yield opened
