"""Logs of made-up tasks, as arbiters would write them, and segments that hold them."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from flywheel.collection.segments import write_closed_segment
from flywheel.pool.parts import RawLine, gathered, owned_lines, sort_segment
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import plan_day, segment_jobs
from flywheel.records import encode
from flywheel.settings import Settings

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
Log = dict[str, Any]


def routing(task: str, *, at: datetime = NOON, tenant: str | None = "acme", **fields: Any) -> Log:
    """A routing decision."""
    log: Log = {
        "log": "routing",
        "timestamp": at.isoformat(),
        "tenantId": tenant,
        "taskId": task,
        "taskType": "tool-calling",
        "complexity": "standard",
        "selectedAgentId": "agent-a",
        "strategy": "multi-armed-bandit",
        "confidence": 0.8,
        "candidateAgents": [],
        "primaryReason": "highest sample",
        "description": f"what {task} asks",
        "source": f"bench:{task}",
    }
    return {key: value for key, value in (log | fields).items() if value is not None}


def execution(task: str, *, at: datetime = NOON + timedelta(seconds=1), **fields: Any) -> Log:
    """An execution that succeeded, without a tenant."""
    log: Log = {
        "log": "execution",
        "taskId": task,
        "agentId": "agent-a",
        "timestamp": at.isoformat(),
        "success": True,
        "latencyMs": 400.0,
        "tokensUsed": 90,
        "toolCallCount": 1,
        "toolsUsed": [{"toolName": "search", "callCount": 1, "successRate": 1.0}],
        "messages": [{"role": "user", "content": f"do {task}"}, {"role": "assistant", "content": "done"}],
    }
    return log | fields


def evaluation(task: str, *, at: datetime = NOON + timedelta(seconds=2), **fields: Any) -> Log:
    """An evaluation of that execution, without a tenant."""
    log: Log = {
        "log": "evaluation",
        "taskId": task,
        "agentId": "agent-a",
        "timestamp": at.isoformat(),
        "qualityGates": [{"name": "valid_format", "passed": True, "score": 1, "threshold": 1, "mandatory": True}],
        "rubricScores": {"format": 1, "tool": 1, "task": 1, "minimal": 1, "cost": 0.9, "safety": 1},
        "overallScore": 0.95,
        "cawsCompliant": True,
        "budgetCompliant": True,
        "passedAllMandatory": True,
    }
    return log | fields


def task_logs(
    task: str, *, at: datetime = NOON, tenant: str = "acme", agent: str = "agent-a", **fields: Any
) -> list[Log]:
    """The three logs of a task that went well. ``fields`` go to the log they are of."""
    logs = [
        routing(task, at=at, tenant=tenant, selectedAgentId=agent),
        execution(task, at=at + timedelta(seconds=1), agentId=agent),
        evaluation(task, at=at + timedelta(seconds=2), agentId=agent),
    ]
    homes = {"taskType": 0, "complexity": 0, "source": 0, "description": 0, "overallScore": 2, "passedAllMandatory": 2}
    for name, value in fields.items():
        logs[homes.get(name, 1)][name] = value
    return logs


def lines_of(logs: Iterable[Log | bytes]) -> list[bytes]:
    """Logs as lines; bytes stay as they are."""
    return [log if isinstance(log, bytes) else encode(msgspec.Raw(msgspec.json.encode(log))) for log in logs]


def write_segment(settings: Settings, name: str, logs: Sequence[Log | bytes], *, written_at: datetime = NOON) -> Path:
    """A closed segment with these logs, written at that time."""
    settings.segments_dir.mkdir(parents=True, exist_ok=True)
    path = settings.segments_dir / f"{name}.segment"
    write_closed_segment(path, lines_of(logs))
    os.utime(path, (written_at.timestamp(), written_at.timestamp()))
    return path


def parts_of_day(pool: BenchmarkPool, day: date, *, tasks_a_part: int = 1_000) -> list[list[RawLine]]:
    """The lines of a day as validation reads them, part by part."""
    plan = plan_day(pool, day, tasks_a_part=tasks_a_part)
    sorted_segments = (sort_segment(job) for job in segment_jobs(pool, plan))
    with gathered(sorted_segments, parts=len(plan.owners), folder=pool.settings.home) as contents:
        folder = pool.settings.segments_dir
        return [
            list(owned_lines(chunks, owners, folder=folder))
            for chunks, owners in zip(contents, plan.owners, strict=True)
        ]
