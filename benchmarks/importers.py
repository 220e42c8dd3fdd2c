"""How fast each format is imported, next to ``orjson.loads`` over the same bytes, and in how much memory.

    python benchmarks/importers.py --json
    python benchmarks/importers.py --mb 400 --processes 2   # two more processes too, by the clock: on a quiet machine
    python benchmarks/importers.py --large-mb 2000 --processes 2   # peak memory over large files

Speed is CPU time of the whole import in one process, segments and receipt included. The records are made up of the
fixtures of the tests, with conversations of a usual length; each file has about ``--mb`` megabytes. With other
processes beside it the import is timed by the clock, and so is orjson: their start is in it, so that small files gain
nothing, and ``cpuS`` is what all of them needed.
"""

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from loky import get_reusable_executor

from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping, RewardMapping

REQUEST = Request(mapping=Mapping(reward=RewardMapping(constant=1.0)))
TEXT = "The customer asks to move the flight to another day, which the fare does not allow. " * 6
CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "fare rules"}'}}
TURNS = 6
FORMATS = ("openai-chat", "agentdojo", "tau2", "atif", "mlflow", "langfuse", "otlp")


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


class Took(NamedTuple):
    """Seconds by the clock, and CPU seconds of this process and of those that it started and that have ended."""

    wall_s: float
    cpu_s: float


def took(work: Callable[[], object]) -> Took:
    """How long something takes."""
    wall_s, cpu_s = time.monotonic(), cpu_s_of_all()
    work()
    return Took(time.monotonic() - wall_s, cpu_s_of_all() - cpu_s)


def cpu_s_of_all() -> float:
    """CPU seconds until now, of ended children too."""
    beside = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + beside.ru_utime + beside.ru_stime


def read_by_orjson(path: Path) -> None:
    """``orjson.loads`` over the file, a line at a time where it has lines."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)
    else:
        orjson.loads(path.read_bytes())


def imported(path: Path, segments: Path, processes: int) -> int:
    """The points of an import, whose other processes end with it."""
    points = ingest([str(path)], segments, REQUEST, processes=processes).points
    if processes > 1:
        get_reusable_executor().shutdown(wait=True)
    return points


def measured(name: str, megabytes: int, rounds: int, processes: int) -> dict[str, Any]:
    """MB/s of the import and of orjson over the same file, the best of some rounds in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("traces.json" if name == "tau2" else "traces.jsonl")
        write(path, name, megabytes * 1_000_000)
        size = path.stat().st_size / 1e6
        by_orjson, alone, together = [], [], []
        for number in range(rounds):
            by_orjson.append(took(lambda: read_by_orjson(path)))
            alone.append(took(lambda: imported(path, Path(folder) / f"alone-{number}", 1)))  # noqa: B023
            if processes > 1:
                together.append(took(lambda: imported(path, Path(folder) / f"all-{number}", processes)))  # noqa: B023
    cpu_s, peer_cpu_s = (min(one.cpu_s for one in some) for some in (alone, by_orjson))
    row = {"format": name, "mb": round(size, 1), "mbPerS": round(size / cpu_s, 1),
           "orjsonMbPerS": round(size / peer_cpu_s, 1), "shareOfOrjson": round(peer_cpu_s / cpu_s, 3)}  # fmt: skip
    if together:
        wall_s, peer_wall_s = (min(one.wall_s for one in some) for some in (together, by_orjson))
        row["together"] = {
            "processes": processes, "mbPerS": round(size / wall_s, 1), "shareOfOrjson": round(peer_wall_s / wall_s, 3),
            "cpuS": round(min(one.cpu_s for one in together), 2), "cpuSAlone": round(cpu_s, 2)}  # fmt: skip
    return row


def peaks_mb(path: str, segments: str, processes: int) -> list[float]:
    """Peak memory of this process over one import, and of each one beside it, MB."""
    ingest([path], Path(segments), REQUEST, processes=processes)
    beside = [child.pid for child in multiprocessing.active_children()]
    return [peak_mb(pid) for pid in (os.getpid(), *beside) if pid is not None]


def peak_mb(pid: int) -> float:
    """Peak memory of a process. That of a child by ``getrusage`` would be its parent's when it began."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def memory(name: str, megabytes: int, processes: int) -> dict[str, Any]:
    """Peak memory over a large file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("traces.json" if name == "tau2" else "traces.jsonl")
        write(path, name, megabytes * 1_000_000)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            own, *beside = process.submit(peaks_mb, str(path), f"{folder}/segments", processes).result()
    return {"format": name, "mb": megabytes, "peakMb": round(own, 1), "peakMbBeside": [round(one, 1) for one in beside]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="that decode beside the one that reads and writes")
    parser.add_argument("--formats", default=",".join(FORMATS), help="with commas")
    parser.add_argument("--large-mb", type=int, default=0, help="also peak memory over files this large")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    formats, processes = arguments.formats.split(","), arguments.processes
    result: dict[str, Any] = {"speed": [measured(name, arguments.mb, arguments.rounds, processes) for name in formats]}
    if arguments.large_mb:
        large = [name for name in ("openai-chat", "tau2", "otlp") if name in formats]
        result["memory"] = [memory(name, arguments.large_mb, processes) for name in large]
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for row in (*result["speed"], *result.get("memory", ())):
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
