"""What other detectors find, as ``Mark`` in the platform's names of types. One that is not installed is left out."""

import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.evaluation import Mark
from flywheel.pool.anonymization.spans import find_spans

Find = Callable[[str], list[Mark]]
SURE = 0.5

SCRUBADUB_NAMES = {
    "credential": "SECRET",
    "credit_card": "CREDIT_CARD",
    "email": "EMAIL_ADDRESS",
    "phone": "PHONE_NUMBER",
    "postalcode": "ZIP_CODE",
    "social_security_number": "US_SSN",
    "twitter": "USER_NAME",
    "url": "URL",
}
PRESIDIO_NAMES = {
    "US_BANK_NUMBER": "BANK_ACCOUNT",
}
DATAFOG_NAMES = {
    "DATE": "DATE_OF_BIRTH",
    "DOB": "DATE_OF_BIRTH",
    "EMAIL": "EMAIL_ADDRESS",
    "PHONE": "PHONE_NUMBER",
    "SSN": "US_SSN",
    "ZIP": "ZIP_CODE",
}


class Detector(Struct, frozen=True, kw_only=True):
    """A detector under its name; ``slow`` ones read fewer records when speed is measured."""

    name: str
    find: Find
    slow: bool = False


class NotInstalled(Struct, frozen=True, kw_only=True):
    """A peer that is left out, and how to have it."""

    name: str
    reason: str


def detectors(models: tuple[str, ...]) -> Iterator[Detector | NotInstalled]:
    """Ours first, then the peers; ``models`` names spaCy pipelines for presidio."""
    warnings.filterwarnings("ignore")
    yield Detector(name="flywheel", find=ours)
    yield Detector(name="scrubadub", find=scrubadub(), slow=True) if find_spec("scrubadub") else missing("scrubadub")
    yield Detector(name="datafog", find=datafog()) if find_spec("datafog") else missing("datafog")
    if find_spec("presidio_analyzer"):
        yield Detector(name="presidio", find=presidio("", score=0.0), slow=True)
        yield Detector(name=f"presidio ≥ {SURE}", find=presidio("", score=SURE), slow=True)
    else:
        yield missing("presidio")
    for model in models:
        name = f"presidio + {model}"
        if find_spec("presidio_analyzer") and find_spec(model):
            yield Detector(name=name, find=presidio(model, score=0.0), slow=True)
        else:
            yield NotInstalled(name=name, reason=f"pip install {model.replace('_', '-')}")


def missing(name: str) -> NotInstalled:
    """A peer of the extra."""
    return NotInstalled(name=name, reason="pip install 'arbiter-flywheel[bench-pii]'")


def ours(text: str) -> list[Mark]:
    """The platform's own detectors."""
    return [Mark(span.start, span.end, span.type) for span in find_spans(text)]


def presidio(model: str, *, score: float) -> Find:
    """All of presidio's recognizers for English, without or with a spaCy pipeline."""
    from flywheel.pool.anonymization.second_detector import analyzer_of

    analyzer = analyzer_of(model)

    def find(text: str) -> list[Mark]:
        results = analyzer.analyze(text, "en", score_threshold=score)
        ranked = sorted(results, key=lambda one: (-one.score, one.start - one.end))
        return without_overlaps(
            [Mark(one.start, one.end, PRESIDIO_NAMES.get(one.entity_type, one.entity_type)) for one in ranked]
        )

    return find


def scrubadub() -> Find:
    """The detectors that scrubadub loads by itself: not those of names and dates, which need data or seconds a text."""
    import scrubadub as library

    scrubber = library.Scrubber(locale="en_US")

    def find(text: str) -> list[Mark]:
        filth = list(scrubber.iter_filth(text))
        return [Mark(one.beg, one.end, SCRUBADUB_NAMES.get(kind_of(one), kind_of(one).upper())) for one in filth]

    return find


def kind_of(filth: Any) -> str:
    """The type of what scrubadub found; of what it merged the first one's."""
    return str(filth.filths[0].type if hasattr(filth, "filths") else filth.type)


def datafog() -> Find:
    """Datafog's own engine of regular expressions."""
    os.environ["DATAFOG_NO_TELEMETRY"] = "1"
    from datafog.engine import scan

    def find(text: str) -> list[Mark]:
        found = scan(text, engine="regex").entities
        return [Mark(one.start, one.end, DATAFOG_NAMES.get(one.type, one.type)) for one in found]

    return find


def without_overlaps(ranked: list[Mark]) -> list[Mark]:
    """Of marks that overlap the first one, as an anonymizer would replace them."""
    kept: list[Mark] = []
    for mark in ranked:
        if all(mark.end <= other.start or other.end <= mark.start for other in kept):
            kept.append(mark)
    return sorted(kept)
