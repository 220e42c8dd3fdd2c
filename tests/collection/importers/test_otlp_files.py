"""Files of OTLP become runs: by lines and as one document, JSON and protobuf, however a trace is spread over them."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from flywheel.collection.importers.otlp_spans import SpanEvent
from flywheel.collection.ingest import ingest
from tests.collection.importers.imports import imported, request
from tests.collection.importers.spans import START, TRACE, agent, chat, loose, score, span, tool, traces

OTHER = "1" * 32
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "weather?"}]}]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It snows."}]}]
SAID = {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(ANSWER)}


WHOLE = [
    agent(name="support", attributes={"flywheel.execution.success": True}),
    chat(2, at=1, attributes={**SAID, "llm.cost.total": 0.25}),
    tool(3, at=2, took=0.5),
    tool(4, at=3, took=1.5, status=2),
]
SCORES = [score("overall", 0.75), score("task", 0.5), score("safety", 1.0)]


def test_a_trace_is_a_run_wherever_its_spans_and_events_stand(tmp_path: Path) -> None:
    lines = [
        traces(WHOLE[2]),
        loose(SCORES[0], WHOLE[0].span_id),
        traces(agent(8), trace_id=OTHER),
        traces(WHOLE[0], WHOLE[3], WHOLE[3]),
        loose(SCORES[1], WHOLE[0].span_id),
        {},
        loose(SCORES[2], WHOLE[1].span_id),
        traces(WHOLE[1]),
    ]
    found = imported(tmp_path, lines, name="traces.jsonl")
    routing = next(log for log in found.routing if log.task_id == f"otlp:{TRACE}")
    execution = next(log for log in found.executions if log.task_id == routing.task_id)
    (evaluation,) = found.evaluations
    assert (routing.selected_agent_id, routing.description) == ("a", "weather?")
    assert routing.timestamp.isoformat() == "2026-03-02T12:00:00+00:00"
    assert (execution.latency_ms, execution.tokens_used, execution.output_tokens) == (10_000, 15, 5)
    assert (execution.time_to_first_action, execution.success) == (2_000, True)
    assert [message.content for message in execution.messages] == ["weather?", "It snows."]
    assert [(use.tool_name, use.call_count, use.success_rate) for use in execution.tools_used] == [("search", 2, 0.5)]
    assert (evaluation.overall_score, evaluation.rubric_scores.task, evaluation.rubric_scores.format) == (
        0.75,
        0.5,
        0.75,
    )
    report = found.report
    assert (report.format, report.read, report.points, report.waiting, report.rejected) == ("otlp", 2, 1, 1, {})
    assert (report.fields["costUsd"], report.fields["tokensUsed"], report.fields["safety"]) == (0.5, 0.5, 0.5)


def test_what_a_conversation_loses_is_named(tmp_path: Path) -> None:
    asked = {"role": "user", "parts": [{"type": "text", "content": "what is this?"}, {"type": "blob", "content": "x"}]}
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, *ANSWER[0]["parts"]]}
    current = {
        "gen_ai.input.messages": json.dumps([asked]),
        "gen_ai.output.messages": json.dumps([thought]),
        "gen_ai.tool.definitions": json.dumps([{"name": "search"}]),
    }
    contents = "llm.input_messages.0.message.contents"
    flat = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        f"{contents}.0.message_content.type": "text",
        f"{contents}.0.message_content.text": "what is this?",
        f"{contents}.1.message_content.type": "image",
        "llm.tools.0.tool.json_schema": "{}",
    }
    named = []
    for number, said in enumerate((current, flat, SAID)):
        found = imported(tmp_path / str(number), traces(agent(), chat(2, attributes=said)), request(constant=1))
        assert found.executions[0].messages[0].role == "user"
        named.append({rule for rule in found.report.rules if rule.endswith("left-out")})
    parts, tools = "parts-other-than-text-left-out", "tool-definitions-left-out"
    assert named == [{"reasoning-left-out", parts, tools}, {parts, tools}, set()]


def test_one_document_and_lines_say_the_same(tmp_path: Path) -> None:
    by_lines = imported(tmp_path / "1", [traces(one) for one in WHOLE], name="a.jsonl")
    groups = [group for one in WHOLE for group in traces(one)["resourceSpans"]]
    as_one = imported(tmp_path / "2", {"resourceSpans": groups}, name="a.json")
    assert (by_lines.executions, by_lines.routing) == (as_one.executions, as_one.routing)
    assert by_lines.report.fields == as_one.report.fields


def written(folder: Path, **files: Any) -> list[str]:
    """Files of one request each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return [str(folder / f"{name}.json") for name in files]


