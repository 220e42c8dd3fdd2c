"""How well personal data is found: spans held against labels. Pure.

The rule of matching. Only characters that are no white space count.

- A label is *removed* when at least 80 % of its characters are covered by found spans of any type: whoever reads the
  anonymized text does not learn the value, whatever its placeholder is called. Recall is the share of labels removed.
- A label is *typed* when spans of its own type alone cover as much.
- A found span is *right* when at least half of its characters lie in labels whose type must go, or has the span's own
  name. Precision is the share of spans that are right: text that was not replaced in vain.
- *Exact*: one span and one label with the same start, end and type.

Intervals are Wilson's, 95 %. Labels are not independent (a name comes again in a conversation), so they are too narrow
where a set has few persons.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

from msgspec import Struct

from flywheel.training.intervals import Interval, wilson

COVERED = 0.8
RIGHT = 0.5
CONFIDENCE = 0.95
TOTAL = "all that must go"

NATIONAL_IDS = frozenset({
    "AU_TFN", "BR_CPF", "CA_SIN", "CN_RESIDENT_ID", "ES_NIE", "ES_NIF", "FI_PERSONAL_IDENTITY_CODE", "FR_NIR",
    "IN_AADHAAR", "IN_PAN", "IT_FISCAL_CODE", "KR_RRN", "NATIONAL_ID", "NL_BSN", "PL_PESEL", "SE_PERSONNUMMER",
    "UK_NHS", "UK_NINO", "US_ITIN", "US_SSN",
})  # fmt: skip
MUST_GO = NATIONAL_IDS | frozenset({
    "BANK_ACCOUNT", "CREDIT_CARD", "DATE_OF_BIRTH", "US_DRIVER_LICENSE", "EMAIL_ADDRESS", "FILE_PATH", "IBAN_CODE",
    "IP_ADDRESS", "MAC_ADDRESS", "PAYMENT_ID", "PERSON", "PHONE_NUMBER", "SECRET", "STREET_ADDRESS",
    "URL_CREDENTIALS", "USER_ID", "USER_NAME", "US_PASSPORT", "ZIP_CODE",
})  # fmt: skip
"""The types that anonymization replaces (SPEC section 4); labels of others are reported and do not enter the total."""


OF_LABELS = ("labels", "removed", "typed", "exact")
OF_FOUND = ("found", "right", "right_typed", "right_exact")


class Mark(Struct, frozen=True, order=True):
    """A labelled or found value: ``text[start:end]``, offsets in characters."""

    start: int
    end: int
    type: str


class LabelledText(Struct, frozen=True, kw_only=True):
    """A text with the values that somebody marked in it. ``key`` is its id, or the text where it has none."""

    key: str
    text: str
    marks: tuple[Mark, ...]


class Example(Struct, frozen=True, kw_only=True):
    """A label that must go and was missed, or a span found in vain, by the number of its text from 0."""

    number: int
    mark: Mark


class TypeScores(Struct, frozen=True, kw_only=True):
    """One type: counts, and the figures from them; None where there is nothing to count, or nothing to judge by."""

    type: str
    must_go: bool
    labels: int
    removed: int
    typed: int
    exact: int
    found: int
    right: int
    right_typed: int
    right_exact: int
    recall: Interval | None
    typed_recall: Interval | None
    precision: Interval | None
    f1: float | None
    exact_recall: Interval | None
    exact_precision: Interval | None
    exact_f1: float | None


class Evaluation(Struct, frozen=True, kw_only=True):
    """The scores of each type by name, of all that must go together, and examples of what went wrong."""

    texts: int
    characters: int
    replaced_characters: int
    types: tuple[TypeScores, ...]
    total: TypeScores
    missed: tuple[Example, ...]
    wrong: tuple[Example, ...]


def for_tuning(key: str) -> bool:
    """Whether detectors may be tuned on the labelled text of this key; figures are of the others (even SHA-256)."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()[-1] % 2 == 0


def evaluate(
    texts: Iterable[LabelledText],
    predictions: Iterable[Iterable[Mark]],
    *,
    complete: Collection[str] | None = None,
    examples: int = 20,
    own: frozenset[str] = frozenset(),
) -> Evaluation:
    """Hold what was found in each text against its labels.

    Args:
        texts: with their labels.
        predictions: what was found in each, in the same order.
        complete: types of which every occurrence is labelled; precision is judged by these alone. None: those that
            are labelled at all.
        examples: how many misses, and how many wrong spans, are kept of each type.
        own: a team's own types, which must go too.

    Raises:
        ValueError: there are fewer or more predictions than texts.
    """
    account = Account(examples, own=own)
    for text, found in zip(texts, predictions, strict=True):
        account.add(text, tuple(found))
    return account.evaluation(complete)


