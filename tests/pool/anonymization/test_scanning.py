"""Texts in JSON lines: a line out for every line in, whatever the processes, and nothing where a line is bad."""

import gzip
import json
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.errors import InputError
from flywheel.pool.anonymization import scanning
from flywheel.pool.anonymization.scanning import chunks_of, opened, scan, scan_line, whole

PERSONAL = "write to ann@example.org"


def scanned(content: bytes, *, processes: int = 1) -> list[dict[str, Any]]:
    target = BytesIO()
    lines, spans = scan(BytesIO(content), target, name="f", processes=processes)
    found: list[dict[str, Any]] = [json.loads(line) for line in target.getvalue().splitlines()]
    assert lines == len(found)
    assert spans == sum(len(one["spans"]) for one in found)
    return found


def test_a_text_becomes_its_spans_and_other_keys_stay() -> None:
    content = json.dumps({"id": 7, "text": PERSONAL, "meta": {"a": [1.50]}}).encode()
    assert scanned(content) == [
        {"id": 7, "meta": {"a": [1.5]}, "spans": [{"start": 9, "end": 24, "type": "EMAIL_ADDRESS"}]}
    ]


def test_values_of_other_keys_stay_as_they_are_written() -> None:
    content, _ = scan_line(b'{"id": 123456789012345678901234567890, "cost": 1.50, "text": "", "spans": "old"}')
    assert content == b'{"id":123456789012345678901234567890,"cost":1.50,"spans":[]}\n'


def test_offsets_are_in_characters_and_half_of_a_surrogate_pair_is_one() -> None:
    (wide,) = scanned(b'{"text": "\\ud83d\\ude00 ann@example.org"}')
    (half,) = scanned(b'{"text": "\\ud83d ann@example.org", "note": "\\udc00"}')
    span = {"start": 2, "end": 17, "type": "EMAIL_ADDRESS"}
    assert wide["spans"] == half["spans"] == [span]
    assert half["note"] == "\udc00"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "not JSON"),
        (b'{"text": "a"', "not JSON"),
        (b'{"text": NaN}', "not JSON: NaN is no JSON value"),
        (b'["a"]', "not a JSON object"),
        (b'{"id": 1}', "no text"),
        (b'{"text": 3}', "no text, or one that is not a string"),
        (b'{"text": null}', "no text, or one that is not a string"),
        (b"[" * 100_000, "not a JSON object|nested too deeply|not JSON"),
    ],
)
def test_a_bad_line_is_named_with_its_reason(bad: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^f:2: .*({reason})"):
        scanned(b'{"text": "a"}\n' + bad + b'\n{"text": "b"}\n')


def test_nothing_is_at_the_target_after_a_bad_line_and_what_was_there_stays(tmp_path: Path) -> None:
    target = tmp_path / "spans.jsonl"
    target.write_text("of the run before")
    with pytest.raises(InputError), whole(str(target)) as output:
        scan(BytesIO(b'{"text": "a"}\n{}\n'), output, name="f", processes=1)
    assert target.read_text() == "of the run before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "spans.jsonl", tmp_path / "link"
    link.symlink_to(target)
    with whole(str(link)) as output:
        output.write(b"x")
    assert link.is_symlink()
    assert target.read_bytes() == b"x"


def test_a_device_is_written_to_and_not_replaced() -> None:
    with whole("/dev/null") as output:
        output.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_compressed_input_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    packed = tmp_path / "texts.jsonl"
    packed.write_bytes(gzip.compress(b"one\ntwo\n"))
    with opened(str(packed)) as lines:
        assert list(lines) == [b"one\n", b"two\n"]
    packed.write_bytes(gzip.compress(b"one\ntwo\n" * 1_000)[:-20])
    with pytest.raises(InputError, match="is damaged"), opened(str(packed)) as lines:
        list(lines)


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=40))
def test_chunks_hold_every_line_once_in_order_with_its_number(lines: list[bytes]) -> None:
    scanning_bytes = 60
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "CHUNK_BYTES", scanning_bytes)
        chunks = list(chunks_of(lines, name="f"))
    assert [line for chunk in chunks for line in chunk.lines] == lines
    assert [chunk.first for chunk in chunks] == [
        1 + sum(len(before.lines) for before in chunks[:number]) for number in range(len(chunks))
    ]
    assert all(sum(map(len, chunk.lines[:-1])) < scanning_bytes for chunk in chunks)


def test_several_processes_find_the_same_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 500)
    content = b"".join(
        json.dumps({"id": number, "text": f"{'é' * (number % 7)} user{number}@example.org"}).encode() + b"\n"
        for number in range(300)
    )
    assert len(list(chunks_of(BytesIO(content), name="f"))) > scanning.CHUNKS_FOR_PROCESSES
    assert scanned(content, processes=2) == scanned(content)
    with pytest.raises(InputError, match=r"^f:301: not JSON"):
        scanned(content + b"{\n" + content, processes=2)


def test_what_is_read_does_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 16_000)
    text = json.dumps({"text": f"{PERSONAL} " * 40}).encode() + b"\n"
    source = tmp_path / "texts.jsonl"
    source.write_bytes(text * 2_000)
    scanned(text)  # what is loaded once
    tracemalloc.start()
    with opened(str(source)) as lines, whole(str(tmp_path / "spans.jsonl")) as output:
        count, _ = scan(lines, output, name="f", processes=1)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2_000
    assert peak < source.stat().st_size / 4, f"{peak:,} bytes for {source.stat().st_size:,}"