def test_a_trace_may_be_spread_over_files_which_are_taken_as_one_in_any_order(tmp_path: Path) -> None:
    paths = written(tmp_path / "traces", b=traces(*WHOLE[:2]), a=traces(*WHOLE[2:]))
    folder = tmp_path / "segments"
    first = ingest(paths, folder, request())
    assert (first.read, first.waiting, first.files, first.rules.keys()) == (1, 1, 2, first.rules.keys())
    assert not any("cut-off" in rule for rule in first.rules)
    again = ingest([str(tmp_path / "traces")], folder, request())
    assert (again.files, again.known_files, again.waiting, again.duplicates) == (0, 2, 0, 1)
    alone = ingest(paths[1:], folder, request())
    assert (alone.files, [rule for rule in alone.rules if "cut-off" in rule] != []) == (1, True)
    written(tmp_path / "traces", c=loose(SCORES[0], WHOLE[0].span_id))
    more = ingest([str(tmp_path / "traces")], folder, request())
    assert (more.files, more.points, more.waiting) == (3, 1, 0)


def test_a_file_of_several_is_digested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(json.dumps(traces(*WHOLE[:2])))
    (tmp_path / "b.json").write_text(json.dumps(traces(*WHOLE[2:])))
    digested: list[str] = []
    digest = hashlib.file_digest

    def counted(file: Any, kind: Any) -> Any:
        digested.append(file.name)
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    report = ingest([str(tmp_path)], tmp_path / "segments", request())
    assert (report.files, report.read, report.waiting) == (2, 1, 1)
    assert report.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.json"))
    assert sorted(Path(name).name for name in digested) == ["a.json", "b.json"]


def test_a_file_that_changes_between_two_looks_is_digested_again_though_its_time_is_set_back(tmp_path: Path) -> None:
    first, second = map(Path, written(tmp_path / "traces", a=traces(*WHOLE[:2]), b=traces(*WHOLE[2:])))
    content = first.read_bytes()
    first.write_bytes(content + b" \n")
    status = first.stat()

    def change(name: str, _: int) -> None:
        while name == str(second) and first.stat().st_ctime_ns == status.st_ctime_ns:
            first.write_bytes(content + b"\n ")
            os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))

    ingest([str(tmp_path / "traces")], tmp_path / "segments", request(), progress=change)
    assert first.read_bytes() == content + b"\n "
    again = ingest([str(tmp_path / "traces")], tmp_path / "segments", request())
    assert (again.files, again.known_files) == (0, 2)


def test_a_file_that_was_taken_alone_is_read_again_with_others(tmp_path: Path) -> None:
    paths = written(tmp_path, a=traces(*WHOLE[:2]), b=traces(*WHOLE[2:]))
    ingest(paths[:1], tmp_path / "segments", request())
    assert ingest(paths, tmp_path / "segments", request()).tool_calls == 2


def test_files_of_other_formats_beside_are_taken_by_themselves(tmp_path: Path) -> None:
    paths = written(tmp_path, a=traces(*WHOLE[:2]), b=traces(*WHOLE[2:]))
    chat_file = tmp_path / "c.jsonl"
    chat_file.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    found = ingest([*paths, str(chat_file)], tmp_path / "segments", request(score="metadata.x"))
    assert (found.format, found.read, found.files) == ("openai-chat, otlp", 2, 3)


