"""Count and digest of a set of contents as they pass; their order does not matter, which no store promises."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa


class Digest:
    """XXH3-128 of each content, summed modulo 2^128, and their number: whether two stores hold the same.

    It finds what was lost, added or changed by mistake, at the speed of memory; it is no defence against somebody who
    makes contents for it.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, content: bytes | memoryview) -> None:
        """Account for one more content."""
        self.rows += 1
        self._sum += xxhash.xxh3_128_intdigest(content)

    def add_batches(self, batches: "Iterable[pa.RecordBatch]") -> None:
        """Account for the column ``payload`` of all of them."""
        for batch in batches:
            self.add_batch(batch)

    def add_batch(self, batch: "pa.RecordBatch") -> None:
        """Account for the column ``payload`` of every row."""
        hashed = xxhash.xxh3_128_intdigest
        self._sum += sum(hashed(text) for text in texts_of(batch.column("payload")))
        self.rows += len(batch)

    def passing(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The same batches, accounted for on the way."""
        for batch in batches:
            self.add_batch(batch)
            yield batch

    def update(self, other: "Digest") -> None:
        """Account for all that another one did."""
        self.rows += other.rows
        self._sum += other._sum

    def hexdigest(self) -> str:
        """The digest of what passed so far."""
        return f"{self._sum % (1 << 128):032x}-{self.rows}"


def texts_of(column: "pa.StringArray") -> Iterator[memoryview]:
    """The UTF-8 bytes of each text of a column without nulls, where they lie."""
    import numpy as np

    _, offsets, data = column.buffers()
    if data is None:  # nothing but empty texts
        yield from [memoryview(b"")] * len(column)
        return
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].tolist()
    content = memoryview(data)
    for start, end in pairwise(ends):
        yield content[start:end]
