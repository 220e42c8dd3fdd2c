"""Answers about groups as Arrow and pandas: a row a group, and in its metadata what the answer covers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COVERAGE_KEY = b"flywheel.coverage"
"""Where a schema's metadata says what the rows cover."""


def table_of(name: str, groups: Mapping[str, Struct], kind: type[Struct], coverage: Struct) -> "pa.Table":
    """The groups under ``name``, then the fields of ``kind``, whole numbers or fractions; none of them has a row."""
    import pyarrow as pa

    types = {field.name: pa.int64() if field.type is int else pa.float64() for field in structs.fields(kind)}
    schema = pa.schema([(name, pa.string()), *types.items()], metadata={COVERAGE_KEY: msgspec.json.encode(coverage)})
    return pa.Table.from_pylist([{name: group, **structs.asdict(of)} for group, of in groups.items()], schema=schema)


def frame_of(table: "pa.Table") -> "pd.DataFrame":
    """A table as a pandas frame; ``attrs["coverage"]`` says what it covers."""
    found: pd.DataFrame = table.to_pandas()
    found.attrs["coverage"] = msgspec.json.decode(table.schema.metadata[COVERAGE_KEY])
    return found
