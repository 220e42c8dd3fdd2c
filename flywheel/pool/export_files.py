"""An export as files: one per split, a manifest, and a dataset card that tells ``datasets.load_dataset`` their types.

Files are made in a folder beside the target that takes its name when all are there, so a kill leaves no half export.
They hold what the batch's copy holds, in its order: written again they are the same bytes.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal
from uuid import uuid4

import msgspec

from flywheel.arbiter.evaluation.rewards import turn_credits
from flywheel.errors import PoolError
from flywheel.pool.batch_copies import WRITE_BYTES, copied_points
from flywheel.pool.batches import Batch, check_kept, get_batch, stamp_of
from flywheel.pool.conversations import Example, chat_message, chat_tool, decode_example, parted
from flywheel.pool.export_choice import SPLITS, SplitName
from flywheel.pool.exports import MadeExport
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.reward_noise import exported_ids
from flywheel.pool.rows import Row, arrow_schema, row_of
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.records import decode_point
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import BenchmarkTask

Format = Literal["trl", "parquet", "jsonl"]
CARD_SPLITS: dict[SplitName, str] = {"train": "train", "validation": "validation", "held-out": "test"}
TYPES = {
    "json": ("prompt", "completion", "tools"),
    "string": ("point", "task", "task_type", "complexity", "agent", "outcome"),
    "float64": ("reward", "overall_score"),
    "bool": ("success",),
}
"""Of the columns of TRL's form; those of JSON are lists, whose items differ from row to row."""


def write_export(
    pool: BenchmarkPool, batch_id: str, folder: Path, form: Format, *, made: MadeExport | None = None
) -> Path:
    """Write an export into a new folder.

    Args:
        pool: that has the export.
        batch_id: of the export.
        folder: must not exist, or be empty.
        form: ``trl``: conversational JSONL for TRL's trainers. ``parquet``: a row a point with its payload, zstd.
            ``jsonl``: the points' wire JSON.
        made: the export, if it was made just now: its points need not be read again.

    Raises:
        PoolError: there is no such export, it gave its points back, its copy was changed, or the folder is in use.
    """
    batch = get_batch(pool, batch_id)
    if "phase" not in batch.criteria:
        raise PoolError(f"{batch_id} is a training batch; only exports are written")
    known = made.rows if made is not None and made.batch.digest == batch.digest else None
    rows = leaving(pool, batch, form, known=known)
    by_split = {split: [row for row in rows if row["split"] == split] for split in SPLITS}
    with complete(folder) as unfinished:
        names = {split: write_split(pool, unfinished, split, some, form) for split, some in by_split.items() if some}
        if form != "jsonl":
            (unfinished / "README.md").write_text(card(batch, names, form), encoding="utf-8")
        described = manifest(batch, by_split, {name: unfinished / name for name in names.values()}, form)
        (unfinished / "manifest.json").write_text(described, encoding="utf-8")
    return folder


def leaving(pool: BenchmarkPool, batch: Batch, form: Format, *, known: list[Row] | None = None) -> list[Row]:
    """A batch's points as they leave the pool, in order: those of an export with noise under ids of their own.

    Their wire JSON says with which batch they leave, for the forms that hold it.

    Raises:
        PoolError: it gave its points back, or its copy was changed.
    """
    check_kept(batch)
    rows = known or copied_points(pool, batch.id, digest=batch.digest)
    named = exported_ids(rows) if "noise" in batch.criteria else rows
    if form == "trl":
        return named
    stamp = stamp_of(batch)
    return [{**row, "payload": b"".join((row["payload"][:-1], stamp))} for row in named]


def check_unused(folder: Path) -> None:
    """Hold a folder against what an export may be written to; the folder that it is to be in is made.

    Raises:
        PoolError: there is something in it, or it cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PoolError(f"{folder} is in use; name a folder that does not exist")
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=parent, prefix=f".{folder.name}."):
            pass
    except OSError as error:
        raise PoolError(f"{folder} cannot be made: {error}; name another folder") from error


@contextmanager
def complete(folder: Path) -> Iterator[Path]:
    """A new folder beside this one that becomes it at the end, or goes."""
    check_unused(folder)
    unfinished = folder.absolute().with_name(f".{folder.absolute().name}.{uuid4().hex[:8]}")
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        unfinished.replace(folder)
    except BaseException:
        shutil.rmtree(unfinished)
        raise


def write_split(pool: BenchmarkPool, folder: Path, split: SplitName, rows: Sequence[Row], form: Format) -> str:
    """Write the points of a split; the file's name."""
    if form == "parquet":
        name = f"{split}.parquet"
        write_parquet(folder / name, rows)
        return name
    name = f"{split}.jsonl"
    with (folder / name).open("wb", buffering=WRITE_BYTES) as file:
        file.writelines(parts_of(pool, rows, form))
    return name


