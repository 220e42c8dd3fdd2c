"""Record batches as PostgreSQL's binary COPY format, made column by column.

The format is that of the documentation of COPY, "File Formats": of each row the number of its fields, of each field its
size and its bytes; numbers are big-endian, and a null has the size -1. PostgreSQL reads it in two thirds of the time
that the same rows as CSV take.
"""

from functools import lru_cache
from struct import pack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

HEADER = b"PGCOPY\n\xff\r\n\0" + pack(">ii", 0, 0)
TRAILER = pack(">h", -1)
NULL_SIZE = -1
EPOCH_DAYS = 10_957  # from Arrow's epoch, 1970, to PostgreSQL's, 2000
EPOCH_US = EPOCH_DAYS * 86_400_000_000
TEXT_OID = 25


def binary_rows(batch: "pa.RecordBatch") -> memoryview:
    """The rows of a batch; they follow ``HEADER``, and ``TRAILER`` follows the last.

    Columns may be texts, lists of texts, booleans, dates, timestamps of microseconds, and numbers of 64 bits.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    count = pa.scalar(pack(">h", batch.num_columns))
    rows = pc.binary_join_element_wise(count, *[piece for column in batch.columns for piece in field_of(column)], b"")
    _, offsets, content = rows.buffers()
    size = np.frombuffer(offsets, np.int32)[len(rows)]
    return memoryview(content or b"")[:size]


def field_of(column: "pa.Array") -> "tuple[pa.BinaryArray, pa.BinaryArray]":
    """The size of each field and its bytes."""
    import pyarrow.compute as pc

    contents = contents_of(column)
    sizes = pc.binary_length(contents).fill_null(NULL_SIZE)
    return fixed(sizes.to_numpy()), contents.fill_null(b"")


def contents_of(column: "pa.Array") -> "pa.BinaryArray":
    """The bytes of each value; nulls stay nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if kinds.is_list(column.type):
        return pa.array([text_array(tuple(texts)) for texts in column.to_pylist()], pa.binary())
    if kinds.is_string(column.type):
        return column.cast(pa.binary())
    values = numbers_of(column)
    return pc.if_else(column.is_valid(), fixed(values), None) if column.null_count else fixed(values)


def numbers_of(column: "pa.Array") -> "np.ndarray[Any, Any]":
    """The values as PostgreSQL counts them; 0 for a null."""
    import pyarrow as pa
    import pyarrow.types as kinds

    numbers, shift = column, 0
    if kinds.is_date(column.type):
        numbers, shift = column.cast(pa.int32()), EPOCH_DAYS
    elif kinds.is_timestamp(column.type):
        numbers, shift = column.cast(pa.int64()), EPOCH_US
    elif kinds.is_boolean(column.type):
        numbers = column.cast(pa.int8())
    values: np.ndarray[Any, Any] = numbers.fill_null(shift).to_numpy()
    return values - shift if shift else values


def fixed(values: "np.ndarray[Any, Any]") -> "pa.BinaryArray":
    """Numbers as their bytes, big-endian."""
    import pyarrow as pa

    content = values.astype(values.dtype.newbyteorder(">")).tobytes()
    kind = pa.binary(values.dtype.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(content)]).cast(pa.binary())


@lru_cache(maxsize=1_000)
def text_array(texts: tuple[str, ...]) -> bytes:
    """An array of texts; the rows of a day have few different ones."""
    elements = [text.encode() for text in texts]
    shape = pack(">iiiii", 1, 0, TEXT_OID, len(texts), 1) if texts else pack(">iii", 0, 0, TEXT_OID)
    return shape + b"".join([pack(">i", len(element)) + element for element in elements])
