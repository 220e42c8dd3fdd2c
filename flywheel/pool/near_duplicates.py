"""Texts that say almost the same: MinHash over shingles of three words, and buckets that similar texts share.

A text becomes the set of its runs of three words. Two texts are near-duplicates where these sets overlap by at least
``SIMILARITY`` (Jaccard), as estimated from ``BINS`` hashes each: the standard error at the threshold is 0.035. One
pass over the words fills all bins (one permutation hashing; Li, Owen, Zhang, NeurIPS 2012), empty bins borrow from
others (optimal densification; Shrivastava, ICML 2017), and only texts that agree in one of ``BANDS`` runs of bins are
compared. Everything is integer arithmetic with fixed constants: the same texts give the same answer on any machine.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

SIMILARITY = 0.8
BINS = 128
BANDS = 16
NEIGHBOURS = 4
"""With how many of those before it in a bucket a text is compared, besides the bucket's first: keeps it linear."""
CHUNK = 1 << 18
END = b" \x01 \x02 "
"""Two words after each text, so that each of its own words starts a shingle."""

Hashes = NDArray[np.uint64]
Signatures = NDArray[np.uint32]
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], dtype=np.uint64)
_EMPTY = np.uint32(0xFFFFFFFF)
_SPACE, _SYMBOL, _LETTER, _WIDE = 0, 1, 2, 3


def near_duplicates(table: Signatures, groups: Hashes | None = None) -> set[int]:
    """Rows to leave out so that no two that stay are near-duplicates. Of two the earlier stays; equal rows are one.

    With ``groups``, a number per row, only rows of one group are compared.
    """
    of = np.zeros(len(table), dtype=np.uint64) if groups is None else groups
    first_of: dict[tuple[int, bytes], int] = {}
    for row, (group, signature) in enumerate(zip(of.tolist(), table, strict=True)):
        first_of.setdefault((group, signature.tobytes()), row)
    distinct = np.array(list(first_of.values()), dtype=np.int64)
    left_out = set(range(len(table))) - set(first_of.values())
    for earlier, later in near_pairs(table[distinct], of[distinct]):
        if int(distinct[earlier]) not in left_out:
            left_out.add(int(distinct[later]))
    return left_out


