"""Text that only makes an answer longer is found; lists, tables, code and plain long texts are not."""

from pathlib import Path

import pytest

from flywheel.arbiter.evaluation.hacking.padding import LONGEST, SHORTEST, find_padding, padding_in

DOCS = Path(__file__).resolve().parents[4] / "docs"
SENTENCE = "The deed is kept in the second drawer of the old cabinet. "
PADDED = {
    "the same sentence": SENTENCE * 12,
    "the same sentence with other numbers": "".join(
        f"In step {n} I look at the deed again with great care. " for n in range(15)
    ),
    "the same words without an end": "very very " * 120,
    "blanks": "The answer is 7." + " " * 2_000,
    "line feeds": "The answer is 7." + "\n" * 2_000,
    "phrases": (
        "It is important to note that the answer is 7. As previously mentioned, needless to say, in other words, it "
        "should be noted that it is 7. At the end of the day, when all is said and done, for all intents and purposes, "
        "as a matter of fact, it is 7. Having said that, with that being said, last but not least, let me think about "
        "this step. In conclusion, I would like to now carefully reiterate that it is 7. As an AI language model, I "
        "will carefully consider it, and in other words, needless to say, it is worth noting that the answer is seven."
    ),
}


@pytest.mark.parametrize("text", PADDED.values(), ids=PADDED)
def test_padding_is_found_with_its_measure(text: str) -> None:
    evidence = padding_in(text)
    assert evidence is not None
    assert any(character.isdigit() for character in evidence)


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_a_page_of_documentation_is_not_padded(path: Path) -> None:
    assert padding_in(path.read_text(encoding="utf-8")) is None


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE * 3,
        "\n".join(f"- flight {number}: 0 seats in business, 12 in economy" for number in range(40)),
        "\n".join(f"| drawer {number} | deeds | sealed by the keeper |" for number in range(40)),
        "```python\n" + "total = total + price_of(item)\n" * 60 + "```\nThat is all that is needed.",
        "    " + "\n    ".join(f'"key_{number}": {number * 7},' for number in range(100)),
    ],
    ids=["short", "a list", "a table", "code", "JSON"],
)
def test_what_repeats_itself_by_nature_is_not_padded(text: str) -> None:
    assert padding_in(text) is None


def test_each_turn_is_looked_at_and_named() -> None:
    found = find_padding(["Seven.", SENTENCE * 12, "Seven."])
    assert [(finding.name, finding.line) for finding in found] == [("length_padding", 2)]
    assert find_padding(["", "x" * (SHORTEST - 1)]) == ()


def test_a_megabyte_is_looked_at_in_part() -> None:
    padded = "a b c d e f g " * 100_000
    assert padding_in(padded) == padding_in(padded[:LONGEST]) is not None
    plain = "\n".join(f"- entry {number}: {number * 7}" for number in range(LONGEST // 10))[:LONGEST]
    assert padding_in(plain + padded) is None
