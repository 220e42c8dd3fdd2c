"""A type checker that must find nothing."""

from typing import Literal

from flywheel.arbiter.evaluation.gates.command import CommandGate


class Types(CommandGate):
    """Passed where the type checker's command ends with exit code 0."""

    gate: Literal["types"]
