"""How training processes are started."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flywheel.errors import TrainingError
from flywheel.settings import Settings, TrainerSettings
from flywheel.training.job import EvaluatedModel, EvaluationJob, SftJob, read_result
from flywheel.training.launch import environment, launch_command


def sft_job(folder: Path, **trainer: object) -> SftJob:
    settings = Settings.load(profile="smoke")
    return SftJob(
        output_dir=folder,
        model_dir=folder,
        batch_dir=folder,
        tasks=settings.tasks,
        model=settings.model,
        trainer=TrainerSettings.model_validate({"device": "cpu", **trainer}),
        recipe=settings.sft,
    )


def test_two_processes_are_really_two(tmp_path: Path) -> None:
    """``accelerate launch --cpu --num_processes 2`` starts one process and says nothing: this runs the command."""
    job = sft_job(tmp_path, processes=2)
    command = launch_command(job, tmp_path / "job.json")
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1]).with_name('rank' + os.environ['RANK']).write_text(os.environ['OMP_NUM_THREADS'])\n"
    )
    command[command.index("-m", 3) : command.index("-m", 3) + 2] = [str(script)]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", **environment(job)}, capture_output=True)
    assert sorted(file.name for file in tmp_path.glob("rank?")) == ["rank0", "rank1"]


def test_evaluation_is_one_plain_process(tmp_path: Path) -> None:
    settings = Settings.load(profile="smoke")
    job = EvaluationJob(
        output_dir=tmp_path,
        models=(EvaluatedModel(label="base", model_dir=tmp_path),),
        tasks=settings.tasks,
        model=settings.model,
        trainer=settings.trainer,
        recipe=settings.evaluation,
    )
    assert launch_command(job, tmp_path / "job.json") == [
        sys.executable,
        "-m",
        "flywheel.training.evaluation",
        str(tmp_path / "job.json"),
    ]


def test_launch_arguments_reach_accelerate(tmp_path: Path) -> None:
    command = launch_command(sft_job(tmp_path, launch_arguments=("--use_fsdp",)), tmp_path / "job.json")
    assert command.index("--use_fsdp") < command.index("flywheel.training.sft")


def test_a_gpu_node_gets_no_processor_settings(tmp_path: Path) -> None:
    variables = environment(sft_job(tmp_path, device="gpu"))
    assert "OMP_NUM_THREADS" not in variables
    assert "MALLOC_TOP_PAD_" not in variables
    assert "CUDA_VISIBLE_DEVICES" not in variables


def test_a_processor_is_all_that_a_process_for_processors_sees(tmp_path: Path) -> None:
    assert environment(sft_job(tmp_path, device="cpu"))["CUDA_VISIBLE_DEVICES"] == ""


def test_a_job_comes_back_from_its_file(tmp_path: Path) -> None:
    job = sft_job(tmp_path)
    assert SftJob.read(job.write(tmp_path / "deep" / "job.json")) == job


def test_a_misspelled_field_is_named(tmp_path: Path) -> None:
    path = sft_job(tmp_path).write(tmp_path / "job.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"modle_dir": "x"}))
    with pytest.raises(TrainingError, match="modle_dir"):
        SftJob.read(path)


def test_a_job_without_a_result_did_not_finish(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="left no result"):
        read_result(tmp_path)


def test_starting_training_imports_neither_torch_nor_trl() -> None:
    code = "import sys, flywheel.training.launch, flywheel.training.pretrained, flywheel.training.verdict\n"
    code += "print([m for m in ('torch', 'trl', 'transformers', 'datasets') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