class Account:
    """The running account of texts, each looked at once."""

    def __init__(self, examples: int = 20, *, own: frozenset[str] = frozenset()) -> None:
        self.texts = self.characters = self.replaced = 0
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.missed: list[Example] = []
        self.wrong: list[Example] = []
        self._examples = examples
        self._must_go = MUST_GO | own

    def add(self, text: LabelledText, found: Sequence[Mark]) -> None:
        """Account for one text and what was found in it."""
        number = self.texts
        self.texts += 1
        self.characters += len(text.text)
        self.replaced += sum(covering(text.text, found))
        self._labels(number, text, found)
        self._found(number, text, found)

    def _labels(self, number: int, text: LabelledText, found: Sequence[Mark]) -> None:
        everything = covering(text.text, found)
        for label in text.marks:
            counts = self.counts[label.type]
            own = covering(text.text, [mark for mark in found if mark.type == label.type])
            removed = share(text.text, label, everything) >= COVERED
            counts["labels"] += 1
            counts["removed"] += removed
            counts["typed"] += share(text.text, label, own) >= COVERED
            counts["exact"] += label in found
            if not removed and label.type in self._must_go:
                self._keep(self.missed, Example(number=number, mark=label), counts["labels"] - counts["removed"])

    def _found(self, number: int, text: LabelledText, found: Sequence[Mark]) -> None:
        must_go = [label for label in text.marks if label.type in self._must_go]
        for mark in found:
            counts = self.counts[mark.type]
            own = [label for label in text.marks if label.type == mark.type]
            right = share(text.text, mark, covering(text.text, [*must_go, *own])) >= RIGHT
            counts["found"] += 1
            counts["right"] += right
            counts["right_typed"] += share(text.text, mark, covering(text.text, own)) >= RIGHT
            counts["right_exact"] += mark in own
            if not right:
                self._keep(self.wrong, Example(number=number, mark=mark), counts["found"] - counts["right"])

    def _keep(self, kept: list[Example], example: Example, nth: int) -> None:
        if nth <= self._examples:
            kept.append(example)

    def evaluation(self, complete: Collection[str] | None = None) -> Evaluation:
        """The figures of all that was added; ``complete`` as ``evaluate`` takes it."""
        labelled = {kind for kind, counts in self.counts.items() if counts["labels"]}
        judged = labelled if complete is None else set(complete)
        total: Counter[str] = Counter()
        for kind in self._must_go & self.counts.keys():
            names = [*OF_LABELS, *(OF_FOUND if kind in judged else ())]
            total.update({name: self.counts[kind][name] for name in names})
        return Evaluation(
            texts=self.texts,
            characters=self.characters,
            replaced_characters=self.replaced,
            types=tuple(
                scores(kind, counts, judged=kind in judged, must_go=kind in self._must_go)
                for kind, counts in sorted(self.counts.items())
            ),
            total=scores(TOTAL, total, judged=bool(judged & self._must_go), must_go=True),
            missed=tuple(self.missed),
            wrong=tuple(self.wrong),
        )


def scores(kind: str, counts: Counter[str], *, judged: bool, must_go: bool) -> TypeScores:
    """The figures from the counts of a type; without precision where it cannot be judged."""
    labels, found = counts["labels"], counts["found"] if judged else 0
    recall, exact_recall = proportion(counts["removed"], labels), proportion(counts["exact"], labels)
    precision, exact_precision = proportion(counts["right"], found), proportion(counts["right_exact"], found)
    return TypeScores(
        type=kind,
        must_go=must_go,
        **{name: counts[name] for name in (*OF_LABELS, *OF_FOUND)},
        recall=recall,
        typed_recall=proportion(counts["typed"], labels),
        precision=precision,
        f1=harmonic_mean(recall, precision),
        exact_recall=exact_recall,
        exact_precision=exact_precision,
        exact_f1=harmonic_mean(exact_recall, exact_precision),
    )


def proportion(hits: int, of: int) -> Interval | None:
    """The share with its interval; None of nothing."""
    return wilson(hits, of, confidence=CONFIDENCE) if of else None


def harmonic_mean(recall: Interval | None, precision: Interval | None) -> float | None:
    """F1; None where one of the two is not known."""
    if recall is None or precision is None:
        return None
    both = recall.value + precision.value
    return 2 * recall.value * precision.value / both if both else 0.0


def covering(text: str, marks: Iterable[Mark]) -> bytearray:
    """One byte a character of the text: 1 where a mark lies."""
    covered = bytearray(len(text))
    for mark in marks:
        covered[mark.start : mark.end] = b"\1" * (min(mark.end, len(text)) - mark.start)
    return covered


def share(text: str, mark: Mark, covered: bytearray) -> float:
    """How much of the mark is covered, of its characters that are no white space; 0 if it has none."""
    visible = [covered[place] for place in range(mark.start, mark.end) if not text[place].isspace()]
    return sum(visible) / len(visible) if visible else 0.0


def masked(value: str) -> str:
    """The shape of a value: ``Ann 4b`` is ``Xxx 9x``. It says what was missed without saying it again."""
    return "".join(shape_of(one) if one.isalnum() else one for one in value)


def shape_of(character: str) -> str:
    """9 for what is a number in any script, X for a capital, x for every other letter."""
    return "9" if character.isnumeric() else "X" if character.isupper() else "x"
