"""Files are framed line by line, once per content."""

import io
import sys
from pathlib import Path

import pytest

from flywheel.collection import ingest as module
from flywheel.collection.ingest import IngestReport, ingest
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.errors import SegmentError


def framed(folder: Path) -> list[bytes]:
    items = [item for path in closed_segments(folder) for item in read_segment(path)]
    return [item.payload for item in items if isinstance(item, Frame)]


def test_lines_are_framed_as_they_are_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "logs.jsonl"
    file.write_bytes(b'{"log":"feedback"}\r\nnot json\n\n  \n{"torn":')
    report = ingest([str(file)], tmp_path / "segments")
    assert report == IngestReport(files=1, lines=3, blank_lines=2, bytes=file.stat().st_size, segments=1)
    assert framed(tmp_path / "segments") == [b'{"log":"feedback"}', b"not json", b'{"torn":']


def test_the_same_content_twice_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1\n2\n")
    (tmp_path / "copy.jsonl").write_text("1\n2\n")
    ingest([str(tmp_path / "a.jsonl")], tmp_path / "segments")
    report = ingest([str(tmp_path / "a.jsonl"), str(tmp_path / "copy.jsonl")], tmp_path / "segments")
    assert report == IngestReport(skipped_files=2)
    assert framed(tmp_path / "segments") == [b"1", b"2"]


def test_a_file_cut_short_by_a_kill_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 10)
    file = tmp_path / "a.jsonl"
    lines = [f"line {number}".encode() for number in range(9)]
    file.write_bytes(b"\n".join(lines))
    ingest([str(file)], tmp_path / "segments")
    written = closed_segments(tmp_path / "segments")
    assert len(written) == 5
    for path in written[2:]:
        path.unlink()
    assert ingest([str(file)], tmp_path / "segments").segments == 3
    assert framed(tmp_path / "segments") == lines


def test_a_line_longer_than_a_frame_is_counted_and_its_neighbours_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAYLOAD_BYTES", 8)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"1\n" + b"x" * 30 + b"\n2\n")
    report = ingest([str(file)], tmp_path / "segments")
    assert (report.lines, report.oversized_lines, report.bytes) == (2, 1, 35)
    assert framed(tmp_path / "segments") == [b"1", b"2"]


def test_standard_input_is_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\n2\n")))
    assert ingest(["-"], tmp_path).lines == 2
    assert framed(tmp_path) == [b"1", b"2"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"missing\.jsonl was not ingested"):
        ingest([str(tmp_path / "missing.jsonl")], tmp_path)
