"""The two kinds of partition: UTC days of the pool's data, and training batches."""

import dagster as dg

TRAINING_BATCHES = "training_batches"

# Today is a partition from its first minute on (end_offset), so that a loop can close within the day.
days = dg.DailyPartitionsDefinition(start_date="2023-01-01", timezone="UTC", end_offset=1)
training_batches = dg.DynamicPartitionsDefinition(name=TRAINING_BATCHES)
