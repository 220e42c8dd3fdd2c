"""What TRL needs on processors, found by measuring.

On GPUs TRL compacts hidden states to the positions that have labels before it applies the language model head. It
decides so by asking whether Triton runs; on processors it then scores every position, prompt included, against the
whole vocabulary. The compact path is plain torch, so we answer yes. Measured for SmolLM2-135M: 8.2 s → 5.2 s a step.
"""

import os

from trl.trainer import utils as trl_utils

from flywheel.settings import TrainerSettings

PRIVATE_NAME = "_use_triton"


def score_labels_only() -> None:
    """Make TRL's loss apply the head where labels are. The name is private: TRL is pinned and a test looks for it."""
    setattr(trl_utils, PRIVATE_NAME, lambda _: True)


def use_cpu(trainer: TrainerSettings) -> bool:
    """Whether to train on the processor."""
    import torch

    return trainer.device == "cpu" or (trainer.device == "auto" and not torch.cuda.is_available())


def tracker() -> str:
    """Where TRL reports metrics per step: to the MLflow run that whoever started us made, or nowhere."""
    return "mlflow" if {"MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI"} <= os.environ.keys() else "none"
