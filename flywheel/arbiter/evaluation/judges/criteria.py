"""What answers are judged by: built-in criteria are files of this package, a team's own are configuration."""

import tomllib
from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.judges.settings import BUILT_IN, JudgedTerm, JudgesSettings

FOLDER = Path(__file__).parent / "builtin"


class Criterion(Struct, frozen=True, kw_only=True):
    """One question about an answer.

    Attributes:
        name: in gates, as ``judge:NAME``.
        version: of its words.
        threshold: score, 0–1, from which an answer passes.
        instructions: what the judge is told.
        term: the rubric's term that the score goes into.
        mandatory: whether an answer that does not pass is rejected.
    """

    name: str
    version: int
    threshold: float
    instructions: str
    term: JudgedTerm = "task"
    mandatory: bool = True

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}@{self.version}"

    @property
    def digest(self) -> bytes:
        """Of what the judge is told: other words under the same version are another question all the same."""
        return blake2b(f"{self.label}\0{self.instructions}".encode(), digest_size=16).digest()


@cache
def built_in() -> tuple[Criterion, ...]:
    """The criteria of SPEC section 8."""
    return tuple(_read(FOLDER / f"{name}.toml") for name in BUILT_IN)


def criteria_of(settings: JudgesSettings) -> tuple[Criterion, ...]:
    """The criteria that the settings choose, in their order."""
    own = (msgspec.convert(criterion.model_dump(), Criterion) for criterion in settings.own_criteria)
    known = {criterion.name: criterion for criterion in (*built_in(), *own)}
    return tuple(known[name] for name in settings.criteria)


def _read(path: Path) -> Criterion:
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Criterion)
