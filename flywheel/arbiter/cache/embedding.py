"""Texts as vectors, so that those which ask the same are near each other."""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Embedder = Callable[[str], Vector]
"""From a text to a vector of length 1, always of as many numbers. May be called from several threads."""

DIMENSIONS = 512
SIZES = (3, 4, 5)
LONGEST_TEXT = 20_000
"""Bytes of a text that count; of a longer one the first and the last half of as many."""
_SPACE = re.compile(r"""[\s.,;:!?'"()]+""")
_BASE = np.uint64(0x100000001B3)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def hashed_ngrams(text: str) -> Vector:
    """Runs of 3 to 5 bytes, hashed into 512 signed counts (Weinberger et al. 2009), each by its square root.

    Case, spaces and the punctuation of sentences make no difference; a text of nothing else is 0, and near to none. Of
    meaning it knows nothing: not that two words mean the same, nor that one word of many turns a question round.
    """
    words = f" {_SPACE.sub(' ', text.lower()).strip()} ".encode()
    if len(words) > LONGEST_TEXT:
        words = words[: LONGEST_TEXT // 2] + words[-LONGEST_TEXT // 2 :]
    values = np.frombuffer(words, dtype=np.uint8).astype(np.uint64) + np.uint64(1)
    counts = np.zeros(DIMENSIONS)
    for size in SIZES:
        if len(values) < size:
            break
        hashes = np.full(len(values) - size + 1, size, dtype=np.uint64)
        for offset in range(size):
            hashes = hashes * _BASE + values[offset : len(values) - size + 1 + offset]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
        signs = np.where(hashes >> np.uint64(63), 1.0, -1.0)
        places = ((hashes >> np.uint64(32)) % np.uint64(DIMENSIONS)).astype(np.intp)
        counts += np.bincount(places, weights=signs, minlength=DIMENSIONS)
    vector = np.sign(counts) * np.sqrt(np.abs(counts))
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)
