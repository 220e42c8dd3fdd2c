"""A language model finds persons beside the rules, and who cannot have one is told before the day begins."""

from datetime import date
from pathlib import Path

import pytest

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization import second_detector
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.detection import Detection, detection_in
from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.second_detector import OVERLAP, PIECE
from flywheel.pool.anonymization.spans import find_each, find_spans
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.settings import AnonymizationSettings
from flywheel.settings import Settings

pytest.importorskip("presidio_analyzer", reason="presidio is not installed; pip install 'arbiter-flywheel[presidio]'")

UNHEARD_OF = "Zqoro Vxilla"  # no list of names has it


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A spaCy pipeline that knows one person and one place."""
    import spacy

    pipeline = spacy.blank("en")
    over_a_border = [{"TEXT": token} for token in ("Zq", "\n", "\0", "\n", "Vx")]
    known = [("PERSON", UNHEARD_OF), ("GPE", "Xanqua"), ("PERSON", over_a_border)]
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": label, "pattern": what} for label, what in known])
    pipeline.to_disk(tmp_path / "names")
    return str(tmp_path / "names")


def test_its_persons_are_replaced_and_its_places_are_not(model: str) -> None:
    text = f"{UNHEARD_OF} of Xanqua, ann@example.org"
    assert Anonymizer().text(text) == f"{UNHEARD_OF} of Xanqua, [EMAIL_ADDRESS_1]"
    detection = detection_in(AnonymizationSettings(ner_model=model))
    assert Anonymizer(detection=detection).text(text) == "[PERSON_1] of Xanqua, [EMAIL_ADDRESS_1]"
    assert model in find_spans(UNHEARD_OF, detection=detection)[0].reason


def test_each_text_of_a_record_is_read_to_its_end_and_none_as_one_with_the_next(model: str) -> None:
    detection = Detection(ner_model=model)
    texts = [f"{'a ' * (PIECE - OVERLAP)}{UNHEARD_OF}", "Zq", "Vx", f'{{"a": "\\"{UNHEARD_OF}\\""}}', ""]
    found = find_each(texts, detection=detection)
    assert [[texts[number][s.start : s.end] for s in spans] for number, spans in enumerate(found)] == [
        [UNHEARD_OF], ["Zq"], ["Vx"], [UNHEARD_OF], [],
    ]  # fmt: skip


def test_the_edge_does_not_wait_for_it(model: str) -> None:
    assert not remove_identifiers({"text": UNHEARD_OF}, detection=Detection(ner_model=model))


def test_one_that_is_not_installed_or_finds_no_persons_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigurationError, match="finds no persons: its parts are none"):
        detection_in(AnonymizationSettings(ner_model=str(tmp_path / "blank")))
    with pytest.raises(ConfigurationError, match="'en_nobody_has_this' is not installed"):
        detection_in(AnonymizationSettings(), ner_model="en_nobody_has_this")
    monkeypatch.setattr(second_detector, "DISTRIBUTION", "presidio-analyzer-that-nobody-installed")
    with pytest.raises(ConfigurationError, match="presidio is not installed: pip install"):
        detection_in(AnonymizationSettings(ner_model="en_nobody_has_this"))


def test_a_day_does_not_begin_without_it(settings: Settings) -> None:
    missing = AnonymizationSettings(ner_model="en_nobody_has_this")
    with (
        BenchmarkPool.open(settings.model_copy(update={"anonymization": missing})) as pool,
        pytest.raises(ConfigurationError, match="'en_nobody_has_this' is not installed"),
    ):
        anonymize_day(pool, date(2026, 3, 2))
