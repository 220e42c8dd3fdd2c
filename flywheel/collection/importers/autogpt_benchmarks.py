"""Daily reports of the Auto-GPT benchmarks: what each agent did of tests, some of them nested in suites.

A row without ``run_time`` was not executed, and one with ``attempted`` false was skipped since a test that it depends
on had failed: neither is a failure of the agent. There are no conversations and no tokens. Times are those of the
report's start. The agent is named by the folder two above the report.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from flywheel.collection.importers.fields import (
    MalformedError,
    an_object,
    mapping_of,
    moment,
    number,
    optional_text,
    shown,
    truth,
)
from flywheel.collection.importers.interface import Json, Opening, Rejected, Run
from flywheel.collection.importers.per_record import NOT_OF_FORMAT
from flywheel.collection.json_records import Record, records

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

KEYS = frozenset({"command", "benchmark_start_time", "tests"})
CHALLENGE_KEYS = frozenset({"name", "category", "task", "ground", "info"})
"""A definition of a test: of the format, and without a run in it."""
DASHED = re.compile(r"(\d{4}-\d\d-\d\d)-(\d\d:\d\d)")
AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
MILLISECONDS = {"milliseconds": 1.0, "ms": 1.0, "seconds": 1e3, "second": 1e3, "s": 1e3, "minutes": 6e4, "hours": 3.6e6}
TASK_TYPES = {
    "code": "code-editing",
    "retrieval": "research",
    "product_advisor": "research",
    "content_gen": "text-transformation",
}
DEEPEST = 20


class AutoGptBenchmarks:
    """One report a document."""

    name = "autogpt-benchmarks"
    rewarded = True
    lists = ()

    def recognizes(self, opening: Opening) -> bool:
        """By the command, its time and the tests; the tests may lie beyond the opening."""
        return not opening.listed and (opening.keys >= KEYS or opening.keys >= CHALLENGE_KEYS)

    def runs(self, document: "Document") -> Iterator[Run | Rejected]:
        """The rows of the document's reports."""
        if document.opening.keys >= CHALLENGE_KEYS:
            return
        folders = re.split(r"[!/]", document.name)
        agent_id = folders[-3] if len(folders) >= 3 else ""
        for record in records(document):
            if isinstance(record, Rejected):
                yield record
            elif not agent_id:
                detail = "the agent is named by the folder two above the report, and there is none"
                yield Rejected(reason="no agent", detail=detail, line=record.line)
            else:
                yield from rows_of(record, agent_id)


def rows_of(record: Record, agent_id: str) -> Iterator[Run | Rejected]:
    """The rows of one report."""
    try:
        tests = list(leaves(mapping_of(record.value, "tests"), ()))
        started = optional_text(record.value, "benchmark_start_time") or ""
        dashed = DASHED.fullmatch(started)
        started_at, zoneless = moment(f"{dashed[1]}T{dashed[2]}" if dashed else started, "benchmark_start_time")
    except MalformedError as error:
        yield Rejected(reason=NOT_OF_FORMAT, detail=str(error), line=record.line)
        return
    for path, test in tests:
        name = "/".join(path)
        try:
            row = row_of(test, name)
        except MalformedError as error:
            row = Rejected(reason=NOT_OF_FORMAT, detail=str(error), line=record.line, item=f"tests/{name}")
        if isinstance(row, Run):
            row.agent_id, row.started_at = agent_id, started_at
            row.key = blake2b(f"{agent_id}\0{started}\0{name}".encode(), digest_size=12).hexdigest()
            row.derived = ("agent-of-folder", "time-of-report", *(("zoneless-time-as-utc",) if zoneless else ()))
        yield row


def leaves(tests: Json, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The tests that have no tests in them, with their names."""
    if len(path) > DEEPEST:
        raise MalformedError(f"tests: suites lie more than {DEEPEST} deep in one another")
    for name, test in tests.items():
        known = an_object(test, f"tests.{name}")
        if "tests" in known:
            yield from leaves(mapping_of(known, "tests"), (*path, name))
        else:
            yield (*path, name), known


def row_of(test: Json, name: str) -> Run | Rejected:
    """One row, without what it has from its report."""
    metrics = mapping_of(test, "metrics")
    if metrics.get("run_time") is None:
        return Rejected(reason="not executed", detail="it has no run_time", item=f"tests/{name}")
    if metrics.get("attempted") is False:
        return Rejected(reason="not attempted", detail="a test it depends on had failed", item=f"tests/{name}")
    categories = test.get("category") or []
    if not isinstance(categories, list) or not all(isinstance(category, str) for category in categories):
        raise MalformedError(f"category: expected a list of names, found {shown(categories)}")
    success = truth(metrics, "success")
    return Run(
        key="",
        agent_id="",
        category=categories[0] if categories else "",
        task_type=next((TASK_TYPES[name] for name in categories if name in TASK_TYPES), "tool-calling"),
        source=f"autogpt-benchmarks:{name}",
        description=optional_text(test, "task") or "",
        requirements=tuple(categories[1:]),
        latency_ms=milliseconds(metrics["run_time"]) or None,
        cost_usd=number(metrics, "cost") or None,
        reward=float(success),
        success=success,
        failure_reason=None if success else failure_of(test, metrics),
    )


def failure_of(test: Json, metrics: Json) -> str:
    """Why a test failed."""
    reason = optional_text(metrics, "fail_reason")
    return "the cutoff time was reached" if test.get("reached_cutoff") is True else reason or "the test did not pass"


def milliseconds(value: object) -> float:
    """A duration with its unit: ``44.832 seconds``.

    Raises:
        MalformedError: it is something else.
    """
    found = AMOUNT.fullmatch(value) if isinstance(value, str) and len(value) < 64 else None
    if found is None or found[2] not in MILLISECONDS:
        raise MalformedError(f"metrics.run_time: expected a number and its unit, found {shown(value)}")
    return float(found[1]) * MILLISECONDS[found[2]]
