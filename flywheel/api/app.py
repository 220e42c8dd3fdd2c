"""The HTTP service over the pool (FastAPI). ``flywheel serve`` runs it; ``/docs`` describes it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.metadata import version
from threading import Lock

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.concurrency import run_in_threadpool

from flywheel.api import agents, chat, exports, logs, metrics, otlp, points, pool, probes, tasks
from flywheel.api.arbiters import Arbiters
from flywheel.api.callers import api_token
from flywheel.api.chat import add_chat
from flywheel.api.logs import add_records
from flywheel.api.otlp_grpc import serving
from flywheel.api.problems import add_handlers
from flywheel.api.running_tasks import RunningTasks
from flywheel.arbiter.agents.build import ResolveModel, refuse_registry_models
from flywheel.collection.receiver.receiver import Receiver
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.routing_statistics import RoutingStatistics
from flywheel.settings import Settings

SUMMARY = "The arbiter and the benchmark data pool over HTTP: tasks, agents, records, statistics, points."
DESCRIPTION = (
    "Statistics, points, quality and batches of the benchmark data pool, over all tiers. Every answer says "
    "which days it covers.\n\n"
    "Requests carry a token as `Authorization: Bearer …`: that of a grant (`flywheel access request` asks for "
    "one, `flywheel access token` makes its token), which reads what the grant shows, or the installation's "
    "own (`secrets/api_token` in its home), which reads everything. Each route's answer 403 says which grants "
    "it needs. Every access is audited. Errors are problem details (RFC 9457).\n\n"
    "Exports are made by grants as rl-trainer: points for training elsewhere, chosen once, marked, and then fixed.\n\n"
    "Agents are added and changed by grants as admin; programs and functions of a team's own become agents by "
    "configuration and the command line alone.\n\n"
    "Tasks are routed and run, and their outcomes taken, for the tenant of a key that may run them (`flywheel "
    "keys create --may-run-tasks`).\n\n"
    "Records and traces come in with a key of their tenant (`flywheel keys create`), and are synced to disk "
    "when they are acknowledged."
)
ROUTERS = (
    probes.router,
    pool.open_router,
    pool.router,
    exports.router,
    points.router,
    agents.router,
    chat.router,
    metrics.router,
    logs.router,
    otlp.router,
    tasks.router,
)


def create_app(
    settings: Settings,
    *,
    clock: Callable[[], datetime] | None = None,
    otlp_grpc_address: str = "",
    resolve_model: ResolveModel = refuse_registry_models,
) -> FastAPI:
    """The service of an installation. It opens its pool when it starts and closes it when it ends.

    Args:
        settings: whose pool; with the URL of a database.
        clock: tells how old cached statistics are; the pool's where absent.
        otlp_grpc_address: `HOST:PORT` where OpenTelemetry is taken over gRPC; empty: nowhere.
        resolve_model: finds the models of local agents that are in the model registry.

    Raises:
        PoolError: the API token cannot be used.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with BenchmarkPool.open(settings) as opened:
            cache = RoutingStatistics(opened, clock=clock)
            app.state.pool, app.state.cache = opened, cache
            app.state.receiver = Receiver(opened)
            app.state.arbiters = Arbiters(opened, resolve_model=resolve_model)
            app.state.running_tasks = RunningTasks(settings.service)
            await run_in_threadpool(cache.start)
            try:
                with app.state.receiver, serving(app.state.receiver, otlp_grpc_address), app.state.arbiters:
                    try:
                        yield
                    finally:
                        await app.state.running_tasks.drain()
            finally:
                await run_in_threadpool(cache.stop)

    # Its pages take their scripts from this service: a closed network shows them too.
    app = FastAPIOffline(
        title="Arbiter flywheel",
        summary=SUMMARY,
        description=DESCRIPTION,
        version=version("arbiter-flywheel"),
        lifespan=lifespan,
    )
    app.state.token = api_token(settings)
    app.state.exporting = Lock()
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    describe = app.openapi
    app.openapi = lambda: app.openapi_schema or add_chat(add_records(describe()))  # type: ignore[method-assign]
    return app
