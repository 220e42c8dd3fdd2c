"""The chat proxy beside the bare endpoint, and LiteLLM's proxy where there is one: milliseconds added, requests/s.

``python benchmarks/proxy.py [--json] [--requests N] [--seconds S] [--delay-ms D] [--litellm COMMAND]``. The endpoint
is a process that answers after a fixed delay, whole or in ten pieces of which the first comes after it. Everything is a
process of its own under uvicorn with one worker, asked over kept connections: one request after the other for the
latencies, 32 at once for the throughput. Rounds are interleaved; the figures are of all rounds together. The service
does all it does for every request: a key, a claim, routing, the logs synced to disk, the result in PostgreSQL.

LiteLLM needs other versions of our packages, so it has an environment of its own (``python -m venv LITELLM &&
LITELLM/bin/pip install 'litellm[proxy]'``); its command, ``LITELLM/bin/litellm``, is named with ``--litellm``. It is
run as it comes: without a database, it logs and counts nothing.
"""

import argparse
import asyncio
import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from _installation import empty_installation

from flywheel.api.server import run
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.receiver.keys import create_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[1]
ROUNDS = 3
PIECES = 10
AT_ONCE = 32
ASKED = [{"role": "user", "content": "what is asked of the model, in some detail. " * 20}]
USAGE = {"prompt_tokens": 200, "completion_tokens": 40, "total_tokens": 240}
Found = dict[str, dict[str, Any]]


