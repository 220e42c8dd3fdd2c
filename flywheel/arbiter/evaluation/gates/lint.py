"""A linter that must find nothing."""

from typing import Literal

from flywheel.arbiter.evaluation.gates.command import CommandGate


class Lint(CommandGate):
    """Passed where the linter's command ends with exit code 0."""

    gate: Literal["lint"]
