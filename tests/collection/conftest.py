"""A collector over an empty folder, and a disk that is soon full."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flywheel.collection import Collector


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """It writes what it is given, so that tests find it again."""
    with Collector(tmp_path, "acme", remove_identifiers=False) as made:
        yield made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Half a megabyte, in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system may not be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
