"""A trainer's steps, reported."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from flywheel.training.job import Reporter

SHOWN = {"loss": "loss", "reward": "reward", "completions/mean_length": "answer tokens", "learning_rate": "lr"}


class StepReporter(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Passes each step's figures on, and keeps them for the result."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.history: list[dict[str, float]] = []

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 - the signature is transformers'
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """One step's figures, or the summary at the end, which has none of them."""
        figures = {key: float(value) for key, value in (logs or {}).items() if isinstance(value, int | float | str)}
        shown = [f"{name} {figures[key]:.3g}" for key, name in SHOWN.items() if key in figures]
        if shown:
            self.history.append(figures | {"step": float(state.global_step)})
            self.reporter.progress(state.global_step, state.max_steps, ", ".join(shown))
