"""Real labelled texts beside the checkout, without the half that detectors may be tuned on."""

from pathlib import Path

import msgspec
import pytest

from flywheel.pool.anonymization.evaluation import for_tuning
from flywheel.pool.anonymization.labels import Labels, read_labels
from flywheel.pool.anonymization.scanning import opened

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "pii"
TAU = "tau-messages/messages.jsonl.gz"
PRESIDIO_RESEARCH = "presidio-research/synth_dataset_v2.json.gz"


def held_back(name: str) -> Labels:
    """The labelled texts of a file that nobody may tune on; the test is skipped where the file is not there."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there: the labelled texts are not part of the project")
    with opened(str(path)) as lines:
        labels = read_labels(lines, name=path.name)
    return msgspec.structs.replace(labels, texts=tuple(text for text in labels.texts if not for_tuning(text.key)))
