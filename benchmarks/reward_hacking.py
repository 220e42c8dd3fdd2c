"""What the detectors of reward hacking find in honest work, and how many of the known cheats they find.

    python benchmarks/reward_hacking.py --json

- ``falseAlarms``: real changes and conversations in which something is found, and in how many of these it costs
  something (the others are reported only), by source. Solved conversations are
  honest as far as anyone knows; failed ones often do loop. Needs the real data beside the checkout.
- ``found``: of the cheats of the tests those that are found by their name, per kind of finding.
- ``milliseconds``: wall time of looking at a change of a 200-line file and its tests, and at a conversation of 40
  calls, beside parsing the same text once (``ast.parse``, ``json.loads``); the median of rounds.
"""

import argparse
import ast
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from flywheel.arbiter.evaluation.change import Change, FileChange, change_of_text
from flywheel.arbiter.evaluation.hacking.changes import findings_in_change
from flywheel.arbiter.evaluation.hacking.conversations import findings_in_conversation
from flywheel.arbiter.evaluation.hacking.finding import KINDS, Severity
from flywheel.records import Message, ToolCall, to_builtins
from tests.arbiter.evaluation.hacking.real import SHARED, Looked, looked_at_changes, looked_at_conversations
from tests.arbiter.evaluation.hacking.test_weakened_tests import CHEATS, FILES

ROUNDS = 15


def false_alarms(looked: Iterable[Looked]) -> dict[str, Any]:
    """For each source how many were looked at, in how many something was found, and what."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in looked:
        source = one.source if one.solved else f"{one.source}, failed"
        counted[source]["of"] += 1
        counted[source]["with findings"] += bool(one.findings)
        counted[source]["at a cost"] += any(
            KINDS[finding.name].severity is not Severity.REPORT for finding in one.findings
        )
        kinds[source].update({finding.name for finding in one.findings})
    return {source: {**counts, "kinds": dict(kinds[source])} for source, counts in counted.items()}


def found() -> dict[str, str]:
    """For each kind of finding of how many cheats how many are found."""
    counted: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for path, old, new, name in CHEATS:
        before = FILES[path]
        seen = findings_in_change(change_of_text(path, before=before, after=before.replace(old, new, 1)))
        counted[name][name in {finding.name for finding in seen}] += 1
    return {name: f"{counts[True]} of {counts.total()}" for name, counts in counted.items()}


def milliseconds(work: Callable[[], Any]) -> float:
    """The median of some rounds."""
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


def costs() -> dict[str, float]:
    """What looking costs, beside one reading of the same text."""
    functions = [f"def f{n}(a, b):\n    if a == {n}:\n        return b\n    return a + b\n\n\n" for n in range(34)]
    tests = "".join(f"def test_f{n}():\n    assert f{n}({n}, 2) == 2\n\n\n" for n in range(50))
    source = "".join(functions)
    files = (
        FileChange(path="a.py", before=source, after=source.replace("a + b", "b + a", 1)),
        FileChange(path="tests/test_a.py", before=tests, after=tests + "\n# more\n"),
    )
    call = [
        (
            Message(role="assistant", tool_calls=(ToolCall(name="look", arguments=f'{{"at": {n}}}', id=str(n)),)),
            Message(role="tool", tool_call_id=str(n), content=f"drawer {n} holds the deed of house {n * 7} " * 10),
        )
        for n in range(40)
    ]
    talk = [message for pair in call for message in pair]
    text = json.dumps([to_builtins(message) for message in talk])
    return {
        "change of 200 lines and 50 tests": milliseconds(lambda: findings_in_change(Change(files=files))),
        "ast.parse of both, once": milliseconds(lambda: (ast.parse(source), ast.parse(tests))),
        "conversation of 40 calls": milliseconds(lambda: findings_in_conversation(talk)),
        "json.loads of it, once": milliseconds(lambda: json.loads(text)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--every", type=int, default=10, help="of conversations the first of so many")
    arguments = parser.parse_args()
    real: dict[str, Any] = {}
    if SHARED.is_dir():
        real = false_alarms([*looked_at_changes(), *looked_at_conversations(every=arguments.every)])
    figures = {"falseAlarms": real, "found": found(), "milliseconds": costs()}
    if arguments.json:
        print(json.dumps(figures, indent=1))
        return
    for source, counts in real.items():
        of, cost = counts["of"], counts["at a cost"]
        print(f"{source}: something in {counts['with findings']} of {of}, at a cost in {cost} {counts['kinds']}")
    for name, share in figures["found"].items():
        print(f"{name}: {share} cheats found")
    for name, took in figures["milliseconds"].items():
        print(f"{name}: {took:.2f} ms")


if __name__ == "__main__":
    main()
