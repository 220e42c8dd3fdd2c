"""Rows become columns and files of the lake, whatever form their texts have."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.digests import Digest
from flywheel.pool.files import ROWS_AT_ONCE, batch_of, batches_of, lake_file, read_file

SCHEMA = pa.schema([("payload", pa.string())])


@given(texts=st.lists(st.text()))
def test_texts_in_utf_8_are_the_column_that_they_are_as_str(texts: list[str]) -> None:
    batch = batch_of([{"payload": text} for text in texts], schema=SCHEMA)
    assert batch.equals(batch_of([{"payload": text.encode()} for text in texts], schema=SCHEMA))
    assert batch.equals(batch_of([{"payload": memoryview(text.encode())} for text in texts], schema=SCHEMA))


def test_what_is_no_utf_8_does_not_become_a_text() -> None:
    with pytest.raises(pa.ArrowInvalid, match="utf8"):
        batch_of([{"payload": b"right"}, {"payload": b"\xff"}], schema=SCHEMA)


def test_rows_in_batches_are_the_same_rows_and_each_is_accounted_for() -> None:
    schema = pa.schema([("day", pa.string()), ("payload", pa.string())])
    texts = [f"row {number}" for number in range(2 * ROWS_AT_ONCE + 1)]
    rows = [{"day": "d", "payload": text.encode()} for text in texts]
    digest = Digest()
    file = lake_file(digest.passing(batches_of(rows, schema=schema)), key="day")
    read = read_file(file.content)
    whole = Digest()
    whole.add_batch(read)
    assert read.column("payload").to_pylist() == texts
    assert (file.rows, digest.hexdigest()) == (len(rows), whole.hexdigest())
