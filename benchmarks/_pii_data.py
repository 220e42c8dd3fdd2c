"""Real data for ``anonymization.py``: labelled texts, records of usual size, and texts to leave as they are."""

import gzip
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.evaluation import LabelledText, Mark, for_tuning
from flywheel.pool.anonymization.labels import read_labels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RECORD = 3_600  # characters

HARMLESS = {
    "UUID": r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "40-hex hash": r"\b[0-9a-f]{40}\b",
    "diff index": r"\b[0-9a-f]{7,12}\.\.[0-9a-f]{7,12}\b",
    "hunk lines": r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@",
    "order number": r"#W\d{7}\b",
    "reservation id": r"\"reservation_id\": \"(\w{6})\"",
    "item id": r"_id\": \"(\d{10})\"",
    "flight number": r"\bHAT\d{3}\b",
    "call id": r"\b(?:call_|toolu_)\w{16,}\b",
    "version": r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])",
    "timestamp": r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?",
    "price or metric": r"(?:price|amount|balance|cost|tokens|[dD]uration|reward)[A-Za-z]*\": (-?\d+(?:\.\d+)?)",
}
"""Shapes that say nothing of a person, by patterns that are not the detectors'; a group is the value by itself."""


class LabelledSet(Struct, frozen=True, kw_only=True):
    """Labelled texts that no detector was tuned on, and the types of which every occurrence is labelled."""

    name: str
    texts: tuple[LabelledText, ...]
    complete: frozenset[str] | None


def labelled_sets(data: Path, *, limit: int) -> list[LabelledSet]:
    """The odd parts of the three sets, at most ``limit`` texts of each, chosen by their hashes."""
    found = []
    for name, path in (
        ("tau-messages", data / "pii/tau-messages/messages.jsonl.gz"),
        ("presidio-research", data / "pii/presidio-research/synth_dataset_v2.json.gz"),
    ):
        with gzip.open(path) as lines:
            labels = read_labels(lines, name=path.name)
        found.append(LabelledSet(name=name, texts=odd(labels.texts, limit), complete=labels.complete))
    with gzip.open(data / "pii/wnut17/emerging.dev.conll.gz", "rt", encoding="utf-8") as file:
        posts = tuple(post_of(block) for block in file.read().split("\n\n") if block.strip())
    return [*found, LabelledSet(name="wnut17", texts=odd(posts, limit), complete=frozenset({"PERSON"}))]


def odd(texts: tuple[LabelledText, ...], limit: int) -> tuple[LabelledText, ...]:
    """Those that are not for tuning, in the order of their hashes."""
    ours = [text for text in texts if not for_tuning(text.key)]
    return tuple(sorted(ours, key=lambda text: by_hash(text.key))[:limit])


def post_of(block: str) -> LabelledText:
    """A post of tokens and BIO tags, joined by spaces; of the tags persons count."""
    text = ""
    marks: list[Mark] = []
    for line in block.strip().split("\n"):
        token, tag = line.rsplit("\t", 1)
        start = len(text) + bool(text)
        text = f"{text} {token}" if text else token
        if tag == "B-person":
            marks.append(Mark(start, len(text), "PERSON"))
        elif tag == "I-person":
            marks[-1] = Mark(marks[-1].start, len(text), "PERSON")
    return LabelledText(key=text, text=text, marks=tuple(marks))


def records(data: Path, count: int) -> list[str]:
    """What agents, users and tools said, joined to records of ``RECORD`` characters."""
    pieces = (said for said in (*messages(data, "tool"), *messages(data, "assistant")) if said)
    text = "\n".join(sorted(set(pieces), key=by_hash))
    return [text[at : at + RECORD] for at in range(0, min(len(text) - RECORD, count * RECORD), RECORD)]


def conversations(data: Path, count: int) -> Iterator[list[dict[str, Any]]]:
    """What was said in the first attacked runs of each of AgentDojo's suites, in their order."""
    for path in sorted((data / "trajectories/agentdojo").glob("*.attack.jsonl.gz")):
        with gzip.open(path) as lines:
            yield from (json.loads(line)["messages"] for line in islice(lines, count))


def messages(data: Path, role: str) -> Iterator[str]:
    """The contents of one role in AgentDojo's and tau2's logs."""
    for path in sorted((data / "trajectories/agentdojo").glob("*.none.jsonl.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                yield from contents(json.loads(line)["messages"], role)
    for path in sorted((data / "trajectories/tau2/sierra").glob("gpt-4.1_*.json.gz")):
        for simulation in simulations(path):
            yield from contents(simulation["messages"], role)


def simulations(path: Path) -> list[dict[str, Any]]:
    """The simulations of a result file."""
    with gzip.open(path) as file:
        return list(json.load(file)["simulations"])


def contents(said: list[dict[str, Any]], role: str) -> Iterator[str]:
    """Contents that are text, of messages of a role."""
    return (message["content"] for message in said if message["role"] == role and isinstance(message["content"], str))


def harmless_texts(data: Path, *, limit: int) -> dict[str, list[str]]:
    """Texts that training needs as they are, by kind; tool results hold some personal data besides."""
    with gzip.open(data / "diffs/swe-bench-vexp/tasks.jsonl.gz") as lines:
        diffs = [task[name] for task in map(json.loads, lines) for name in ("patch", "test_patch")]
    with gzip.open(data / "diffs/quixbugs/pairs.jsonl.gz") as lines:
        diffs += [pair["after"] for pair in map(json.loads, lines)]
    tools = set(messages(data, "tool"))
    kinds = {"diffs and code": diffs, "tool results": tools, "ids and metrics": metrics(data)}
    return {name: sorted(set(texts), key=by_hash)[:limit] for name, texts in kinds.items()}


def by_hash(text: str) -> bytes:
    """An order that says nothing of the text."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def metrics(data: Path) -> Iterator[str]:
    """Records of runs without what was said in them: ids, times, costs, counts."""
    with gzip.open(data / "diffs/swe-bench-vexp/results.jsonl.gz") as lines:
        for result in map(json.loads, lines):
            yield json.dumps({key: value for key, value in result.items() if key != "modelPatch"})
    for path in sorted((data / "trajectories/tau2/sierra").glob("gpt-4.1_*.json.gz")):
        for simulation in simulations(path):
            numbers = {key: value for key, value in simulation.items() if isinstance(value, str | int | float)}
            calls = [
                {"id": call["id"], "tool": call["name"], "cost": message.get("cost"), "usage": message.get("usage")}
                for message in simulation["messages"]
                for call in message.get("tool_calls") or ()
            ]
            yield json.dumps({**numbers, "calls": calls})


def harmless_places(text: str) -> Iterator[tuple[str, int, int]]:
    """Every place in a text that must stay, with what it is."""
    for name, pattern in HARMLESS.items():
        for match in re.finditer(pattern, text):
            yield name, *match.span(match.lastindex or 0)
