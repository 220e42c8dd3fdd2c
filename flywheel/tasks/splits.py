"""Which split a task belongs to: a pure function of a name, the same on every machine and in every run."""

import hashlib

from flywheel.tasks.source import Split


def split_of(function_name: str, *, heldout_fraction: float, validation_fraction: float) -> Split:
    """The split of all tasks whose answer calls this function.

    Splitting by the answer's function, not by task, is what makes the held-out figures honest: no function tested
    there was ever the target of a training example. It may still appear elsewhere as a tool that does not fit.

    Args:
        function_name: name of the function that the answer calls, or whatever else must stay on one side.
        heldout_fraction: share of names held out, 0–1.
        validation_fraction: share of names for validation, 0–1; the rest is for training.
    """
    position = int.from_bytes(hashlib.sha1(function_name.encode(), usedforsecurity=False).digest()[:8]) / 2**64
    if position < heldout_fraction:
        return Split.HELDOUT
    if position < heldout_fraction + validation_fraction:
        return Split.VALIDATION
    return Split.TRAIN
