"""Exports as files: what is in them, the same bytes each time, and that trainers read them."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from flywheel.errors import PoolError
from flywheel.pool import export_files
from flywheel.pool.batch_copies import copied_rows
from flywheel.pool.batches import batch_members, make_batch
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.export_files import Format, write_export
from flywheel.pool.exports import make_export
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import BATCH_COLUMNS, BATCHES, POINT_COLUMNS
from flywheel.records import decode_point
from flywheel.settings import BatchSettings, PhaseThreshold, Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import Split
from tests.pool.filling import LATER, fill, some_tasks
from tests.pool.logs import Log, task_logs

ROW = PhaseThreshold(points=6, quality=0.5, max_age_days=90)
FORMATS: tuple[Format, ...] = ("trl", "parquet", "jsonl")


def tool_task(pool: BenchmarkPool) -> list[Log]:
    """A task of the benchmark, answered by a call, and one of nobody's with another shape of arguments."""
    task = next(task for task in load_source(pool.settings).tasks() if task.split is Split.TRAIN)

    def said(name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        call = {"name": name, "arguments": json.dumps(arguments), "id": "c1"}
        return [
            {"role": "system", "content": "You call functions."},
            {"role": "user", "content": f"please use {name}"},
            {"role": "assistant", "toolCalls": [call]},
            {"role": "tool", "content": "done", "toolCallId": "c1"},
            {"role": "assistant", "content": f"{name} was called"},
        ]

    others = task_logs("others", messages=said("lookup", {"x": "one", "deep": {"y": [1, 2]}}))
    others[2]["turnData"] = [turn(1, gain=0.5), turn(2, gain=0.0), turn(3, gain=0.5)]
    return [*task_logs("with-tools", source=task.id, messages=said(task.tools[0].name, {"x": 1})), *others]


def turn(number: int, *, gain: float) -> dict[str, Any]:
    terms = dict.fromkeys(("formatCorrectness", "taskProgress", "safetyScore"), 1.0)
    return {"turnNumber": number, "informationGain": gain, **terms, "turnReward": 0.6 + 0.4 * gain}


@pytest.fixture
def pool(settings: Settings) -> BenchmarkPool:
    """A pool with two exports of the same points: ``sft`` and ``grpo``."""
    small = BatchSettings(sft=ROW, grpo=ROW, max_sft_points=8, max_grpo_points=8)
    opened = BenchmarkPool.open(settings.model_copy(update={"batch": small}))
    fill(opened, "a", [*some_tasks(24), *tool_task(opened)])
    for phase in ("sft", "grpo"):
        criteria = criteria_for(
            opened.settings, phase, max_points=40, heldout_fraction=0.2, include_failures=phase == "grpo"
        )
        make_export(opened, criteria, export_id=phase, now=LATER)
    return opened


def rows_of(folder: Path, name: str = "*.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(name)) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", FORMATS)
def test_every_point_is_in_the_file_of_its_split_and_the_manifest_knows(
    pool: BenchmarkPool, tmp_path: Path, form: Format
) -> None:
    folder = write_export(pool, "sft", tmp_path / "out", form)
    manifest = json.loads((folder / "manifest.json").read_text())
    members = batch_members(pool, "sft")
    for split in ("train", "validation", "held-out"):
        ids = [member.point_id for member in members if member.split == split]
        assert manifest["point_ids"][split] == ids
        assert manifest["splits"].get(split, 0) == len(ids)
    assert manifest["criteria"]["phase"] == "sft"
    for name, file in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert (sha256(content).hexdigest(), len(content)) == (file["sha256"], file["bytes"])
    assert {path.name for path in folder.iterdir()} - {"README.md", "manifest.json"} == set(manifest["files"])


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_export_is_written_in_the_same_bytes(pool: BenchmarkPool, tmp_path: Path, form: Format) -> None:
    first, second = (write_export(pool, "grpo", tmp_path / name, form) for name in ("first", "second"))
    assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in second.iterdir())
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_jsonl_holds_the_points_as_they_are(pool: BenchmarkPool, tmp_path: Path) -> None:
    folder = write_export(pool, "sft", tmp_path / "out", "jsonl")
    points = [decode_point(line) for line in (folder / "train.jsonl").read_bytes().splitlines()]
    train = [member.point_id for member in batch_members(pool, "sft") if member.split == "train"]
    assert [point.id for point in points] == train


def test_a_point_says_with_which_batch_it_leaves_and_is_the_same_point(pool: BenchmarkPool, tmp_path: Path) -> None:
    """SPEC section 2; the copies do not say it, so that digests are of what was learned from."""
    import pyarrow.parquet as pq

    copies = {row["id"]: bytes(row["payload"]) for row in copied_rows(pool, "sft")}
    lines = rows_of(write_export(pool, "sft", tmp_path / "jsonl", "jsonl"))
    tables = [pq.read_table(path) for path in (write_export(pool, "sft", tmp_path / "pq", "parquet")).glob("*.parquet")]
    rows = [json.loads(payload) for table in tables for payload in table.column("payload").to_pylist()]
    for some in (lines, rows):
        assert len(some) == len(copies)
        for point in some:
            assert (point.pop("trainingBatchId"), point.pop("exportedAt")) == ("sft", "2026-03-03T12:00:00Z")
            assert point == json.loads(copies[point["id"]])


