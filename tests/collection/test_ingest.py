"""Files are taken once per content and terms, completely, and accounted for."""

import io
import json
import os
import sys
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from flywheel.collection import taking
from flywheel.collection.importers import native
from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping, RewardMapping
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.collection.taking import RECEIPT_SUFFIX
from flywheel.errors import ConfigurationError, SegmentError

NATIVE = Request(format="native")
CHAT = '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"yes"}]}'
CURATED = Request(mapping=Mapping(reward=RewardMapping(constant=1.0)))


def framed(folder: Path) -> list[bytes]:
    items = [item for path in closed_segments(folder) for item in read_segment(path)]
    return [item.payload for item in items if isinstance(item, Frame)]


def chats(count: int) -> str:
    return "\n".join(CHAT % number for number in range(count)) + "\n"


def test_native_lines_are_framed_as_they_are_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "logs.jsonl"
    file.write_bytes(b'{"log":"feedback"}\r\nnot json\n\n  \n{"torn":')
    report = ingest([str(file)], tmp_path / "segments")
    assert (report.format, report.files, report.read, report.segments) == ("native", 1, 3, 1)
    assert report.rejected == {"no log": 3}
    assert [example.line for example in report.examples] == [1, 2, 5]
    assert framed(tmp_path / "segments") == [b'{"log":"feedback"}', b"not json", b'{"torn":']


def test_the_same_content_twice_adds_nothing_and_counts_as_duplicates(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(2))
    first = ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED)
    (tmp_path / "copy.jsonl").write_text(chats(2))
    before = framed(tmp_path / "segments")
    report = ingest([str(tmp_path / "a.jsonl"), str(tmp_path / "copy.jsonl")], tmp_path / "segments", CURATED)
    assert (first.points, first.duplicates) == (2, 0)
    assert (report.files, report.known_files, report.points, report.duplicates, report.read) == (0, 2, 0, 4, 4)
    assert framed(tmp_path / "segments") == before


def test_a_run_that_is_in_a_file_twice_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(1) + chats(2))
    report = ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED)
    assert (report.read, report.points, report.duplicates) == (3, 2, 1)
    assert len(framed(tmp_path / "segments")) == 6


def test_other_terms_import_a_file_anew(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(1))
    for tenant in ("one", "other"):
        request = msgspec.structs.replace(CURATED, tenant_id=tenant)
        assert ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", request).points == 1
    assert {json.loads(line)["tenantId"] for line in framed(tmp_path / "segments")} == {"one", "other"}


def test_a_higher_revision_of_a_mapping_makes_the_later_evaluation(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"timestamp": 1767225600,' + (CHAT % "a")[1:] + "\n")
    for revision, reward in ((0, 1.0), (1, 0.25)):
        mapping = Mapping(reward=RewardMapping(constant=reward), revision=revision)
        ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", Request(mapping=mapping))
    logs = [json.loads(line) for line in framed(tmp_path / "segments")]
    evaluations = [log for log in logs if log["log"] == "evaluation"]
    assert len({log["taskId"] for log in logs}) == 1
    latest = max(evaluations, key=lambda log: datetime.fromisoformat(log["timestamp"]))
    assert latest["overallScore"] == 0.25


def test_a_file_cut_short_by_a_kill_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "SEGMENT_BYTES", 10)
    file = tmp_path / "a.jsonl"
    lines = [f"line {number}".encode() for number in range(9)]
    file.write_bytes(b"\n".join(lines))
    ingest([str(file)], tmp_path / "segments", NATIVE)
    written = closed_segments(tmp_path / "segments")
    assert len(written) == 5
    for path in [*written[2:], *(tmp_path / "segments").glob(f"*{RECEIPT_SUFFIX}")]:
        path.unlink()
    assert ingest([str(file)], tmp_path / "segments", NATIVE).segments == 3
    assert framed(tmp_path / "segments") == lines


def test_a_line_longer_than_a_frame_is_rejected_and_its_neighbours_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "MAX_PAYLOAD_BYTES", 8)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"1\n" + b"x" * 30 + b"\n2\n")
    report = ingest([str(file)], tmp_path / "segments", NATIVE)
    assert (report.read, report.rejected["record too large"], report.bytes) == (3, 1, 35)
    assert framed(tmp_path / "segments") == [b"1", b"2"]


def test_standard_input_is_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\n2\n")))
    assert ingest(["-"], tmp_path, NATIVE).read == 2
    assert framed(tmp_path) == [b"1", b"2"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"missing\.jsonl was not ingested"):
        ingest([str(tmp_path / "missing.jsonl")], tmp_path)


def test_a_named_pipe_is_refused_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        SegmentError, match=r"pipe was not ingested: it is neither a file nor a folder.* with - in place"
    ):
        ingest([str(tmp_path / "pipe")], tmp_path / "segments")


def test_files_that_were_taken_before_reasoning_parts_were_left_out_are_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text(chats(1))
    with monkeypatch.context() as earlier:
        earlier.setattr(taking, "RULES_VERSION", 3)
        ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED)
    assert ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED).files == 1


def test_an_unknown_format_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'carrier-pigeon'; there are native, agentdojo"):
        ingest([], tmp_path, Request(format="carrier-pigeon"))


def test_a_format_without_rewards_asks_for_a_mapping_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(1))
    report = ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments")
    assert report.rejected == {"no mapping": 1}
    assert "more is better" in report.examples[0].detail
    assert framed(tmp_path / "segments") == []


def test_formats_may_be_mixed_in_a_folder_and_what_is_none_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "chat.jsonl").write_text(chats(2))
    (folder / "logs.jsonl").write_text('{"log":"routing"}\n')
    (folder / "README.md").write_text("# Traces\n")
    report = ingest([str(folder)], tmp_path / "segments", CURATED)
    assert (report.format, report.points) == ("native, openai-chat", 2)
    assert report.rejected == {"unknown format": 1, "no log": 1}
    assert {Path(example.file).name for example in report.examples} == {"README.md", "logs.jsonl"}


def test_a_receipt_quotes_nothing_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(1) + '{"messages": "call 555-0100"}\n')
    report = ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED)
    (receipt,) = (tmp_path / "segments").glob(f"*{RECEIPT_SUFFIX}")
    assert "555-0100" in report.examples[0].detail
    assert "555-0100" not in receipt.read_text()


def test_all_records_are_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(chats(2) + "{}\n" + chats(1) + '{"messages": 3}\n[]\n')
    report = ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments", CURATED)
    assert report.read == report.points + report.waiting + report.duplicates + sum(report.rejected.values()) == 6
