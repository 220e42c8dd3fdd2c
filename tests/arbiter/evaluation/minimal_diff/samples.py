"""Real changes: fixes of small programs, and patches of which only the hunks are known."""

import ast
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, change_of_text
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.settings import TasksSettings
from flywheel.tasks.code_repair.environment import CodeRepair

DIFFS = Path(__file__).resolve().parents[5] / "shared" / "data" / "diffs"
SUFFIXES = {"python": ".py", "java": ".java"}


class Sample(Struct, frozen=True):
    """A correct change, and whose it is."""

    source: str
    name: str
    change: Change


def samples() -> Iterator[Sample]:
    """QuixBugs' 80 fixes of whole files, half of them Java; 44 gold patches of SWE-bench, and an agent's for them."""
    for pair in _lines("quixbugs/pairs.jsonl.gz"):
        path = pair["name"] + SUFFIXES[pair["language"]]
        change = change_of_text(path, before=pair["before"], after=pair["after"])
        yield Sample(f"quixbugs {pair['language']}", pair["name"], change)
    for task in _lines("swe-bench-vexp/tasks.jsonl.gz"):
        yield Sample("swe-bench gold", task["instance_id"], change_of_patch(task["patch"]))
    for result in _lines("swe-bench-vexp/results.jsonl.gz"):
        if result["modelPatch"]:
            yield Sample("swe-bench agent", result["instanceId"], change_of_patch(result["modelPatch"]))


def graded_pairs(*, seed: int, largest: int) -> list[tuple[str, str]]:
    """Small functions, each beside its fix, itself after one to four random edits, and another function."""
    chance = random.Random(seed)
    tasks = [task for task in CodeRepair.of_settings(TasksSettings()).tasks() if len(task.fixed) <= largest]
    found = []
    for task in tasks:
        found.append((task.buggy, task.fixed))
        found.append((task.fixed, chance.choice(tasks).fixed))
        for edits in (1, 2, 4):
            edited = ast.parse(task.fixed)
            for _ in range(edits):
                _edit(edited, chance)
            found.append((ast.unparse(ast.parse(task.fixed)), ast.unparse(ast.fix_missing_locations(edited))))
    return found


def _edit(tree: ast.Module, chance: random.Random) -> None:
    """Delete, copy, wrap or move a statement, or replace a name or a number."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.For | ast.While | ast.If)]
    body = chance.choice(bodies)
    at = chance.randrange(len(body))
    kind = chance.choice(["delete", "copy", "wrap", "move", "replace"])
    if kind == "delete" and len(body) > 1:
        del body[at]
    elif kind == "copy":
        body.insert(chance.randrange(len(body) + 1), body[at])
    elif kind == "wrap":
        body[at] = ast.If(ast.Name("ready", ast.Load()), [body[at]], [])
    elif kind == "move":
        body.insert(chance.randrange(len(body)), body.pop(at))
    else:
        leaves = [node for node in ast.walk(body[at]) if isinstance(node, ast.Name)]
        if leaves:
            chance.choice(leaves).id = f"other_{chance.randint(1, 9)}"


def _lines(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DIFFS / name, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