def test_parquet_holds_flat_columns_and_the_payload(pool: BenchmarkPool, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = write_export(pool, "grpo", tmp_path / "out", "parquet")
    table = pq.read_table(folder / "train.parquet")
    assert table.schema.names == list(POINT_COLUMNS)
    for row in table.to_pylist():
        point = decode_point(row["payload"])
        assert (row["id"], row["task_type"], row["success"]) == (point.id, point.task.type, point.execution.success)
        assert row["day"] == point.day


def test_sft_rows_ask_and_answer_with_the_calls_in_openai_s_form(pool: BenchmarkPool, tmp_path: Path) -> None:
    rows = {row["task"]: row for row in rows_of(write_export(pool, "sft", tmp_path / "out", "trl"))}
    assert len(rows) == 20
    other = rows["bench:others"]
    assert [message["role"] for message in other["prompt"]] == ["system", "user"]
    assert [message["role"] for message in other["completion"]] == ["assistant", "tool", "assistant"]
    function = other["completion"][0]["tool_calls"][0]["function"]
    assert function["name"] == "lookup"
    assert function["arguments"] == {"x": "one", "deep": {"y": [1, 2]}}
    assert other["tools"] is None
    (known,) = (row for task, row in rows.items() if task.startswith("synthetic:"))
    assert known["tools"][0]["type"] == "function"
    assert known["tools"][0]["function"]["parameters"]["type"] == "object"
    assert "reward" not in known


def test_rows_of_the_rl_phases_say_what_the_answer_was_worth(pool: BenchmarkPool, tmp_path: Path) -> None:
    rows = rows_of(write_export(pool, "grpo", tmp_path / "out", "trl"))
    assert {row["outcome"] for row in rows} == {"success", "failure"}
    for row in rows:
        assert row["success"] == (row["outcome"] == "success")
        assert row["reward"] == row["overall_score"]
        assert len(row["turn_rewards"]) == len(row["turn_credits"])
        assert row["prompt"][-1]["role"] == "user"


def test_turns_share_one_reward_by_what_each_added_however_many_there_are(pool: BenchmarkPool, tmp_path: Path) -> None:
    rows = {row["task"]: row for row in rows_of(write_export(pool, "grpo", tmp_path / "out", "trl"))}
    several = rows.pop("bench:others")
    reward = several["reward"]
    assert several["turn_rewards"] == [0.8, 0.6, 0.8]
    assert several["turn_credits"] == pytest.approx([0.5 * reward, 0.0, 0.5 * reward])
    assert all(row["turn_rewards"] == row["turn_credits"] == [] for row in rows.values())


def test_a_folder_in_use_is_left_alone(pool: BenchmarkPool, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(PoolError, match="is in use"):
        write_export(pool, "sft", tmp_path, "jsonl")
    with pytest.raises(PoolError, match="is in use"):
        write_export(pool, "sft", tmp_path / "notes", "jsonl")


def test_an_empty_folder_is_taken(pool: BenchmarkPool, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert (write_export(pool, "sft", tmp_path / "out", "jsonl") / "manifest.json").exists()


def test_an_export_that_breaks_off_leaves_nothing(
    pool: BenchmarkPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_files, "manifest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_export(pool, "sft", tmp_path / "out", "trl")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_only_exports_that_kept_their_points_are_written(pool: BenchmarkPool, tmp_path: Path) -> None:
    fill(pool, "b", some_tasks(24, prefix="new"))
    make_batch(pool, "b1", now=LATER)
    release_batch(pool, "grpo", because="a test", now=LATER)
    for name, reason in {"b1": "is a training batch", "grpo": "gave its points back", "none": "there is no"}.items():
        with pytest.raises(PoolError, match=reason):
            write_export(pool, name, tmp_path / "out", "trl")


def test_points_that_were_changed_are_not_written(pool: BenchmarkPool, tmp_path: Path) -> None:
    pool.replace(BATCHES, "sft", [], schema=arrow_schema(BATCH_COLUMNS), key="batch_id")
    with pytest.raises(PoolError, match="0 points of batch sft"):
        write_export(pool, "sft", tmp_path / "out", "trl")


@pytest.mark.parametrize("phase", ["sft", "grpo"])
def test_trl_takes_what_datasets_loads_without_a_network(
    pool: BenchmarkPool, tmp_path: Path, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install '.[training]'")
    data_utils = pytest.importorskip("trl.data_utils", reason="trl is not installed: pip install '.[training]'")
    folder = write_export(pool, phase, tmp_path / "out", "trl")
    by_card = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    by_file = datasets.load_dataset(
        "json", data_files={"train": str(folder / "train.jsonl")}, cache_dir=str(tmp_path / "cache")
    )
    written = rows_of(folder, "train.jsonl")
    assert set(by_card) == {"train", "validation", "test"}
    assert len(by_file["train"]) == len(written)
    assert list(by_card["train"]) == written
    assert all(data_utils.is_conversational(row) for row in by_card["train"])
    assert data_utils.is_conversational(by_file["train"][0])


def test_parquet_is_a_dataset_too(pool: BenchmarkPool, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install '.[training]'")
    folder = write_export(pool, "sft", tmp_path / "out", "parquet")
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert sum(map(len, loaded.values())) == 20


@pytest.mark.parametrize("form", ["trl", "parquet", "jsonl"])
def test_what_is_written_at_once_is_what_is_written_again(pool: BenchmarkPool, tmp_path: Path, form: Format) -> None:
    release_batch(pool, "grpo", because="a test", now=LATER)
    criteria = criteria_for(pool.settings, "grpo", min_points=3, min_task_types=1, min_agents=1)
    made = make_export(pool, criteria, export_id="again", now=LATER)
    assert made.rows is not None
    folders = [
        write_export(pool, "again", tmp_path / "at-once", form, made=made),
        write_export(pool, "again", tmp_path / "read", form),
    ]
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert first == second
