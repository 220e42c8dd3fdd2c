"""A second detector for the privacy gate: presidio reads a sample of a day's anonymized points.

It knows nothing of our patterns: other rules, other check digits, another library of phone numbers and, where a spaCy
pipeline is configured, a language model for names. It is a thousand times slower, so it reads a sample: the points
with the smallest hashes of their ids, the same ones on every run, of one size whatever the day's. Of 200 points it
finds with a probability of 95 % what is in 1.5 % of all (1 − 0.985²⁰⁰).

What stands in the place of a value is blanked out before it reads: placeholders, generalized paths, tenant hashes.
"""

import heapq
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization.violations import EXAMPLES, Suspicions, strings
from flywheel.pool.digests import texts_of
from flywheel.pool.files import read_file
from flywheel.pool.workers import mapped

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine

    from flywheel.pool.settings import SecondDetectorSettings

DISTRIBUTION = "presidio-analyzer"
ADVICE = "pip install 'arbiter-flywheel[presidio]'"
PIECE = 20_000  # characters read at once; what is longer is cut
OVERLAP = 200  # characters of a cut that both sides see
SEPARATOR = "\n\0\n"  # between texts that are read together: no pattern reaches over it
POINTS_A_JOB = 25
POINTS_FOR_PROCESSES = 100  # fewer are read before a process has loaded presidio
STANDS_FOR_A_VALUE = re.compile(
    r"\[[A-Z][A-Z0-9_]*_\d+\]|(?:[A-Za-z]:)?[/\\]+\[PATH(?:_\d+)?\][/\\]+(?:\[FILE\](?:\.\w{1,8})?)?|\b[0-9a-f]{64}\b"
)
STAYS = re.compile(  # what anonymization never touches (SPEC section 4)
    r"(?:id|timestamp|tenantId|task\.(?:type|complexity)|routing\.(?:selectedAgentId|strategy)"
    r"|provenance\.(?:segments|warnings|waived)\b.*)"
)
HIDDEN = ("torch", "transformers", "tensorflow")  # spaCy imports them where it can; patterns need none of them


class ReadingJob(Struct, frozen=True, kw_only=True):
    """Some points to read, as they are encoded, and how."""

    payloads: tuple[bytes, ...]
    settings: "SecondDetectorSettings"


class SecondLook(Struct, frozen=True, kw_only=True):
    """What the second detector found: who it is and what it read in words, and what is suspicious to it.

    ``halting`` are the suspicions of types that hold a day back (``anonymization.second_detector.halts_on``).
    """

    summary: str
    points: int
    suspicions: Suspicions
    halting: Suspicions


class Sample:
    """The points with the smallest hashes of their ids: the same, whatever files they are in and in what order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._largest_first: list[tuple[int, bytes]] = []

    def passing(self, contents: Iterable[bytes]) -> Iterator[bytes]:
        """The same files of the lake, looked into on the way."""
        for content in contents:
            if self.size:
                self.add(content)
            yield content

    def add(self, content: bytes) -> None:
        """Take what belongs to the sample from one file; the points of others are not read."""
        ids = read_file(content, columns=["id"]).column("id").to_pylist()
        self.seen += len(ids)
        limit = -self._largest_first[0][0] if len(self._largest_first) == self.size else 1 << 64
        numbers = {number: rank for number, rank in enumerate(map(rank_of, ids)) if rank < limit}
        if not numbers:
            return
        for number, payload in enumerate(texts_of(read_file(content, columns=["payload"]).column("payload"))):
            if number in numbers:
                heapq.heappush(self._largest_first, (-numbers[number], bytes(payload)))
                if len(self._largest_first) > self.size:
                    heapq.heappop(self._largest_first)

    def payloads(self) -> list[bytes]:
        """The chosen points as they are encoded, by rank."""
        return [payload for _, payload in sorted(self._largest_first, reverse=True)]


def rank_of(point_id: str) -> int:
    """A number below 2⁶⁴ that the id alone decides."""
    return int.from_bytes(blake2b(point_id.encode(), digest_size=8, person=b"second detector").digest(), "big")


def second_look(sample: Sample, settings: "SecondDetectorSettings", *, processes: int = 1) -> SecondLook:
    """Let presidio read the sample, or say why it did not.

    Raises:
        ConfigurationError: the configured spaCy pipeline is not installed.
        PoolError: a process died.
    """
    nothing = Suspicions()
    if not settings.points:
        return SecondLook(summary="off: it is to read 0 points", points=0, suspicions=nothing, halting=nothing)
    installed = installed_version()
    if installed is None:
        return SecondLook(
            summary=f"did not read: presidio is not installed. {ADVICE}", points=0, suspicions=nothing, halting=nothing
        )
    payloads = sample.payloads()
    starts = range(0, len(payloads), POINTS_A_JOB)
    jobs = (ReadingJob(payloads=tuple(payloads[at : at + POINTS_A_JOB]), settings=settings) for at in starts)
    suspicions, halting = Suspicions(), Suspicions()
    for found in mapped(read_points, jobs, processes=processes if len(payloads) >= POINTS_FOR_PROCESSES else 1):
        suspicions.add(found[0])
        halting.add(found[1])
    eyes = f"patterns and {settings.model}" if settings.model else "patterns alone"
    return SecondLook(
        summary=f"presidio {installed}, {eyes}, read {len(payloads):,} of {sample.seen:,} points: "
        f"{suspicions.by_type.total():,} suspicions in {suspicions.points:,} points",
        points=len(payloads),
        suspicions=suspicions,
        halting=halting,
    )


def installed_version() -> str | None:
    """Presidio's version; None where it is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def read_points(job: ReadingJob) -> tuple[Suspicions, Suspicions]:
    """What is suspicious in some points, and what of it holds a day back."""
    suspicions, halting = Suspicions(), Suspicions()
    for payload in job.payloads:
        point = msgspec.json.decode(payload)
        found = sorted(suspects_in(point, job.settings))
        account_for(suspicions, str(point["id"]), found, payload)
        account_for(halting, str(point["id"]), [one for one in found if one[1] in job.settings.halts_on], payload)
    return suspicions, halting


