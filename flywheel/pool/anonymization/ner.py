"""A language model as a second pass: persons that presidio finds with a spaCy pipeline, beside what rules find.

Slow, and mistaken more often than rules are: asked only where ``anonymization.ner_model`` names a pipeline.
"""

import re
from collections.abc import Iterator
from typing import Any

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.second_detector import (
    ADVICE,
    OVERLAP,
    PIECE,
    STANDS_FOR_A_VALUE,
    analyzer_of,
    installed_version,
)

PERSONS = {"PERSON", "PER"}  # as spaCy's pipelines call them
WITHIN_A_TEXT = re.compile(r"[^\s\0](?:[^\0]*[^\s\0])?")


def require_model(model: str) -> None:
    """Load the pipeline, so that whoever begins can end.

    Raises:
        ConfigurationError: presidio or the pipeline is not installed, or it finds no persons.
    """
    if installed_version() is None:
        raise ConfigurationError(
            f"the language model {model!r} is to find names (anonymization.ner_model, --ner-model), and presidio is "
            f"not installed: {ADVICE}, or leave the setting empty"
        )
    engine: Any = analyzer_of(model).nlp_engine
    labels = engine.nlp["en"].pipe_labels
    if PERSONS.isdisjoint(label for some in labels.values() for label in some):
        raise ConfigurationError(
            f"the spaCy pipeline {model!r} finds no persons: its parts are {', '.join(labels) or 'none'}. Name one "
            f"with entity recognition as anonymization.ner_model or --ner-model, or leave the setting empty"
        )


def find_persons(text: str, model: str) -> Iterator[Span]:
    """Persons in texts that are joined by NUL; what stands for a value already is none."""
    analyzer = analyzer_of(model)
    seen = STANDS_FOR_A_VALUE.sub(lambda match: " " * len(match[0]), text)
    for start in range(0, max(len(seen) - OVERLAP, 1), PIECE - OVERLAP):
        piece = seen[start : start + PIECE]
        for result in analyzer.analyze(piece, "en", entities=["PERSON"]) if piece.strip(" \n\0") else ():
            for match in WITHIN_A_TEXT.finditer(piece, result.start, result.end):
                yield Span(start + match.start(), start + match.end(), "PERSON", f"found by {model}")
