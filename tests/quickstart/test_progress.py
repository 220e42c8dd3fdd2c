import json
import os
from pathlib import Path

from flywheel.quickstart.progress import newest_progress


def write(path: Path, *, done: int, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"stage": path.parent.name, "done": done, "total": 9, "message": "loss 0.1"}))
    os.utime(path, (at, at))


def test_the_job_that_wrote_last_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "sft" / "progress.json", done=9, at=100)
    write(tmp_path / "grpo" / "progress.json", done=2, at=200)
    found = newest_progress(tmp_path)
    assert found is not None
    assert (found.stage, found.done, found.total, found.message) == ("grpo", 2, 9, "loss 0.1")


def test_the_end_of_an_earlier_step_is_not_the_progress_of_this_one(tmp_path: Path) -> None:
    write(tmp_path / "sft" / "progress.json", done=9, at=100)
    assert newest_progress(tmp_path, since=150) is None
    assert newest_progress(tmp_path / "no batch") is None
