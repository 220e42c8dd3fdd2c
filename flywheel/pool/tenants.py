"""Whose data is erased: a tenant's, or that of single tasks of it."""

from msgspec import Struct

from flywheel.pool.rows import column_text
from flywheel.pool.schemas import VALIDATED


class Tenant(Struct, frozen=True, kw_only=True):
    """A tenant by its name and by the hashes that stand for it in anonymized points: two while the salt is rotated.

    Attributes:
        id: its name, as logs have it.
        hashes: the one under the present salt first.
        tasks: ids of those of its tasks that are meant, as logs have them; None: all of it.
    """

    id: str
    hashes: tuple[str, ...]
    tasks: frozenset[str] | None = None

    @property
    def whole(self) -> tuple[str, ...]:
        """The hashes, where all that carries them is meant; none where only tasks are."""
        return self.hashes if self.tasks is None else ()

    @property
    def task_names(self) -> tuple[str, ...]:
        """What the column ``task_id`` of validated points calls the tasks."""
        return tuple(map(column_text, self.tasks or ()))

    def names_in(self, table: str) -> tuple[str, ...]:
        """What the column ``tenant_id`` of a table calls it."""
        return (column_text(self.id),) if table == VALIDATED else self.hashes
