"""Scored answers out of points, or out of lines of logs or points as JSON."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, Struct

from flywheel.arbiter.evaluation.rubrics.ablation import ScoredAnswer
from flywheel.errors import InputError
from flywheel.records import DataPoint, Evaluation, Execution, RoutingDecision, decode_log, decode_point


class _Kind(Struct):
    """What tells a log from a point."""

    log: str | None = None


class _Parts:
    """The logs of one task, as far as they were read."""

    routing: RoutingDecision | None = None
    execution: Execution | None = None
    evaluation: Evaluation | None = None
    line: int = 0


kind_of = msgspec.json.Decoder(_Kind).decode


def of_point(point: DataPoint) -> ScoredAnswer:
    """A point's answer; answers to one question of one tenant are a group."""
    task, evaluation = point.task, point.evaluation
    return ScoredAnswer(
        task_type=task.type,
        group="\n".join((point.tenant_id, task.source or task.description or task.id)),
        scores=evaluation.rubric_scores,
        reward=evaluation.overall_score,
        success=point.rl_labels.final_outcome == "success",
        rubric=None if evaluation.rubric is UNSET else evaluation.rubric,
    )


def read_scored(lines: Iterable[bytes], *, name: str, task_type: str | None = None) -> Iterator[ScoredAnswer]:
    """The answers of a file of points or of logs, one JSON document a line; logs are joined by their task.

    Args:
        lines: of the file.
        name: of the file, for errors.
        task_type: of evaluations whose routing decision is not in the file.

    Raises:
        InputError: a line is neither, or an evaluation's task type is not known.
    """
    tasks: dict[str, _Parts] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if kind_of(line).log is None:
                yield of_point(decode_point(line))
            else:
                _take(tasks, line, number)
        except msgspec.MsgspecError as error:
            raise InputError(f"{name}, line {number:,}: it is neither a data point nor a log: {error}") from None
    for task_id, parts in tasks.items():
        if parts.evaluation is not None:
            yield _of_logs(task_id, parts, parts.evaluation, name=name, task_type=task_type)


def _take(tasks: dict[str, _Parts], line: bytes, number: int) -> None:
    log = decode_log(line)
    parts = tasks.setdefault(log.task_id, _Parts())
    if isinstance(log, RoutingDecision):
        parts.routing = log
    elif isinstance(log, Execution):
        parts.execution = log
    elif isinstance(log, Evaluation):
        parts.evaluation, parts.line = log, number


def _of_logs(task_id: str, parts: _Parts, evaluation: Evaluation, *, name: str, task_type: str | None) -> ScoredAnswer:
    routing = parts.routing
    known = routing.task_type if routing else task_type
    if known is None:
        raise InputError(
            f"{name}, line {parts.line:,}: the task type of {task_id} is not known: its routing decision is not "
            f"in the file; add it, or say --task-type"
        )
    asked = (routing.source or routing.description or task_id) if routing else task_id
    return ScoredAnswer(
        task_type=known,
        group="\n".join((evaluation.tenant_id or "", asked)),
        scores=evaluation.rubric_scores,
        reward=evaluation.overall_score,
        success=parts.execution.success if parts.execution else evaluation.passed_all_mandatory,
        rubric=None if evaluation.rubric is UNSET else evaluation.rubric,
    )