def test_a_trace_that_is_cut_off_says_so(tmp_path: Path) -> None:
    found = imported(tmp_path, traces(*WHOLE[1:]))
    (rule,) = (rule for rule in found.report.rules if rule.startswith("trace-cut-off"))
    assert rule in found.routing[0].imported.rules  # type: ignore[union-attr]
    assert imported(tmp_path / "whole", traces(*WHOLE)).report.rules.keys() & {rule} == set()


def test_a_line_that_is_cut_off_costs_no_other(tmp_path: Path) -> None:
    lines = [json.dumps(traces(WHOLE[0])), json.dumps(traces(agent(9), trace_id=OTHER))]
    found = imported(tmp_path, f"{lines[0]}\n{lines[1][:-40]}", name="a.jsonl")
    assert (found.report.rejected, found.report.waiting) == ({"malformed JSON": 1}, 1)
    assert found.report.examples[0].line == 2


def test_scores_of_another_scale_want_a_mapping_and_get_it(tmp_path: Path) -> None:
    annotated = {"annotations.0.annotation.name": "helpful", "annotations.0.annotation.score": 4.0}
    document = traces(agent(attributes=annotated, events=(score("relevance", 3),)))
    asked = imported(tmp_path / "1", document).report
    assert (asked.rejected, "helpful, relevance" in asked.examples[0].detail) == ({"no mapping": 1}, True)
    found = imported(tmp_path / "2", document, request(score="helpful", min=0, max=5))
    assert found.evaluations[0].overall_score == 0.8
    assert {note.name: note.value for note in found.feedback} == {"helpful": 4, "relevance": 3}
    beyond = traces(agent(events=(score("overall", 7),)))
    assert imported(tmp_path / "3", beyond).report.rejected == {"no mapping": 1}
    assert imported(tmp_path / "4", beyond, request(score="overall", max=10)).evaluations[0].overall_score == 0.7


def test_tools_that_no_span_shows_are_counted_in_the_messages(tmp_path: Path) -> None:
    parts = [{"type": "tool_call", "id": "1", "name": "search", "arguments": {}}]
    wanted = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}
    found = imported(tmp_path, traces(agent(), chat(2, attributes=wanted)))
    assert [(use.tool_name, use.success_rate) for use in found.executions[0].tools_used] == [("search", None)]
    assert any(rule.startswith("tools-of-messages") for rule in found.report.rules)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (traces(span(1, attributes={"http.method": "GET"})), "no task"),
        (traces(agent(), trace_id="0" * 32), "trace-id"),
        ({"resourceSpans": [{"scopeSpans": 7}]}, "not of the format"),
        ({"resourceSpans": [7]}, "not an object"),
        (traces(agent(attributes={"big": 2**70})), "attributes"),
        (traces(agent(attributes={"flywheel.execution.latencyMs": "-1"})), "not of the format"),
        (traces(agent(attributes={"flywheel.task.id": "t", "flywheel.execution.latencyMs": -1})), "not of the format"),
        (loose(SpanEvent(name="", time_ns=START), "0" * 16), "no-event"),
    ],
)
def test_what_is_no_trace_of_a_task_is_named(tmp_path: Path, content: Any, reason: str) -> None:
    found = imported(tmp_path, content).report
    assert (found.read, found.rejected) == (1, {reason: 1})


def test_a_trace_larger_than_memory_allows_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flywheel.collection.gathering.MAX_RUN_BYTES", 1_000)
    found = imported(tmp_path, [traces(*WHOLE), traces(agent(9), trace_id=OTHER)], name="a.jsonl").report
    assert (found.rejected, found.waiting, found.examples[0].item) == ({"record too large": 1}, 1, TRACE)


def test_a_trace_is_the_same_run_in_whatever_order_its_spans_come(tmp_path: Path) -> None:
    forth = imported(tmp_path / "1", [traces(one) for one in WHOLE], name="a.jsonl")
    back = imported(tmp_path / "2", [traces(one) for one in reversed(WHOLE)], name="a.jsonl")
    assert (forth.routing, forth.executions) == (back.routing, back.executions)