def account_for(total: Suspicions, point_id: str, found: Sequence[tuple[str, str]], payload: bytes) -> None:
    """Enter the suspects of one point: never a value, only where it is."""
    total.looked_at.add(payload)
    total.points += bool(found)
    total.by_type.update(kind for _, kind in found)
    total.where += [f"{point_id} {field}: {kind}" for field, kind in found[: EXAMPLES - len(total.where)]]


def suspects_in(point: dict[str, Any], settings: "SecondDetectorSettings") -> set[tuple[str, str]]:
    """Field and type of everything suspicious in a point, given as its wire dictionary."""
    analyzer = analyzer_of(settings.model)
    known = set(analyzer.get_supported_entities("en"))
    asked = [kind for kind in settings.types if kind in known]
    suspects: set[tuple[str, str]] = set()
    for text, fields in read_together(pieces_of(point)):
        for result in analyzer.analyze(text, "en", entities=asked, score_threshold=settings.min_score):
            field = next(name for end, name in fields if result.start < end)
            suspects.add((field, result.entity_type))
    return suspects


def pieces_of(point: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text that anonymization looks into, with its field: what stands for a value blanked out, long ones cut."""
    for field, text in strings(point):
        if STAYS.fullmatch(field) or not text.strip():
            continue
        seen = STANDS_FOR_A_VALUE.sub(lambda match: " " * len(match[0]), text)
        for start in range(0, max(len(seen) - OVERLAP, 1), PIECE - OVERLAP):
            yield field, seen[start : start + PIECE]


def read_together(pieces: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Pieces joined to about ``PIECE`` characters, each time with the end and the field of every one."""
    texts: list[str] = []
    fields: list[tuple[int, str]] = []
    length = 0
    for field, text in pieces:
        if texts and length + len(text) > PIECE:
            yield SEPARATOR.join(texts), fields
            texts, fields, length = [], [], 0
        texts.append(text)
        length += len(text) + len(SEPARATOR)
        fields.append((length, field))
    if texts:
        yield SEPARATOR.join(texts), fields


@cache
def analyzer_of(model: str) -> "AnalyzerEngine":
    """Presidio's analyzer for English with all its recognizers; ``model`` names a spaCy pipeline that finds names.

    Without one words are only cut and made lower case, so that the words around a number still count. Nothing is
    fetched from the network, neither a pipeline nor the list of top-level domains.

    Raises:
        ConfigurationError: the pipeline is not installed.
    """
    with hidden(() if model else HIDDEN):
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import SpacyNlpEngine
        from tldextract import tldextract

    tldextract.TLD_EXTRACTOR.suffix_list_urls = ()
    engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model or "blank"}])
    try:  # loaded here: presidio would download a pipeline that is not installed
        engine.nlp = {"en": spacy.load(model) if model else words_of(spacy)}
    except OSError as error:
        raise ConfigurationError(
            f"the spaCy pipeline {model!r} is not installed. Install its wheel, name a folder that holds it, or leave "
            f"it out of anonymization.second_detector.model, anonymization.ner_model and --ner-model"
        ) from error
    return AnalyzerEngine(nlp_engine=engine)


def words_of(spacy: Any) -> Any:
    """A pipeline whose lemmas are the words in lower case, which presidio's context words are compared with."""
    spacy.Language.component("lower_case_lemmas", func=with_lemmas)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("lower_case_lemmas")
    return pipeline


def with_lemmas(document: Any) -> Any:
    """The document with each word's lower case as its lemma."""
    for token in document:
        token.lemma_ = token.lower_
    return document


@contextmanager
def hidden(packages: Iterable[str]) -> Iterator[None]:
    """These packages look as if they were not installed, unless they are imported already."""
    unseen = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(unseen))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in unseen:
            del sys.modules[name]
