"""Checks of what stands behind an introduction, a greeting or a title: which of it can be a name."""

import re

from flywheel.pool.anonymization.checks import Check, Place

NAME_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def introduced(introductions: str) -> Check:
    """The first words behind an introduction that can be a name: ``my name is Mei Lee``, not ``this is important``."""
    opening = re.compile(rf"(?:{introductions})(?:\b|(?<=[^\x00-\x7f]))", re.IGNORECASE)

    def check(text: str, start: int, end: int) -> Place | None:
        from flywheel.pool.anonymization.names import is_name

        introduction = opening.match(text, start, end)
        words = [match.span() for match in NAME_WORD.finditer(text, introduction.end() if introduction else start, end)]
        for last in range(len(words), 0, -1):
            begin, close = words[0][0], words[last - 1][1]
            if is_name(text[begin:close]) and not (text[close : close + 1] and text[close : close + 1] in "(=_/\\@"):
                return begin, close
        return None

    return check


def signed(text: str, start: int, end: int) -> Place | None:
    """The last line of the match, where all of it is a name and the line ends there."""
    from flywheel.pool.anonymization.names import is_name

    begin = text.rfind("\n", start, end) + 1
    name = text[begin:end].rstrip("'’-")
    return (begin, begin + len(name)) if text[end : end + 1] in {"", "\r", "\n"} and is_name(name) else None


def titled(titles: str) -> Check:
    """What stands behind a title, or several, and is none itself: the match begins with them."""
    before = re.compile(rf"(?:(?:{titles})\.? )+(?!(?:{titles})(?![\w'’-]))")

    def check(text: str, start: int, end: int) -> Place | None:
        opening = before.match(text, start, end)
        return (opening.end(), end) if opening else None

    return check


def account_name(text: str, start: int, end: int) -> Place | None:
    """A user's name made of a person's: ``ann_lee_42``, not ``test_run_001``."""
    from flywheel.pool.anonymization.names import names_known

    words = text[start:end].split("_")[:-1]
    return (start, end) if any(word.capitalize() in names_known() for word in words) else None
