"""Names in runs of words are those that reading word by word finds."""

import re
import time
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization.names import (
    COMMON,
    PARTICLES,
    RUN_ASCII,
    WORD,
    Word,
    find_names,
    kind_of,
    names_in,
    runs_in,
    words_known,
)

GAP = re.compile(rf" (?:(?:{'|'.join(PARTICLES)}) ){{0,2}}")
PIECES = (
    "Ann",
    "Lee",
    "ANNA",
    "Smith-Jones",
    "O'Brien",
    "Paris",
    "May",
    "The",
    "Xyzzy",
    "J",
    "J.",
    "Émile",
    "van",
    "de",
)
TEXTS = st.lists(
    st.sampled_from((*PIECES, " ", "  ", ".", ". ", ", ", "'s", "-", "(", "\n", "@", "/", "x")), max_size=25
).map("".join)


@given(st.text(st.sampled_from("ABz09 _@/\\$#.-'(=,\n"), max_size=40))
def test_runs_begin_where_the_pattern_alone_finds_them(text: str) -> None:
    assert [run.span() for run in runs_in(text)] == [run.span() for run in RUN_ASCII.finditer(text)]


def rows_word_by_word(text: str) -> Iterator[list[Word]]:
    """Words that are not common, with a space, an initial's dot or a particle between."""
    row: list[Word] = []
    for match in WORD.finditer(text):
        kind = kind_of(match[0], words_known())
        if row:
            last = row[-1]
            behind = last.end + (last.end - last.start == 1 and text[last.end : last.end + 1] == ".")
            if kind == COMMON or not GAP.fullmatch(text, behind, match.start()):
                yield row
                row = []
        if kind != COMMON:
            row.append(Word(match.start(), match.end(), kind))
    yield row


@given(TEXTS | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
@example("Ann. Lee J. Smith-Jones de la Paris, O'Brien's ANNA")
def test_names_are_those_in_rows_that_are_read_word_by_word(text: str) -> None:
    assert find_names(text) == [span for row in rows_word_by_word(text) for span in names_in(row)]


def test_a_very_long_run_of_words_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        find_names("Xyzzy J. de " * count + "x(")
        return time.process_time() - started

    small, large = min(seconds(25_000) for _ in range(3)), seconds(200_000)
    assert large < 8 * 4 * small + 0.2