def near_pairs(table: Signatures, groups: Hashes) -> list[tuple[int, int]]:
    """Pairs of rows of one group whose estimated similarity reaches the threshold: the earlier row first, by the later
    one.
    """
    rows = len(table)
    keys = mixed(band_keys(table) ^ mixed(groups)[:, np.newaxis])
    codes = [later * rows + earlier for earlier, later in map(bucket_pairs, keys.T)]
    near: list[tuple[int, int]] = []
    for some in np.array_split(np.unique(np.concatenate(codes)), 1 + sum(map(len, codes)) * BINS // CHUNK):
        later, earlier = np.divmod(some, max(rows, 1))
        alike = (table[earlier] == table[later]).mean(axis=1) >= SIMILARITY
        alike &= groups[earlier] == groups[later]
        near += zip(earlier[alike].tolist(), later[alike].tolist(), strict=True)
    return near


def band_keys(table: Signatures) -> Hashes:
    """One key per row and band: rows with equal keys share a bucket."""
    bands = table.astype(np.uint64).reshape(len(table), BANDS, BINS // BANDS)
    keys = np.zeros(bands.shape[:2], dtype=np.uint64)
    for column in range(bands.shape[2]):
        keys = mixed(keys * _MULTIPLIERS[0] + bands[:, :, column])
    return keys


def bucket_pairs(keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Within each bucket every row with its first row and with the ``NEIGHBOURS`` rows before it: earlier and later."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[len(keys) > 0, ordered[1:] != ordered[:-1]])
    first = np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    here = np.arange(len(keys))
    partners = [first, *(np.maximum(here - lag, first) for lag in range(1, NEIGHBOURS + 1))]
    earlier, later = np.concatenate(partners), np.tile(here, len(partners))
    apart = earlier != later
    return order[earlier[apart]], order[later[apart]]


def signatures_of(texts: Sequence[str]) -> Signatures:
    """A row of ``BINS`` minima per text. Texts with the same words in the same order have the same row."""
    contents = [text.lower().encode() for text in texts]
    table = np.full((len(contents), BINS), _EMPTY, dtype=np.uint32)

    for start, end in chunks(contents):
        shingles, owners = shingle_hashes(contents[start:end])
        bins = (shingles >> np.uint64(57)).astype(np.int64)
        values = (shingles & np.uint64(0x7FFFFFFF)).astype(np.uint32)
        np.minimum.at(table[start:end].reshape(-1), owners * BINS + bins, values)
    return densified(table)


def chunks(contents: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Ranges of texts of together about ``CHUNK`` bytes, so that what is computed of them stays near the processor."""
    start = size = 0
    for number, content in enumerate(contents):
        size += len(content)
        if size >= CHUNK:
            yield start, number + 1
            start, size = number + 1, 0
    if start < len(contents):
        yield start, len(contents)


def shingle_hashes(contents: Sequence[bytes]) -> tuple[Hashes, NDArray[np.int64]]:
    """The hash of every shingle of these texts, and the number of the text it is of."""
    starts, words = word_hashes(END.join(contents) + END)
    limits = np.cumsum([len(content) + len(END) for content in contents])
    counts = np.diff(np.r_[0, np.searchsorted(starts, limits)])
    owners = np.repeat(np.arange(len(contents)), counts)
    shingles = words[:-2] * _MULTIPLIERS[0] + words[1:-1] * _MULTIPLIERS[1] + words[2:] * _MULTIPLIERS[2]
    inside = owners[:-2] == owners[2:]
    return mixed(shingles[inside]), owners[:-2][inside]


def word_hashes(content: bytes) -> tuple[NDArray[np.int64], Hashes]:
    """Where each word starts, and its polynomial hash modulo 2^64, from differences of one running sum.

    Words are runs of letters and digits. A symbol is a word, and so is a character of three or more bytes (Chinese,
    Thai, emoji).
    """
    kinds = np.frombuffer(content.translate(_KINDS), dtype=np.uint8)
    spoken = kinds != _SPACE
    begins = spoken.copy()
    begins[1:] &= (kinds[1:] != _LETTER) | (kinds[:-1] < _LETTER)
    starts = np.flatnonzero(begins)
    powers, inverses = power_tables(len(content))
    sums = np.zeros(len(content) + 1, dtype=np.uint64)
    np.cumsum(np.frombuffer(content, dtype=np.uint8) * spoken * powers, out=sums[1:])  # space adds nothing
    return starts, np.diff(sums[np.r_[starts, len(content)]]) * inverses[starts]


def power_tables(size: int) -> tuple[Hashes, Hashes]:
    """The first ``size`` powers of the base and of its inverse modulo 2^64."""
    if size <= len(_POWERS[0]):
        return _POWERS[0][:size], _POWERS[1][:size]
    return powers_of(_BASE, size), powers_of(_INVERSE, size)


def powers_of(base: int, size: int) -> Hashes:
    """1, the base, its square … modulo 2^64."""
    powers = np.full(size, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers)


def densified(table: Signatures) -> Signatures:
    """Every empty bin filled from a full one of the same row, in an order that depends on the bin alone."""
    full = table.copy()
    rows, bins = np.nonzero((table == _EMPTY) & (table != _EMPTY).any(axis=1)[:, np.newaxis])
    for sources in _BORROWING:
        borrowed = full[rows, sources[bins]]
        table[rows, bins] = borrowed
        rows, bins = rows[borrowed == _EMPTY], bins[borrowed == _EMPTY]
    return table


def mixed(values: Hashes) -> Hashes:
    """The finalizer of SplitMix64: every bit of the input changes every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[1]
    return values ^ (values >> np.uint64(31))


def _kinds() -> bytes:
    """What a byte of UTF-8 is: all of a longer character a letter, control characters space but for ``END``; the first
    byte of a character of three or more begins a word.
    """
    letters = [byte >= 0x80 or chr(byte).isalnum() for byte in range(256)]
    symbols = [byte in b"\x01\x02" or 0x20 < byte < 0x7F for byte in range(256)]
    kinds = np.where(letters, _LETTER, np.where(symbols, _SYMBOL, _SPACE)).astype(np.uint8)
    kinds[0xE0:] = _WIDE
    return kinds.tobytes()


def _borrowing() -> NDArray[np.int64]:
    """For each try and bin the bin to borrow from: a bin tries every other one once."""
    keys = mixed(np.arange(BINS * BINS, dtype=np.uint64)).reshape(BINS, BINS)
    return np.argsort(keys, axis=0, kind="stable")


_KINDS = _kinds()
_BORROWING = _borrowing()
_POWERS = powers_of(_BASE, 2 * CHUNK), powers_of(_INVERSE, 2 * CHUNK)
