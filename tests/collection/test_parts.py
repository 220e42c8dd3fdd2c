"""A document that is read in parts, by several processes, is the same as one read in one, whatever is wrong with it."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from flywheel.collection import json_records, parts
from flywheel.collection.documents import Document, opening_of
from flywheel.collection.importers.interface import Rejected, Run
from flywheel.collection.importers.openai_chat import OpenAiChat
from flywheel.collection.importers.tau2 import Tau2
from flywheel.collection.ingest import Request, ingest
from flywheel.errors import SegmentError
from tests.collection.importers import test_agentdojo, test_atif, test_langfuse, test_otlp_files, test_tau
from tests.collection.importers.imports import request
from tests.collection.importers.spans import traces
from tests.collection.importers.test_hostile import MLFLOW, SAMPLE, good

CURATED = request(constant=1)
WRONG = [b"", b"{}", b"[1]", b'{"torn": ', b'{"a": 1, "a": 2}', b'{"a": "\xff"}', b'{"messages": NaN}', b"[" * 5000]


def lines(*records: Any) -> bytes:
    """Records as lines, with all that can be wrong between them, and each of them twice."""
    encoded = [json.dumps(record).encode() for record in records]
    return b"\n".join(line for number, one in enumerate(encoded) for line in (one, WRONG[number % len(WRONG)], one))


def numbered(record: Any, *path: str) -> list[Any]:
    """Nine of a record, each with a number where the path leads."""
    found = []
    for number in range(9):
        one = json.loads(json.dumps(record))
        inner = one
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = f"{number:032x}"
        found.append(one)
    return found


SIMULATIONS = numbered(test_tau.simulation(), "id")
CHATS = lines(*(json.loads(good(f"{number}")) for number in range(9)))
DOCUMENTS: dict[str, bytes] = {
    "openai-chat.jsonl": CHATS,
    "torn.jsonl.gz": gzip.compress((CHATS + b"\n") * 80, 0)[:-900],
    "agentdojo.jsonl": lines(*numbered(test_agentdojo.run(), "user_task_id")),
    "agentdojo.json": json.dumps([*numbered(test_agentdojo.run(), "user_task_id"), 5, {}], indent=1).encode(),
    "atif.jsonl": lines(*numbered(test_atif.trajectory(), "session_id")),
    "mlflow.jsonl": lines(*numbered(MLFLOW, "info", "trace_id")),
    "mlflow.json": json.dumps({"traces": numbered(MLFLOW, "info", "trace_id"), "next_page_token": None}).encode(),
    "tau2.json": json.dumps({**test_tau.results(), "simulations": [*SIMULATIONS, 5, {}]}, indent=2).encode(),
    "tau2.jsonl": lines(*(test_tau.results(one) for one in SIMULATIONS)),
    "inspect-ai.json": json.dumps({**SAMPLE, "samples": numbered(SAMPLE["samples"][0], "id")}).encode(),  # type: ignore[index]
    "langfuse.jsonl": lines(*numbered(test_langfuse.observation(), "trace_id")),
    "otlp.jsonl": lines(*(traces(*test_otlp_files.WHOLE) for _ in range(3))),
    "otlp.json": json.dumps({**traces(*test_otlp_files.WHOLE), "other": 1}).encode(),
    "native.jsonl": lines({"log": "feedback"}, {"log": "routing"}),
}


def outcome(
    path: Path, segments: Path, asked: Request = CURATED, *, processes: int = 1
) -> tuple[Any, dict[str, bytes]]:
    """The report but for its time, and the segments."""
    report = msgspec.to_builtins(ingest([str(path)], segments, asked, processes=processes))
    return {**report, "seconds": 0}, {file.name: file.read_bytes() for file in segments.glob("*.segment")}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_report_and_segments_are_the_same_in_however_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, large: bool
) -> None:
    if large:  # split as it is read, never held
        monkeypatch.setattr(json_records, "DOCUMENT_BYTES", 100)
    path = tmp_path / name
    path.write_bytes(DOCUMENTS[name])
    whole = outcome(path, tmp_path / "whole")
    monkeypatch.setattr(parts, "PART_RECORDS", 2)
    assert outcome(path, tmp_path / "parts") == whole
    assert whole[0]["points"] or name == "native.jsonl"


@pytest.mark.parametrize("name", ["openai-chat.jsonl", "tau2.json", "langfuse.jsonl"])
def test_other_processes_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(DOCUMENTS[name])
    whole = outcome(path, tmp_path / "whole")
    monkeypatch.setattr(parts, "PART_RECORDS", 2)
    monkeypatch.setattr(parts, "PARTS_FOR_PROCESSES", 2)
    assert outcome(path, tmp_path / "parts", processes=2) == whole


def test_only_an_object_around_a_list_goes_with_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is known to no other: of requests of some MB each would be decoded twice."""
    monkeypatch.setattr(parts, "PART_RECORDS", 2)

    def headers(name: str) -> list[bool]:
        document = Document(opening_of(name, DOCUMENTS[name]), BytesIO(DOCUMENTS[name]), None)
        importer: Any = Tau2()
        return [part.header is not None for part in parts.parts(document, importer)]

    assert headers("tau2.json") == [False, True, True, True, True, True]
    assert not any(headers("tau2.jsonl"))


