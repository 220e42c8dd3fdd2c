"""Which task source the configuration names."""

from flywheel.settings import Settings, TasksSettings
from flywheel.tasks.source import TaskSource


def load_source(settings: Settings) -> TaskSource:
    """The source of tasks of this installation. Its data is read on first use."""
    return source_of(settings.tasks)


def source_of(tasks: TasksSettings) -> TaskSource:
    """The source that this part of the settings names."""
    if tasks.source == "synthetic":
        from flywheel.tasks.synthetic import SyntheticSource

        return SyntheticSource(
            categories=tasks.categories,
            heldout_fraction=tasks.heldout_fraction,
            validation_fraction=tasks.validation_fraction,
        )
    from flywheel.tasks.function_calling import BfclSource

    return BfclSource(
        categories=tasks.categories,
        heldout_fraction=tasks.heldout_fraction,
        validation_fraction=tasks.validation_fraction,
    )
