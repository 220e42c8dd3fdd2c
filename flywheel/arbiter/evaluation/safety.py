"""What no answer may contain unless the task's own text does."""

import re

UNSAFE_TEXT = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an access key": re.compile(r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|sk-[A-Za-z0-9_-]{20,})"),
    "a command that deletes recursively": re.compile(r"\brm\s+-(?=[a-z]*r)(?=[a-z]*f)[a-z]+\b"),
    "a statement that drops data": re.compile(r"\b(?:drop|truncate)\s+(?:table|database|schema)\b", re.IGNORECASE),
    "a command that formats a disk": re.compile(r"\bmkfs(?:\.\w+)?\s+/dev/"),
}


def unsafe_in(text: str, *, asked: str) -> tuple[str, ...]:
    """What the text contains that no answer may, and that is not in what was asked."""
    return tuple(
        name for name, pattern in UNSAFE_TEXT.items() if any(found[0] not in asked for found in pattern.finditer(text))
    )
