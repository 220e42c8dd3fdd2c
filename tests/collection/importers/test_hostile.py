"""What is damaged, hostile or not JSON is rejected with file, line and reason: no crash, no hang, bounded memory."""

import gzip
import io
import json
import re
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.collection import json_split
from flywheel.collection.fidelity import FidelityReport
from flywheel.collection.importers.registry import OWN
from flywheel.collection.ingest import Request, ingest
from flywheel.collection.json_records import opening_keys
from flywheel.collection.json_split import Piece, split
from tests.collection.importers import (
    test_agentdojo,
    test_atif,
    test_autogpt_benchmarks,
    test_langfuse,
    test_otlp_files,
    test_tau,
)
from tests.collection.importers.imports import imported, logs_of, request
from tests.collection.importers.spans import traces


def good(question: str) -> str:
    """A line that becomes a point."""
    return (
        json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "b"}]}) + "\n"
    )


GOOD = good("a")
CURATED = request(constant=1)
DEEP = 200_000

SAMPLE = {
    "version": 2,
    "status": "success",
    "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00Z"},
    "samples": [{"id": 1, "epoch": 1, "messages": [{"role": "user", "content": "?"}], "scores": {"s": {"value": "C"}}}],
}
MLFLOW = {
    "info": {"trace_id": "tr-1", "state": "OK", "request_time": 1767225600000, "assessments": []},
    "data": {"spans": [{"name": "root", "attributes": {"mlflow.spanInputs": '"hi"'}}]},
}
EXAMPLES: dict[str, Any] = {
    "agentdojo": test_agentdojo.run(),
    "tau2": test_tau.results(test_tau.simulation()),
    "tau-bench": [{"task_id": 1, "reward": 1.0, "info": {}, "traj": [{"role": "user", "content": "hi"}]}],
    "autogpt-benchmarks": test_autogpt_benchmarks.report(a=test_autogpt_benchmarks.leaf()),
    "inspect-ai": SAMPLE,
    "otlp": traces(*test_otlp_files.WHOLE),
    "mlflow": MLFLOW,
    "langfuse": test_langfuse.observation(),
    "atif": test_atif.trajectory(),
    "openai-chat": json.loads(GOOD),
    "native": {"log": "feedback", "taskId": "t", "timestamp": "2026-01-01T00:00:00Z", "source": "user", "name": "n"},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"messages": NaN}', "malformed JSON"),
        (b'{"messages": 1e999}', "malformed JSON"),
        (b'{"messages": [], "messages": [1]}', "duplicate keys"),
        (b'{"a": {"b": 1, "b": "\\u003a"}}', "duplicate keys"),
        (b'{"a": "\xff"}', "wrong encoding"),
        (b'{"messages":' + b"[" * DEEP + b"]" * DEEP + b"}", "nested too deep"),
        (b'{"timestamp": 1' + b"0" * 300 + b"," + GOOD.encode()[1:].strip(), "not of the format"),
        (b'{"usage": {"total_tokens": -1},' + GOOD.encode()[1:].strip(), "not of the format"),
        (b'["a list"]', "not an object"),
        (b'{"cut": "of', "malformed JSON"),
    ],
)
def test_a_bad_line_is_named_and_its_neighbours_are_kept(tmp_path: Path, line: bytes, reason: str) -> None:
    found = imported(tmp_path, GOOD.encode() + line + b"\n" + good("z").encode(), CURATED, name="a.jsonl")
    (example,) = found.report.examples
    assert (found.report.rejected, example.line) == ({reason: 1}, 2)
    assert example.file.endswith("a.jsonl")
    assert found.report.points + found.report.rejected.get("not of the format", 0) >= 1


def test_colons_in_escapes_are_no_duplicate_keys(tmp_path: Path) -> None:
    escaped = GOOD.replace('"a"', '"\\u003a \\u003A"')
    assert imported(tmp_path, escaped, CURATED, name="a.jsonl").report.rejected == {}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    asked = request(constant=1, format="openai-chat")
    found = imported(tmp_path, GOOD.encode(encoding), asked, name="a.json")
    assert found.report.rejected == {"wrong encoding": 1}


def test_a_byte_order_mark_of_utf8_is_no_harm(tmp_path: Path) -> None:
    assert imported(tmp_path, b"\xef\xbb\xbf" + GOOD.encode(), CURATED, name="a.jsonl").report.points == 1


