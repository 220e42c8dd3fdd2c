"""The gates that a working spec can name. A new one is a file beside this one and a word here."""

from typing import Annotated

from pydantic import Field

from flywheel.arbiter.evaluation.gates.command import OwnCommand
from flywheel.arbiter.evaluation.gates.coverage import Coverage
from flywheel.arbiter.evaluation.gates.lint import Lint
from flywheel.arbiter.evaluation.gates.minimal_diff import SmallChange
from flywheel.arbiter.evaluation.gates.output_schema import OutputSchema
from flywheel.arbiter.evaluation.gates.reward_hacking import RewardHacking
from flywheel.arbiter.evaluation.gates.tests import Tests
from flywheel.arbiter.evaluation.gates.types import Types

NamedGate = Annotated[
    Tests | Lint | Types | Coverage | SmallChange | OutputSchema | RewardHacking | OwnCommand,
    Field(discriminator="gate"),
]
STANDING = ("scope", "budget", "safety")
"""Gates that every spec has, whatever it names."""
