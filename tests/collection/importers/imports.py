"""Helpers: write a file, import it, look at the logs that came of it."""

import json
from pathlib import Path
from typing import Any

import msgspec

from flywheel.collection.fidelity import FidelityReport
from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping, RewardMapping
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.records import Evaluation, Execution, Feedback, RoutingDecision, decode_log

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


class Imported(msgspec.Struct, frozen=True):
    """What came of an import: its report and the logs, by kind, in order."""

    report: FidelityReport
    routing: list[RoutingDecision]
    executions: list[Execution]
    evaluations: list[Evaluation]
    feedback: list[Feedback]


def request(**fields: Any) -> Request:
    """A request; ``score`` and ``constant`` are of its reward mapping."""
    reward = {name: fields.pop(name) for name in list(fields) if name in RewardMapping.model_fields}
    mapping = Mapping(reward=RewardMapping(**reward) if reward else None)
    return Request(**{"tenant_id": "acme", "mapping": mapping, **fields})


def imported(folder: Path, content: Any, asked: Request | None = None, *, name: str = "traces.json") -> Imported:
    """Import one file: bytes and text as they are, a list as JSON lines if its name says so, else JSON."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(line) + "\n" for line in content))
    else:
        path.write_text(json.dumps(content, indent=1))
    return logs_of(path, folder / "segments", asked or request())


def logs_of(path: Path, segments: Path, asked: Request) -> Imported:
    """Import what lies at a path."""
    report = ingest([str(path)], segments, asked)
    items = (item for segment in closed_segments(segments) for item in read_segment(segment))
    logs = [decode_log(item.payload) for item in items if isinstance(item, Frame)]
    return Imported(
        report,
        [log for log in logs if isinstance(log, RoutingDecision)],
        [log for log in logs if isinstance(log, Execution)],
        [log for log in logs if isinstance(log, Evaluation)],
        [log for log in logs if isinstance(log, Feedback)],
    )