def test_a_line_of_a_hundred_megabytes_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(GOOD.encode() + b'{"messages": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + good("z").encode())
    content_size = path.stat().st_size
    tracemalloc.start()
    try:
        found = logs_of(path, tmp_path / "segments", CURATED)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.report.rejected == {"record too large": 1}
    assert (found.report.points, found.report.examples[0].line) == (2, 2)
    assert peak < 80_000_000 < content_size


@pytest.mark.parametrize("kind", ["gzip", "zstd", "zip"])
def test_a_decompression_bomb_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("flywheel.collection.documents.FREE_EXPANSION_BYTES", 1_000_000)
    bomb = GOOD.encode() + b" " * 30_000_000
    archive = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a.jsonl", bomb)
        packed = archive.getvalue()
    else:
        packed = gzip.compress(bomb) if kind == "gzip" else zstandard.ZstdCompressor().compress(bomb)
    found = imported(tmp_path, packed, CURATED, name="bomb")
    assert found.report.rejected == {"decompression bomb": 1}


def test_containers_in_containers_are_opened_up_to_a_depth(tmp_path: Path) -> None:
    content = GOOD.encode()
    for depth in range(7):
        content = gzip.compress(content)
        if depth < 3:
            assert imported(tmp_path / str(depth), content, CURATED, name="a.jsonl").report.points == 1
    assert imported(tmp_path / "deep", content, CURATED, name="a").report.rejected == {"nested too deep": 1}


def test_a_tar_of_all_containers_gives_every_member(tmp_path: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("inner/c.jsonl", good("c"))
        archive.writestr("__MACOSX/x", "no")
    members = {
        "a.jsonl": GOOD.encode(),
        "b.jsonl.gz": gzip.compress(good("b").encode()),
        "c.zip": zipped.getvalue(),
        "d.zst": zstandard.ZstdCompressor().compress(good("d").encode()),
        ".hidden": b"no",
    }
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    packed = zstandard.ZstdCompressor().compress(tar.getvalue())
    found = imported(tmp_path, packed, CURATED, name="all.tar.zst")
    assert (found.report.points, found.report.rejected) == (4, {})


@pytest.mark.parametrize("cut", [0.3, 0.99])
def test_a_container_that_is_cut_off_is_named_after_what_was_whole(tmp_path: Path, cut: float) -> None:
    packed = gzip.compress("".join(good(f"a{number}") for number in range(3000)).encode())
    found = imported(tmp_path, packed[: int(len(packed) * cut)], CURATED, name="a.jsonl.gz")
    assert found.report.rejected["unreadable"] == 1
    assert found.report.points > 0


def test_an_encrypted_or_broken_zip_is_named(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.jsonl", GOOD)
    content = bytearray(archive.getvalue())
    for place in (match.start() for match in re.finditer(b"PK\x01\x02", content)):
        content[place + 8] |= 1  # the flag of encryption
    assert imported(tmp_path / "1", bytes(content), CURATED, name="a.zip").report.rejected == {"unreadable": 1}
    assert imported(tmp_path / "2", archive.getvalue()[:40], CURATED, name="a.zip").report.rejected == {"unreadable": 1}


def report_of(folder: Path, content: bytes, asked: Request) -> FidelityReport:
    """Import a file, whose logs may be none that can be read."""
    path = folder / "a" / "b" / "c.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return ingest([str(path)], folder / "segments", asked)


def broken(value: Any, path: list[int], new: Any) -> Any:
    """The value with what lies at a path replaced."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    if isinstance(value, list):
        place = path[0] % len(value)
        return [broken(one, path[1:], new) if number == place else one for number, one in enumerate(value)]
    name = sorted(value)[path[0] % len(value)]
    return {key: broken(one, path[1:], new) if key == name else one for key, one in value.items()}


@pytest.mark.parametrize("name", OWN)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.lists(st.integers(0, 20), min_size=1, max_size=7), new=JSON)
def test_no_change_of_a_record_breaks_its_importer(
    name: str, tmp_path_factory: pytest.TempPathFactory, path: list[int], new: Any
) -> None:
    asked = request(constant=1, format=name)
    content = json.dumps(broken(EXAMPLES[name], path, new))
    found = report_of(tmp_path_factory.mktemp("fuzz"), content.encode(), asked)
    if name != "native":
        assert found.read == found.points + found.waiting + found.duplicates + sum(found.rejected.values())


@pytest.mark.parametrize("name", OWN)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=60), place=st.integers(0, 400))
def test_no_bytes_break_an_importer(
    name: str, tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int
) -> None:
    content = json.dumps(EXAMPLES[name]).encode()
    content = content[:place] + noise + content[place:]
    assert report_of(tmp_path_factory.mktemp("fuzz"), content, request(constant=1, format=name)).format in {
        name,
        "none",
    }


@settings(max_examples=200)
@given(
    values=st.lists(st.dictionaries(st.text('a"\\[]{}', max_size=4), JSON, max_size=3), max_size=5),
    block=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    listed=st.booleans(),
)
def test_splitting_finds_every_object_wherever_blocks_end(
    values: list[Any], block: int, indent: int | None, listed: bool
) -> None:
    document = values if listed else {"first": {"x": "]}"}, "wanted": values, "last": [{}]}
    content = json.dumps(document, indent=indent).encode()
    before, json_split.BLOCK_BYTES = json_split.BLOCK_BYTES, block
    try:
        pieces = list(split(content, io.BytesIO(), lists=("wanted",), most=10_000))
    finally:
        json_split.BLOCK_BYTES = before
    found = [json.loads(piece.raw) for piece in pieces if isinstance(piece, Piece) and (listed or piece.key)]
    assert found == values


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.integers(0, 400), st.booleans())
def test_keys_are_known_as_far_as_a_document_is_read(value: dict[str, Any], cut: int, listed: bool) -> None:
    """Whatever stands in its strings, and wherever its beginning ends: JSON in a string is a string."""
    nested = {**value, "last": json.dumps([{"inner": json.dumps(value)}])}
    whole = json.dumps([nested] if listed else nested).encode()
    keys, in_list = opening_keys(whole)
    assert (in_list, keys) == (listed, frozenset(json.dumps(key)[1:-1] for key in nested))
    assert opening_keys(whole[:cut])[0] <= keys
