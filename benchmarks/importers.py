"""How fast each format is imported, next to ``orjson.loads`` over the same bytes, and in how much memory.

    python benchmarks/importers.py --json
    python benchmarks/importers.py --large-mb 2000   # peak memory over one large file of JSON lines and one document

Speed is CPU time of the whole import, segments and receipt included. The records are made up of the fixtures of the
tests, with conversations of a usual length; each file has about ``--mb`` megabytes.
"""

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping, RewardMapping

REQUEST = Request(mapping=Mapping(reward=RewardMapping(constant=1.0)))
TEXT = "The customer asks to move the flight to another day, which the fare does not allow. " * 6
CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "fare rules"}'}}
TURNS = 6


def messages() -> list[dict[str, Any]]:
    """A conversation in the manner of OpenAI's API."""
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": TEXT},
        {"role": "assistant", "content": TEXT},
    ]
    return turn * TURNS


def record_of(name: str, number: int) -> dict[str, Any]:
    """One record of a format."""
    talk = messages()
    if name == "agentdojo":
        return {"suite_name": "s", "pipeline_name": "p", "user_task_id": f"u{number}", "messages": talk,
                "utility": True, "security": False, "duration": 5.0}  # fmt: skip
    if name == "tau2":
        return {"id": f"s{number}", "task_id": "1", "start_time": "2026-01-01T00:00:00", "duration": 9.0,
                "reward_info": {"reward": 1.0}, "messages": talk}  # fmt: skip
    if name == "atif":
        steps = [{"step_id": 1, "source": "user" if one["role"] == "user" else "agent", "message": one["content"] or ""}
                 for one in talk]  # fmt: skip
        return {"schema_version": "ATIF-v1.6", "session_id": f"s{number}", "agent": {"name": "a"}, "steps": steps}
    if name == "mlflow":
        span = {"name": "chat", "attributes": {"mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": json.dumps({"messages": talk})}}  # fmt: skip
        info = {"trace_id": f"tr-{number}", "state": "OK", "request_time": 1767225600000}
        return {"info": info, "data": {"spans": [span]}}
    if name == "langfuse":
        return {"id": f"o{number}", "trace_id": f"t{number}", "type": "GENERATION", "start_time": "2026-01-01 00:00:00",
                "name": "llm", "input": json.dumps(talk), "output": "ok"}  # fmt: skip
    return otlp_request(talk, number) if name == "otlp" else {"messages": talk, "metadata": {"number": number}}


def otlp_request(talk: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """A request of OTLP's JSON with the two spans of a trace, an agent's and its model's."""
    said = [{"role": one["role"], "parts": [{"type": "text", "content": one["content"] or ""}]} for one in talk]
    of_agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    of_model = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said[:-1]),
                "gen_ai.output.messages": json.dumps(said[-1:])}  # fmt: skip
    trace = f"{number + 1:032x}"
    spans = [
        {"traceId": trace, "spanId": f"{place:016x}", "parentSpanId": "0" * 15 + "1" if place > 1 else "",
         "name": "s", "startTimeUnixNano": str(1_772_452_800 * 10**9), "endTimeUnixNano": str(1_772_452_801 * 10**9),
         "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]}
        for place, attributes in ((1, of_agent), (2, of_model))
    ]  # fmt: skip
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans}]}]}


def write(path: Path, name: str, size: int) -> None:
    """A file of a format with about this many bytes."""
    info = {"agent_info": {"implementation": "i", "llm": "m"}, "environment_info": {"domain_name": "airline"}}
    with path.open("w") as file:
        if name == "tau2":
            file.write(f'{{"info": {json.dumps(info)}, "simulations": [')
        for number, record in enumerate(numbered(name)):
            file.write((",\n" if name == "tau2" and number else "") + json.dumps(record) + "\n" * (name != "tau2"))
            if file.tell() >= size:
                break
        file.write("]}" if name == "tau2" else "")


def numbered(name: str) -> Iterator[dict[str, Any]]:
    """Records without end."""
    number = 0
    while True:
        yield record_of(name, number)
        number += 1


def cpu_s_of_orjson(path: Path) -> float:
    """CPU seconds that ``orjson.loads`` takes for the file, a line at a time where it has lines."""
    started = time.process_time()
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)
    else:
        orjson.loads(path.read_bytes())
    return time.process_time() - started


def measured(name: str, megabytes: int, rounds: int) -> dict[str, Any]:
    """MB/s of the import and of orjson over the same file, the best of some rounds in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("traces.json" if name == "tau2" else "traces.jsonl")
        write(path, name, megabytes * 1_000_000)
        size = path.stat().st_size / 1e6
        peer, own, points = [], [], 0
        for number in range(rounds):
            peer.append(cpu_s_of_orjson(path))
            started = time.process_time()
            points = ingest([str(path)], Path(folder) / f"segments-{number}", REQUEST).points
            own.append(time.process_time() - started)
    best, best_peer = size / min(own), size / min(peer)
    return {"format": name, "mb": round(size, 1), "points": points, "mbPerS": round(best, 1),
            "orjsonMbPerS": round(best_peer, 1), "shareOfOrjson": round(best / best_peer, 3)}  # fmt: skip


def peak_mb(path: str, segments: str) -> float:
    """Peak memory of this process over one import, MB."""
    ingest([path], Path(segments), REQUEST)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory(name: str, megabytes: int) -> dict[str, Any]:
    """Peak memory over a large file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("traces.json" if name == "tau2" else "traces.jsonl")
        write(path, name, megabytes * 1_000_000)
        with multiprocessing.get_context("spawn").Pool(1) as processes:
            peak = processes.apply(peak_mb, (str(path), f"{folder}/segments"))
    return {"format": name, "mb": megabytes, "peakMb": round(peak, 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large-mb", type=int, default=0, help="also peak memory over files this large")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    formats = ("openai-chat", "agentdojo", "tau2", "atif", "mlflow", "langfuse", "otlp")
    result: dict[str, Any] = {"speed": [measured(name, arguments.mb, arguments.rounds) for name in formats]}
    if arguments.large_mb:
        result["memory"] = [memory(name, arguments.large_mb) for name in ("openai-chat", "tau2", "otlp")]
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for row in (*result["speed"], *result.get("memory", ())):
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
