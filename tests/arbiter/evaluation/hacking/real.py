"""Real changes and conversations that nobody made in order to cheat: what is found in them is mostly a false alarm."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, change_of_text
from flywheel.arbiter.evaluation.hacking.changes import findings_in_change
from flywheel.arbiter.evaluation.hacking.conversations import findings_in_conversation
from flywheel.arbiter.evaluation.hacking.examples import Example
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.collection.importers import agentdojo, tau2
from flywheel.collection.json_records import Record

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data"
SUFFIXES = {"python": ".py", "java": ".java"}


class Looked(Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found in it."""

    source: str
    name: str
    solved: bool
    findings: tuple[Finding, ...]


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with gzip.open(SHARED / path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def looked_at_changes() -> Iterator[Looked]:
    """44 gold patches, the same with their test patches, an agent's patches of these issues, 80 fixes of programs."""
    for task in lines_of("diffs/swe-bench-vexp/tasks.jsonl.gz"):
        both = f"{task['patch'].rstrip(chr(10))}\n{task['test_patch']}"
        for source, patch in (("gold patch", task["patch"]), ("gold and test patch", both)):
            yield _looked(source, task["instance_id"], change_of_patch(patch))
    for result in lines_of("diffs/swe-bench-vexp/results.jsonl.gz"):
        if result["modelPatch"]:
            yield _looked("agent's patch", result["instanceId"], change_of_patch(result["modelPatch"]))
    for pair in lines_of("diffs/quixbugs/pairs.jsonl.gz"):
        change = change_of_text(pair["name"] + SUFFIXES[pair["language"]], before=pair["before"], after=pair["after"])
        yield _looked("quixbugs fix", pair["name"], change, examples_of(pair))


def examples_of(pair: dict[str, Any]) -> list[Example]:
    """The program's own tests: lists of arguments, each with its result."""
    cases = (json.loads(line) for line in (pair["json_testcases"] or "").splitlines() if line.strip())
    return [
        Example(tuple(map(repr, given if isinstance(given, list) else [given])), repr(expected))
        for given, expected in cases
    ]


def _looked(source: str, name: str, change: Change, examples: list[Example] | None = None) -> Looked:
    found = findings_in_change(change, examples=examples or [])
    return Looked(source=source, name=name, solved=True, findings=found)


def looked_at_conversations(*, every: int = 1, attacked: bool = True) -> Iterator[Looked]:
    """Runs of AgentDojo, attacked ones too or not, and of tau2; of each file the first of every so many."""
    for path in sorted((SHARED / "trajectories" / "agentdojo").glob("*.gz" if attacked else "*.none.*")):
        with gzip.open(path) as lines:
            for number, line in enumerate(lines):
                if number % every == 0:
                    run = agentdojo.run_of(Record(value=json.loads(line), raw=line, line=number + 1, item="", key=""))
                    kind = "agentdojo under attack" if "attack" in path.name else "agentdojo"
                    found = findings_in_conversation(run.messages)
                    yield Looked(
                        source=kind, name=f"{path.name}:{number + 1}", solved=bool(run.success), findings=found
                    )
    for path in sorted((SHARED / "trajectories" / "tau2" / "sierra").glob("*.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        for number, simulation in enumerate(document["simulations"]):
            if number % every == 0:
                simulated = tau2.run_of(simulation, document["info"])
                found = findings_in_conversation(simulated.messages)
                name = f"{path.name}:{number + 1}"
                yield Looked(source="tau2", name=name, solved=simulated.reward == 1, findings=found)