def serve_endpoint(port: int, delay_s: float) -> None:
    """The endpoint that all of them ask."""
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import StreamingResponse

    app = FastAPI()
    head = {"id": "c", "created": 1, "model": "small"}

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(PIECES):
            choice = {"index": 0, "delta": {"content": f"piece {number} "}, "finish_reason": None}
            yield _event({**head, "object": "chat.completion.chunk", "choices": [choice]})
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        yield _event({**head, "object": "chat.completion.chunk", "choices": [last]})
        yield _event({**head, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
        yield b"data: [DONE]\n\n"

    @app.post("/v1/chat/completions", response_model=None)
    async def complete(request: Request) -> Response:
        body = await request.json()
        await asyncio.sleep(delay_s)
        if body.get("stream"):
            return StreamingResponse(pieces(), media_type="text/event-stream")
        message = {"role": "assistant", "content": "piece " * PIECES}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        content = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
        return Response(json.dumps(content), media_type="application/json")

    run(app, host="127.0.0.1", port=port, header_timeout_s=10.0)


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


@contextmanager
def process(command: list[str], ready: str, environment: dict[str, str] | None = None) -> Iterator[None]:
    """A server, from the moment that it answers.

    Raises:
        SystemExit: it ended before it did.
    """
    child = subprocess.Popen(
        command, env=os.environ | (environment or {}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            if child.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {child.returncode} before it answered")
            try:
                if httpx.get(ready, trust_env=False, timeout=2).status_code < 500:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        yield
    finally:
        child.terminate()
        child.wait()


async def answered(client: httpx.AsyncClient, target: dict[str, str]) -> float:
    """Milliseconds until the whole answer."""
    started = time.perf_counter()
    body = {"model": target["model"], "messages": ASKED}
    (await client.post(f"{target['url']}/chat/completions", json=body)).raise_for_status()
    return (time.perf_counter() - started) * 1000


async def begun(client: httpx.AsyncClient, target: dict[str, str]) -> float:
    """Milliseconds until the first piece of a streamed answer, which is read to its end."""
    started, first = time.perf_counter(), 0.0
    body = {"model": target["model"], "messages": ASKED, "stream": True}
    async with client.stream("POST", f"{target['url']}/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not first and "piece 0" in line:
                first = (time.perf_counter() - started) * 1000
    if not first:
        raise SystemExit(f"{target} streamed no piece")
    return first


def client_of(target: dict[str, str]) -> httpx.AsyncClient:
    """Keeps as many connections as are used at once."""
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    headers = {"Authorization": f"Bearer {target['key']}"}
    return httpx.AsyncClient(headers=headers, trust_env=False, timeout=60, limits=limits)


async def latencies(target: dict[str, str], requests: int) -> tuple[list[float], list[float]]:
    """Of whole answers and of first pieces, one request after the other."""
    async with client_of(target) as client:
        for _ in range(3):
            await answered(client, target)
            await begun(client, target)
        whole = [await answered(client, target) for _ in range(requests)]
        return whole, [await begun(client, target) for _ in range(requests)]


async def throughput(target: dict[str, str], *, at_once: int, seconds: float) -> float:
    """Requests a second of so many clients that each send as soon as they are answered."""
    async with client_of(target) as client:
        until = time.perf_counter() + seconds

        async def send() -> int:
            done = 0
            while time.perf_counter() < until:
                await answered(client, target)
                done += 1
            return done

        started = time.perf_counter()
        done = sum(await asyncio.gather(*(send() for _ in range(at_once))))
        return done / (time.perf_counter() - started)


def measure(targets: dict[str, dict[str, str]], options: argparse.Namespace) -> Found:
    """All of them in turn."""
    held: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        for name, target in targets.items():
            found = held.setdefault(name, {"whole": [], "first": [], "one": [], "many": []})
            whole, first = asyncio.run(latencies(target, options.requests))
            found["whole"] += whole
            found["first"] += first
            found["one"].append(asyncio.run(throughput(target, at_once=1, seconds=options.seconds)))
            found["many"].append(asyncio.run(throughput(target, at_once=AT_ONCE, seconds=options.seconds)))
    return {name: _figures(found) for name, found in held.items()}


def _figures(found: dict[str, list[float]]) -> dict[str, Any]:
    def spread(times: list[float]) -> dict[str, float]:
        return {"p50_ms": statistics.median(times), "p99_ms": statistics.quantiles(times, n=100)[98]}

    return {
        "answer": spread(found["whole"]),
        "first_piece": spread(found["first"]),
        "requests_per_s_1": statistics.median(found["one"]),
        f"requests_per_s_{AT_ONCE}": statistics.median(found["many"]),
    }


def with_overhead(found: Found) -> Found:
    """The figures with what each proxy adds to the bare endpoint's."""
    bare = found["bare endpoint"]
    for name, figures in found.items():
        if name != "bare endpoint":
            figures["added"] = {
                f"{kind}_{quantile}": figures[kind][quantile] - bare[kind][quantile]
                for kind in ("answer", "first_piece")
                for quantile in ("p50_ms", "p99_ms")
            }
    return found


def prepared(settings: Settings, endpoint: str) -> str:
    """An agent behind the endpoint, and a key that may run tasks."""
    settings.home.mkdir(exist_ok=True)
    with BenchmarkPool.open(settings) as pool:
        profile = AgentProfile(
            id="small", kind="openai", base_url=endpoint, model="small", max_concurrent=1000, timeout_s=60.0
        )
        AgentRegistry(pool.engine).register(profile)
        return create_key(pool, "acme", name="benchmark", by="benchmark", now=datetime.now(UTC), may_run_tasks=True).key


def litellm_config(folder: Path, endpoint: str) -> Path:
    """LiteLLM's description of the same endpoint; JSON is YAML."""
    parameters = {"model": "openai/small", "api_base": endpoint, "api_key": "none"}
    content = {"model_list": [{"model_name": "small", "litellm_params": parameters}]}
    path = folder / "litellm.yaml"
    path.write_text(json.dumps(content))
    return path


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def compared(settings: Settings, folder: Path, options: argparse.Namespace) -> Found:
    """Start everything and measure."""
    at_endpoint, ours, theirs = free_ports(3)
    endpoint = f"http://127.0.0.1:{at_endpoint}/v1"
    key = prepared(settings, endpoint)
    environment = {
        "PYTHONPATH": str(REPOSITORY),
        "FLYWHEEL_DATABASE_URL": settings.database_url,
        "FLYWHEEL_RECEIVER__ITEMS_PER_S": "1e9",
    }
    installed = ["--home", str(settings.home), "--profile", "production"]
    serve = [sys.executable, "-m", "flywheel.cli", *installed, "serve", "--port", str(ours)]
    bare = [sys.executable, __file__, "--endpoint", str(at_endpoint), "--delay-ms", str(options.delay_ms)]
    targets = {
        "bare endpoint": {"url": endpoint, "model": "small", "key": "none"},
        "flywheel": {"url": f"http://127.0.0.1:{ours}/v1", "model": "auto", "key": key},
    }
    with ExitStack() as servers:
        servers.enter_context(process(bare, f"http://127.0.0.1:{at_endpoint}/openapi.json", environment))
        servers.enter_context(process([*serve, "--grpc-port", "0"], f"http://127.0.0.1:{ours}/readyz", environment))
        if options.litellm:
            config = str(litellm_config(folder, endpoint))
            command = [options.litellm, "--config", config, "--host", "127.0.0.1", "--port", str(theirs)]
            theirs_key = f"sk-{secrets.token_hex(16)}"
            environment = {"LITELLM_MASTER_KEY": theirs_key}
            servers.enter_context(process(command, f"http://127.0.0.1:{theirs}/health/liveliness", environment))
            targets["litellm"] = {"url": f"http://127.0.0.1:{theirs}/v1", "model": "small", "key": theirs_key}
        return with_overhead(measure(targets, options))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=100, help="of each kind in a round, one after the other")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each throughput in a round")
    parser.add_argument("--delay-ms", type=float, default=50.0, help="of the endpoint")
    parser.add_argument("--litellm", default="", help="the command of LiteLLM; empty: it is left out")
    parser.add_argument("--endpoint", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.endpoint:
        serve_endpoint(options.endpoint, options.delay_ms / 1000)
        return
    with empty_installation() as settings, tempfile.TemporaryDirectory() as folder:
        found = compared(settings, Path(folder), options)
    if options.json:
        print(json.dumps({"delay_ms": options.delay_ms, **found}))
        return
    for name, figures in found.items():
        print(name)
        for what, figure in figures.items():
            parts = figure.items() if isinstance(figure, dict) else [("", figure)]
            print(f"  {what:<20}", *(f"{part} {value:.1f}".strip() for part, value in parts), sep="  ")


if __name__ == "__main__":
    main()
