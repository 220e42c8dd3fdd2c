import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.collection.importers.imports import imported, request

HASH = "0123456789abcdef0123456789abcdef"


def sample(**fields: Any) -> dict[str, Any]:
    return {
        "id": "a",
        "epoch": 1,
        "input": "2+2?",
        "target": "4",
        "messages": [
            {"role": "system", "content": f"attachment://{HASH}"},
            {"role": "user", "content": "2+2?"},
            {
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "I add"}],
                "tool_calls": [{"id": "c", "function": "add", "arguments": {"x": 2}}],
            },
            {
                "role": "tool",
                "function": "add",
                "tool_call_id": "c",
                "content": "",
                "error": {"type": "parsing", "message": "y is missing"},
            },
            {"role": "assistant", "content": "4"},
        ],
        "attachments": {HASH: "Add well."},
        "scores": {"match": {"value": "C", "answer": "4"}},
        "model_usage": {
            "openai/m": {"total_tokens": 9, "output_tokens": 2, "reasoning_tokens": 1},
            "openai/grader": {"total_tokens": 900},
        },
        "total_time": 1.5,
        "uuid": "u1",
        **fields,
    }


def log(*samples: dict[str, Any]) -> dict[str, Any]:
    about = {"task": "sums", "model": "openai/m", "run_id": "r", "created": "2026-01-01T00:00:00-04:00"}
    return {"version": 2, "status": "success", "eval": about, "samples": list(samples)}


def test_a_sample_becomes_a_point(tmp_path: Path) -> None:
    found = imported(tmp_path, log(sample()))
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (execution.latency_ms, execution.tokens_used) == (1500, 9)
    assert (execution.output_tokens, execution.thinking_tokens) == (2, 1)
    assert (execution.tool_call_count, execution.tool_call_success_rate) == (1, 0.0)
    assert [message.content for message in execution.messages] == [
        "Add well.",
        "2+2?",
        "I add",
        "y is missing",
        "4",
    ]
    assert found.report.rules["reasoning-left-out"] == 1
    assert "parts-other-than-text-as-their-type" not in found.report.rules
    assert (routing.task_id, routing.source) == ("inspect-ai:u1", "inspect-ai:sums/a")
    assert routing.timestamp.isoformat() == "2026-01-01T04:00:00+00:00"
    assert evaluation.overall_score == 1.0


@pytest.mark.parametrize(("value", "score"), [("C", 1), ("P", 0.5), ("I", 0), ("N", 0), (True, 1)])
def test_letters_are_read_as_inspect_counts_them(tmp_path: Path, value: Any, score: float) -> None:
    found = imported(tmp_path, log(sample(scores={"match": {"value": value}})))
    assert found.evaluations[0].overall_score == score


@pytest.mark.parametrize(
    "scores", [{"grade": {"value": 7}}, {"a": {"value": "C"}, "b": {"value": "I"}}, {"a": {"value": {"x": 1}}}]
)
def test_numbers_and_several_scorers_need_a_mapping(tmp_path: Path, scores: dict[str, Any]) -> None:
    found = imported(tmp_path, log(sample(scores=scores)))
    assert found.report.rejected == {"no mapping": 1}
    assert next(iter(scores)) in found.report.examples[0].detail


def test_a_mapping_names_the_scorer(tmp_path: Path) -> None:
    scores = {"grade": {"value": {"style": 7}}, "other": {"value": "I"}}
    found = imported(tmp_path, log(sample(scores=scores)), request(score="grade.style", max=10))
    assert found.evaluations[0].overall_score == pytest.approx(0.7)


def test_a_sample_without_a_score_waits_and_says_why_it_ended(tmp_path: Path) -> None:
    found = imported(tmp_path, log(sample(scores=None, error={"message": "boom"}, uuid=None)))
    assert (found.report.waiting, found.executions[0].failure_reason) == (1, "boom")


@pytest.mark.parametrize("method", ["deflate", "zstd"])
def test_an_eval_file_is_read_member_by_member(tmp_path: Path, method: str) -> None:
    header = {key: value for key, value in log().items() if key != "samples"}
    members = {
        "_journal/start.json": {},
        "samples/a_epoch_1.json": sample(),
        "summaries.json": [],
        "header.json": header,
    }
    found = imported(tmp_path, eval_file(members, zstd=method == "zstd"), name="log.eval")
    assert (found.report.format, found.report.points, found.report.rejected) == ("inspect-ai", 1, {})


def eval_file(members: dict[str, Any], *, zstd: bool) -> bytes:
    """A zip. Inspect compresses by zstd, method 93, which zipfile of Python 3.11 does not know: it is set by hand."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED if zstd else zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            content = json.dumps(value).encode()
            archive.writestr(name, zstandard.ZstdCompressor().compress(content) if zstd else content)
        places = [(info.header_offset, info.filename) for info in archive.infolist()]
    packed = bytearray(target.getvalue())
    if zstd:
        central = packed.find(b"PK\x01\x02")
        for offset, _ in places:
            struct.pack_into("<H", packed, offset + 8, 93)
        while packed[central : central + 4] == b"PK\x01\x02":
            struct.pack_into("<H", packed, central + 10, 93)
            name_size, extra_size, comment_size = struct.unpack_from("<HHH", packed, central + 28)
            central += 46 + name_size + extra_size + comment_size
    return bytes(packed)


def tool_event(**fields: Any) -> dict[str, Any]:
    times = {"timestamp": "2026-01-01T04:00:00.100+00:00", "completed": "2026-01-01T04:00:00.350+00:00"}
    return {"event": "tool", "id": "c", "function": "add", **times, **fields}


@pytest.mark.parametrize(
    ("events", "latency_ms", "first_action_ms"),
    [
        ([tool_event(), {"event": "score"}], 250, 100),
        ([tool_event(completed=None)], None, 100),
        ([tool_event(), tool_event(id="d")], None, None),  # more calls than messages: of a subagent
        ([], None, None),
    ],
)
def test_times_of_calls_are_those_of_events_where_events_show_the_calls_of_the_messages(
    tmp_path: Path, events: list[dict[str, Any]], latency_ms: float | None, first_action_ms: float | None
) -> None:
    found = imported(tmp_path, log(sample(events=events, started_at="2026-01-01T00:00:00-04:00")))
    (execution,) = found.executions
    (use,) = execution.tools_used
    assert (use.call_count, use.success_rate, use.average_latency) == (1, 0.0, latency_ms)
    assert execution.time_to_first_action == first_action_ms
