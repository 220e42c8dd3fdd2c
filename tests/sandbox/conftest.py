"""The fences that hold here: hostile commands are tried against each."""

import os

import pytest

from flywheel.errors import SandboxError
from flywheel.sandbox import sandbox
from flywheel.sandbox.fences import Fence
from flywheel.sandbox.sandbox import Limits, run
from flywheel.sandbox.workspace import Workspace

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture(params=list(Fence), ids=str)
def fence(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fence:
    """One that holds a command with several processes.

    Without namespaces that takes a user of its own: root runs those with a Python that all users can read.
    """
    chosen = Fence(request.param)
    if chosen is Fence.LANDLOCK and os.geteuid() == 0 and os.path.exists(SYSTEM_PYTHON):
        monkeypatch.setattr(sandbox, "PYTHON", SYSTEM_PYTHON)
    try:
        run([sandbox.PYTHON, "-I", "-S", "-c", ""], Workspace(), limits=Limits(wall_s=20), fence=chosen)
    except SandboxError as error:
        pytest.skip(f"{chosen} holds no such command here: {error}")
    return chosen
