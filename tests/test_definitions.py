"""What people see in Dagster's UI, and how fast it loads."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

ROOT = Path(__file__).parent.parent
CHAIN = ["raw_logs", "validated_data_points", "anonymized_data_points", "warm_tier"]
LINEAGE = ["training_batch", "sft_model", "grpo_model", "deployment_candidate"]
HEAVY = {"torch", "trl", "transformers", "mlflow", "great_expectations", "pandera", "deltalake", "matplotlib"}


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    from definitions import defs as loaded

    return loaded


def test_definitions_load_without_torch_and_other_heavy_libraries() -> None:
    program = f"import definitions, sys; print(*sorted({HEAVY!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_the_definitions_are_consistent(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)
    assert {job.name for job in defs.resolve_all_job_defs()} >= {"pool_day", "training"}


def test_lineage_runs_from_raw_logs_to_the_candidate(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    chain = [dg.AssetKey(name) for name in [*CHAIN, *LINEAGE]]
    for parent, child in pairwise(chain):
        assert parent in graph.get(child).parent_keys


def test_every_asset_tells_people_what_it_is_and_whose(defs: dg.Definitions) -> None:
    for spec in defs.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.owners, spec.key
        assert spec.kinds, spec.key
        assert spec.group_name in {"pool", "training"}, spec.key


def test_data_is_partitioned_by_day_and_training_by_batch(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for name in CHAIN:
        assert isinstance(graph.get(dg.AssetKey(name)).partitions_def, dg.DailyPartitionsDefinition)
    for name in LINEAGE:
        assert isinstance(graph.get(dg.AssetKey(name)).partitions_def, dg.DynamicPartitionsDefinition)


def test_what_must_not_pass_blocks(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get(key).blocking}
    assert blocking >= {"nothing_lost", "rows_match_schema", "no_pii_left", "batch_is_disjoint"}


def test_every_table_of_the_pool_has_a_column_schema(defs: dg.Definitions) -> None:
    for spec in defs.resolve_all_asset_specs():
        if spec.group_name == "pool" or spec.key == dg.AssetKey("training_batch"):
            assert "dagster/column_schema" in spec.metadata, spec.key