class Dying(OpenAiChat):
    """Kills the process that reads the last of the chats."""

    name = "openai-chat"

    @override
    def runs(self, document: Document) -> Iterator[Run | Rejected]:
        for run in super().runs(document):
            if isinstance(run, Run) and run.description == "8":
                os.kill(os.getpid(), signal.SIGKILL)
            yield run


def test_a_process_that_dies_is_named_and_another_run_completes_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(CHATS)
    asked = request(constant=1, format="openai-chat")
    whole = outcome(path, tmp_path / "whole", asked)
    monkeypatch.setattr(parts, "PART_RECORDS", 2)
    monkeypatch.setattr(parts, "PARTS_FOR_PROCESSES", 2)
    with monkeypatch.context() as patched:
        patched.setattr("flywheel.collection.taking.importer_of", lambda _: Dying())
        with pytest.raises(SegmentError, match=r"chats\.jsonl was not ingested: a process that read it died"):
            ingest([str(path)], tmp_path / "parts", asked, processes=2)
    assert not list((tmp_path / "parts").glob("*.receipt.json"))
    report, segments = outcome(path, tmp_path / "parts", asked, processes=2)
    assert (report["points"], segments) == (whole[0]["points"], whole[1])


INTERRUPTED = """
import sys, time
from pathlib import Path
from flywheel.collection import parts, taking
from flywheel.collection.ingest import ingest
from tests.collection.test_parts import CURATED

def write_slowly(*segment):
    written = write(*segment)
    print("written", flush=True)
    time.sleep(60)
    return written

write, taking.write_closed_segment = taking.write_closed_segment, write_slowly
parts.PART_RECORDS, parts.PARTS_FOR_PROCESSES, taking.SEGMENT_BYTES = 20, 2, 50_000
ingest([sys.argv[1]], Path(sys.argv[2]), CURATED, processes=2)
"""


def is_there(group: int) -> bool:
    """Whether a process of the group lives."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_is_ended_leaves_no_process_and_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    path, segments = tmp_path / "chats.jsonl", tmp_path / "parts"
    path.write_text("".join(good(str(number)) for number in range(500)))
    program = [sys.executable, "-c", INTERRUPTED, str(path), str(segments)]
    with subprocess.Popen(program, start_new_session=True, stdout=subprocess.PIPE) as importing:
        assert importing.stdout is not None
        assert importing.stdout.readline() == b"written\n"
        end = os.kill if how == signal.SIGKILL else os.killpg  # an interrupt is for the whole group
        end(importing.pid, how)
        assert importing.wait(60) == -how
    left_until = time.monotonic() + 60
    while is_there(importing.pid):
        assert time.monotonic() < left_until
        time.sleep(0.05)
    assert len(list(segments.glob("*.segment"))) == 1
    monkeypatch.setattr("flywheel.collection.taking.SEGMENT_BYTES", 50_000)
    report, completed = outcome(path, segments)
    assert completed == outcome(path, tmp_path / "whole")[1]
    assert (report["points"], len(completed), list(segments.glob("*.partial"))) == (500, report["segments"] + 1, [])