def parts_of(pool: BenchmarkPool, rows: Iterable[Row], form: Literal["trl", "jsonl"]) -> Iterator[bytes | memoryview]:
    """The points a line each, as what files and answers are made of."""
    lines: Iterable[bytes | memoryview] = (row["payload"] for row in rows)
    if form == "trl":
        lines = map(msgspec.json.Encoder().encode, chat_rows(pool, rows))
    for line in lines:
        yield line
        yield b"\n"


def write_parquet(path: Path | BinaryIO, rows: Sequence[Row]) -> None:
    """Points as rows of ``POINT_COLUMNS``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    points = [{**row_of(decode_point(row["payload"]), day=row["day"]), "payload": row["payload"]} for row in rows]
    table = pa.Table.from_pylist(points, schema=arrow_schema(POINT_COLUMNS))
    pq.write_table(table, path, compression="zstd")


def chat_rows(pool: BenchmarkPool, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Points in TRL's conversational form."""
    source = load_source(pool.settings)
    tasks: Mapping[str, BenchmarkTask] = {}
    for row in rows:
        point = decode_example(row["payload"])
        if not tasks and (point.task.source or "").startswith(f"{source.name}:"):
            tasks = {task.id: task for task in source.tasks()}
        yield chat_row(point, phase=row["phase"], task=tasks.get(point.task.source or ""))


def chat_row(point: Example, *, phase: str, task: BenchmarkTask | None = None) -> dict[str, Any]:
    """A point in TRL's conversational form: prompt, completion and tools; for the RL phases what it is worth, too.

    ``tools`` is null where the conversation calls none, or calls some whose schemas no benchmark publishes: logs do not
    hold them. ``task`` is the point's benchmark task.
    """
    conversation = parted(point.execution.messages)
    calls = any(message.tool_calls for message in conversation.answer)
    row: dict[str, Any] = {
        "prompt": [chat_message(message) for message in conversation.prompt],
        "completion": [chat_message(message) for message in conversation.answer],
        "tools": [chat_tool(tool) for tool in task.tools] if calls and task else None,
        "point": point.id,
        "task": point.task.source or point.task.id,
        "task_type": point.task.type,
        "complexity": point.task.complexity,
    }
    if phase == "sft":
        return row
    labels = point.rl_labels
    return {
        **row,
        "agent": point.routing.selected_agent_id,
        "outcome": labels.final_outcome,
        "success": point.execution.success,
        "reward": labels.total_reward,
        "overall_score": point.evaluation.overall_score,
        "turn_rewards": [turn.turn_reward for turn in labels.turns],
        "turn_credits": turn_credits(labels.total_reward, [turn.information_gain for turn in labels.turns]),
    }


def card(batch: Batch, names: Mapping[SplitName, str], form: Format) -> str:
    """The dataset card: where each split is, and the types of columns that cannot be told from the first rows."""
    files = [
        line for split, name in names.items() for line in (f"  - split: {CARD_SPLITS[split]}", f"    path: {name}")
    ]
    lines = ["---", "configs:", "- config_name: default", "  data_files:", *files]
    if form == "trl":
        lines += ["dataset_info:", "  features:", *features(sft=batch.criteria["phase"] == "sft")]
    title = f"Export {batch.id}: {batch.size:,} anonymized points for {batch.criteria['phase']}"
    told = f"Digest {batch.digest}. See `manifest.json`."
    if noise := batch.criteria.get("noise"):
        told = f"Rewards have {noise['mechanism']} noise, ε = {noise['epsilon']:g}, δ = {noise['delta']:g}. {told}"
    return "\n".join([*lines, "---", "", f"# {title}", "", told, ""])


def features(*, sft: bool) -> Iterator[str]:
    """The card's lines for the columns of ``chat_row``."""
    labels = {"agent", "outcome", "reward", "overall_score", "success"}
    for kind, names in TYPES.items():
        for name in names:
            if not (sft and name in labels):
                yield f"  - name: {name}"
                yield "    list: json" if kind == "json" else f"    dtype: {kind}"
    if not sft:
        for name in ("turn_rewards", "turn_credits"):
            yield f"  - name: {name}"
            yield "    list: float64"


def manifest(batch: Batch, by_split: Mapping[SplitName, Sequence[Row]], files: Mapping[str, Path], form: Format) -> str:
    """The export's description, every point's id and every file's digest, as JSON."""
    description = msgspec.to_builtins(batch)
    for field in ("released_at", "released_because"):
        del description[field]
    return json.dumps(
        {
            **description,
            "format": form,
            "anonymized": True,
            "noise": batch.criteria.get("noise"),
            "files": {
                name: {"sha256": digest_of_file(path), "bytes": path.stat().st_size} for name, path in files.items()
            },
            "point_ids": {split: [row["id"] for row in rows] for split, rows in by_split.items()},
        },
        indent=1,
        ensure_ascii=False,
    )


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
