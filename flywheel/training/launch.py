"""The command and the environment of a training process. Imports nothing heavy: Dagster's step imports it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from flywheel.settings import TrainerSettings
from flywheel.training.job import EvaluationJob, Job

MODULES = {
    "sft": "flywheel.training.sft",
    "grpo": "flywheel.training.grpo",
    "evaluation": "flywheel.training.evaluation",
}
# glibc returns the large buffers of every step to the kernel and faults them in again in the next one: keep them.
# Measured: 4.8 s → 3.2 s a step. Must be set before Python starts.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(8 * 2**30),
    "MALLOC_TRIM_THRESHOLD_": str(8 * 2**30),
    "MALLOC_TOP_PAD_": str(256 * 2**20),
}

# A thread that waits for another one spins for about 20 µs, then sleeps. Longer, and threads that share a core with
# the services halve each other's speed; not at all, and each of thousands of operations waits for two threads to wake.
# Measured for SFT: passive alone 2.3–2.5 s a step, with 5,000 spins 2.0–2.1 s; 20,000 are no better.
WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "5000"}


def launch_command(job: Job, job_file: Path) -> list[str]:
    """``accelerate launch`` for SFT and GRPO with the trainer's settings; plain Python for evaluation.

    Several processes on processors need accelerate's distributed launcher, whose flag says GPU; ``environment`` tells
    it to stay on the processor. ``--cpu`` with several processes starts one, silently, unless there is MPI.
    """
    module = MODULES[job.stage]
    if job.stage == "evaluation":
        return [sys.executable, "-m", module, str(job_file)]
    processes = job.trainer.processes
    return [
        *(sys.executable, "-m", "accelerate.commands.launch"),
        *(("--multi_gpu",) if processes > 1 else ()),
        *(("--cpu",) if processes == 1 and on_cpu(job.trainer) else ()),
        *("--num_processes", str(processes), "--num_machines", "1"),
        *("--dynamo_backend", "no", "--mixed_precision", "no"),
        *("--main_process_port", "0"),
        *job.trainer.launch_arguments,
        *("-m", module, str(job_file)),
    ]


def environment(job: Job) -> dict[str, str]:
    """Variables to start the process with, on top of the present ones."""
    processes = job.recipe.processes if isinstance(job, EvaluationJob) else job.trainer.processes
    variables = {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if on_cpu(job.trainer):
        threads = job.trainer.threads or max(1, (os.cpu_count() or 1) // processes)
        variables |= ALLOCATOR | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": str(threads)}
        variables |= WAITING | {"CUDA_VISIBLE_DEVICES": ""}
    return variables | imported_from(os.environ)


def imported_from(variables: Mapping[str, str]) -> dict[str, str]:
    """``PYTHONPATH`` with this package's root first, so that the process imports the same code from any folder."""
    root = str(Path(__file__).parents[2])
    rest = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part and part != root]
    return {"PYTHONPATH": os.pathsep.join([root, *rest])}


def on_cpu(trainer: TrainerSettings) -> bool:
    """Whether training will run on the processor, found without importing torch."""
    return trainer.device == "cpu" or (trainer.device == "auto" and not Path("/proc/driver/nvidia/version").exists())
