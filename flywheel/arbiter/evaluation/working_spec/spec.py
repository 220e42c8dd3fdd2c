"""A working spec: risk tier, budget, scope, gates and waivers for the changes of a piece of work (SPEC section 7)."""

import hashlib
import json
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from flywheel.arbiter.evaluation.gates.budget import Budget
from flywheel.arbiter.evaluation.gates.budget import Limits as BudgetLimits
from flywheel.arbiter.evaluation.gates.catalog import STANDING, NamedGate
from flywheel.arbiter.evaluation.gates.gate import NAME, Gate
from flywheel.arbiter.evaluation.gates.safety import Safety
from flywheel.arbiter.evaluation.gates.scope import Allowed, Scope
from flywheel.records import utc_day
from flywheel.settings_section import Section

DEMANDS: dict[int, dict[str, float]] = {
    1: {"tests": 1.0, "lint": 1.0, "types": 1.0, "coverage": 0.9, "minimal_diff": 0.5},
    2: {"tests": 1.0, "lint": 1.0, "coverage": 0.8, "minimal_diff": 0.3},
    3: {"tests": 1.0},
}
"""By risk tier the gates that must be there and mandatory, with the least threshold; the standing ones always are."""


class Waiver(Section):
    """Leave to go on without a gate, by somebody, for a reason, up to a day."""

    id: str = Field(pattern=NAME, description="what verdicts name it by")
    gate: str = Field(min_length=1, description="name of the gate that need not be passed")
    owner: str = Field("", description="who answers for it; without one it does not waive")
    reason: str = Field(min_length=1)
    expires: date = Field(description="the last day on which it holds, in UTC, as 2027-03-31")

    def refusal(self, at: datetime) -> str | None:
        """Why it does not waive at this moment; None where it does."""
        if not self.owner.strip():
            return "it has no owner"
        return f"it expired on {self.expires}" if utc_day(at) > self.expires else None


class CommandLimits(Section):
    """What each command may use; its time is its gate's."""

    memory_mb: int = Field(2048, ge=16, le=1_048_576, description="of all its processes together, and of each")
    disk_mb: int = Field(1024, ge=1, le=1_048_576, description="the copy of the workspace and all that is written")
    processes: int = Field(256, ge=2, le=100_000, description="at one time, threads counted")


class WorkingSpec(Section):
    """What changes of a piece of work are held to."""

    id: str = Field(pattern=NAME, description="lower-case letters, digits, . _ -")
    version: str = Field(min_length=1, max_length=64, description="in quotes, as '1.2'")
    title: str = ""
    risk_tier: Literal[1, 2, 3] = Field(description="1 is the highest risk, and demands most gates")
    budget: BudgetLimits
    scope: Allowed = Allowed()
    gates: tuple[NamedGate, ...] = Field(description="besides scope, budget and safety, which are always there")
    waivers: tuple[Waiver, ...] = ()
    limits: CommandLimits = CommandLimits()
    readable: tuple[str, ...] = Field((), description="absolute paths that commands may read besides the system's")
    environment: dict[str, str] = Field({}, description="variables of the commands; no others are inherited")

    @property
    def name(self) -> str:
        """Id and version."""
        return f"{self.id}@{self.version}"

    @property
    def all_gates(self) -> tuple[Gate, ...]:
        """The gates in the order in which they are looked at: first those that need no command."""
        standing = (Scope(paths=self.scope), Budget(limits=self.budget), Safety())
        return (*standing, *sorted(self.gates, key=lambda gate: hasattr(gate, "command")))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form, in hex: of two texts that say the same it is the same."""
        canonical = json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def threshold_of(self, gate: Gate) -> float:
        """What a gate must reach: as the spec says, else as the tier demands, else the gate's own."""
        if gate.wanted is not None:
            return gate.wanted
        return DEMANDS[self.risk_tier].get(gate.kind, gate.least)

    def problems(self) -> list[tuple[tuple[int | str, ...], str]]:
        """What cannot be as it stands though each field by itself can: where, and what to do."""
        return [*self._repeated(), *self._undemanded(), *self._of_waivers(), *self._of_paths()]

    def _repeated(self) -> list[tuple[tuple[int | str, ...], str]]:
        found: list[tuple[tuple[int | str, ...], str]] = []
        titles, ids = list(STANDING), list[str]()
        for index, gate in enumerate(self.gates):
            if gate.title in titles:
                found.append((("gates", index, "name"), f"there is a gate {gate.title} already; give this one a name"))
            titles.append(gate.title)
        for index, waiver in enumerate(self.waivers):
            if waiver.id in ids:
                found.append((("waivers", index, "id"), f"there is a waiver {waiver.id} already; give it another id"))
            ids.append(waiver.id)
        return found

    def _undemanded(self) -> list[tuple[tuple[int | str, ...], str]]:
        found: list[tuple[tuple[int | str, ...], str]] = []
        for kind, least in DEMANDS[self.risk_tier].items():
            having = [(index, gate) for index, gate in enumerate(self.gates) if gate.kind == kind]
            mandatory = [(index, gate) for index, gate in having if gate.mandatory]
            if not having:
                found.append((("gates",), f"risk tier {self.risk_tier} demands a gate {kind}; add one"))
            elif not mandatory:
                message = (
                    f"risk tier {self.risk_tier} demands that {kind} is mandatory; waive it for a time if it must be"
                )
                found.append((("gates", having[0][0], "mandatory"), message))
            for index, gate in mandatory:
                if gate.wanted is not None and gate.wanted < least:
                    message = f"risk tier {self.risk_tier} demands at least {least:g}; raise it, or leave it out"
                    found.append((("gates", index, "threshold"), message))
        return found

    def _of_waivers(self) -> list[tuple[tuple[int | str, ...], str]]:
        known = {gate.title for gate in self.all_gates}
        return [
            (("waivers", index, "gate"), f"there is no gate {waiver.gate!r}; there are {', '.join(sorted(known))}")
            for index, waiver in enumerate(self.waivers)
            if waiver.gate not in known
        ]

    def _of_paths(self) -> list[tuple[tuple[int | str, ...], str]]:
        return [
            (("readable", index), f"{path!r} is not absolute; write it from the root, as /opt/jdk")
            for index, path in enumerate(self.readable)
            if not path.startswith("/")
        ]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a working spec, for editors and other programs."""
    schema = WorkingSpec.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Working spec"}
