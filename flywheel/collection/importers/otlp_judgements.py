"""What a trace says of a task's worth: its evaluation, and scores of other scales as feedback."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from flywheel.collection.importers.otlp_spans import Span, SpanEvent
from flywheel.collection.importers.otlp_trace import Trace, WireLog, instant, present, stated

EVALUATED = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation"})
RUBRIC = frozenset({"format", "tool", "task", "minimal", "cost", "safety"})
OVERALL = frozenset({"overall", "overall_score", "overallScore"})
ANNOTATION = re.compile(
    r"(?:(?:trace|session)\.)?(annotations|evaluations)\.(\d+)\.(?:annotation|evaluation)"
    r"\.(name|score|label|explanation|annotator_kind|identifier)"
)


def judgements_of(trace: Trace, task_id: str, agent_id: str | None) -> list[WireLog]:
    """The evaluation, if anything of it was said, and all other scores as feedback."""
    scores: dict[str, Any] = {}
    overall: Any = None
    times: list[int] = []
    logs: list[WireLog] = []
    for span, event in trace.events:
        if event.name not in EVALUATED:
            continue
        time_ns = event.time_ns or (span.end_ns if span else 0)
        name = str(event.attributes.get("gen_ai.evaluation.name", ""))
        value = event.attributes.get("gen_ai.evaluation.score.value")
        if value is not None and (name.lower() in RUBRIC or name in OVERALL):
            times.append(time_ns)
            if name in OVERALL:
                overall = value
            else:
                scores[name.lower()] = value
        else:
            logs += feedback_of(evaluated(event), task_id, time_ns)
    for span in trace.spans.values():
        for annotation in annotations_of(span):
            logs += feedback_of(annotation, task_id, span.end_ns or span.start_ns)
    told = stated(trace, "evaluation")
    if scores or overall is not None or told:
        if trace.entry is not None:
            times.append(
                trace.entry.end_ns
            )  # what was judged within the execution counts from its end: logs have an order
        log = {"log": "evaluation", "taskId": task_id, "agentId": agent_id, "timestamp": instant(max(times, default=0))}
        logs.insert(0, present({**log, "rubricScores": scores or None, "overallScore": overall, **told}))
    return logs


def evaluated(event: SpanEvent) -> Mapping[str, Any]:
    """A GenAI evaluation by the names of an annotation."""
    return {
        field: event.attributes.get(f"gen_ai.evaluation.{name}")
        for field, name in (
            ("name", "name"),
            ("score", "score.value"),
            ("label", "score.label"),
            ("explanation", "explanation"),
        )
    }


def annotations_of(span: Span) -> list[Mapping[str, Any]]:
    """OpenInference's annotations of a span, its trace and its session."""
    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for name, value in span.attributes.items():
        matched = ANNOTATION.fullmatch(name)
        if matched is not None:
            start = name[: matched.start(3)]
            found[start, matched[2]][matched[3]] = value
    return list(found.values())


def feedback_of(said: Mapping[str, Any], task_id: str, time_ns: int) -> Iterator[WireLog]:
    """A score as feedback. Its scale is its maker's: it takes part in no evaluation until somebody maps it."""
    value = next((said[name] for name in ("score", "label", "explanation") if said.get(name) is not None), None)
    if not said.get("name") or value is None:
        return
    by = str(said.get("annotator_kind", "")).upper()
    log = {
        "log": "feedback",
        "taskId": task_id,
        "timestamp": instant(time_ns),
        "source": "reviewer" if by == "HUMAN" else "system",
        "name": str(said["name"]),
        "value": value,
        "label": said.get("label"),
        "explanation": said.get("explanation"),
    }
    yield present(log)
