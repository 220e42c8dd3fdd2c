"""Whether a text has none of the banned phrases, all of the facts, and the length that was asked for."""

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

SHORTEST, LONGEST = 0.5, 1.5
LEAST_OWN = 0.15
"""Share of a text's words that are of no fact; of the known solutions the least is 0.21."""
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_WORD = re.compile(r"\w+")
_FENCE = re.compile(r"\A\s*```[^\n]*\n(?P<text>.*?)\n?```\s*\Z", re.DOTALL)


class TextCheck(Struct, frozen=True, kw_only=True):
    """What is wrong with a text; nothing is where all three are empty.

    Attributes:
        banned: phrases that are in it and must not be.
        missing: facts that are not in it and must be.
        length: what is wrong with its length, or that it only lists the facts, in words; None where nothing is.
        share: of the work that is done, 0–1: phrases gone × facts kept, half of it where the length is wrong.
    """

    banned: tuple[str, ...]
    missing: tuple[str, ...]
    length: str | None
    share: float

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a sentence each."""
        banned = (f'The phrase "{phrase}" is still in the text.' for phrase in self.banned)
        missing = (f'The fact "{fact}" is missing.' for fact in self.missing)
        return (*banned, *missing, *((self.length,) if self.length else ()))


def check_text(text: str, *, banned: Sequence[str], facts: Sequence[str], source_words: int) -> TextCheck:
    """Check a text. Phrases are compared word by word: case, punctuation and characters nobody sees make no difference.

    Args:
        text: as the agent wrote it.
        banned: phrases that must not be in it.
        facts: phrases that must.
        source_words: length of the text that was to be rewritten; it may become half as long or half as long again.
    """
    words = words_of(text)
    found = tuple(phrase for phrase in banned if contains(words, words_of(phrase)))
    missing = tuple(fact for fact in facts if not contains(words, words_of(fact)))
    length = _length_problem(len(words), source_words) or _list_problem(words, facts)
    share = (1 - len(found) / len(banned)) * (1 - len(missing) / len(facts))
    return TextCheck(banned=found, missing=missing, length=length, share=share / 2 if length else share)


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold())


def contains(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the phrase is in the text as consecutive words."""
    width = len(phrase)
    return any(words[start : start + width] == phrase for start in range(len(words) - width + 1))


def unfenced(answer: str) -> tuple[str, bool]:
    """The text of an answer, and whether it stood in a code block that nobody asked for."""
    fenced = _FENCE.match(answer)
    return (fenced["text"], True) if fenced else (answer.strip(), False)


def _length_problem(words: int, source_words: int) -> str | None:
    shortest, longest = int(source_words * SHORTEST), int(source_words * LONGEST)
    if shortest <= words <= longest:
        return None
    return f"The text has {words} words; it must have {shortest} to {longest}."


def _list_problem(words: Sequence[str], facts: Sequence[str]) -> str | None:
    of_facts = {word for fact in facts for word in words_of(fact)}
    own = sum(word not in of_facts for word in words)
    if own >= LEAST_OWN * len(words):
        return None
    return "The text is a list of the facts; it must say what they are about."
