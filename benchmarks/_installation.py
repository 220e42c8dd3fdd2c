"""An empty installation in a temporary folder, with a PostgreSQL of its own, for as long as a benchmark runs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flywheel.database import upgrade, url_with
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings


@contextmanager
def empty_installation() -> Iterator[Settings]:
    """Settings of the production profile, the second detector off; ``database_url`` names a migrated database.

    All is removed afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="flywheel-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user where this one is root
        server = EmbeddedPostgres(folder / "postgres")
        try:
            url = url_with(server.start(), driver="")
            upgrade(url)
            # what the second detector reads of a day is a fixed number of points, whatever is measured
            alone = {"second_detector": {"points": 0}}
            yield Settings.load(profile="production", home=folder / "home", database_url=url, anonymization=alone)
        finally:
            server.stop()
