"""The two kinds of partition: UTC days of the pool's data, and training batches."""

import dagster as dg

from flywheel.pool.headers import FIRST_DAY

TRAINING_BATCHES = "training_batches"

# Today is a partition from its first minute on (end_offset), so that a loop can close within the day.
days = dg.DailyPartitionsDefinition(start_date=str(FIRST_DAY), timezone="UTC", end_offset=1)
training_batches = dg.DynamicPartitionsDefinition(name=TRAINING_BATCHES)


def checked_partition(context: dg.AssetCheckExecutionContext) -> str:
    """The partition a check looks at: its run's, or the asset's newest one when the check is run by itself.

    Raises:
        Failure: the asset was never materialized.
    """
    if context.has_partition_key:
        return str(context.partition_key)
    (key,) = {check.asset_key for check in context.selected_asset_check_keys}
    newest = context.instance.get_latest_materialization_event(key)
    materialization = newest.asset_materialization if newest else None
    if materialization is None or materialization.partition is None:
        raise dg.Failure(f"{key.to_user_string()} was never materialized; there is nothing to check")
    return str(materialization.partition)
