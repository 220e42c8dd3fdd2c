"""A JSON file of the workspace must have the form that was asked for."""

import json
from typing import Any, Literal

from pydantic import Field, field_validator

from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome

MOST_FINDINGS = 20


class OutputSchema(Gate):
    """Passed where the file is there and its JSON is valid under the schema (JSON Schema, draft 2020-12 by default)."""

    gate: Literal["output_schema"]
    file: str = Field(min_length=1, description="path of the JSON file in the workspace after the change")
    document: dict[str, Any] = Field(alias="schema", description="the JSON Schema itself; it may refer to itself alone")

    @field_validator("document")
    @classmethod
    def _is_a_schema(cls, document: dict[str, Any]) -> dict[str, Any]:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        try:
            validator_for(document).check_schema(document)
        except SchemaError as error:
            raise ValueError(f"no JSON Schema: {error.json_path}: {error.message}") from None
        return document

    def check(self, candidate: Candidate) -> Outcome:
        """Read the file and validate it."""
        content = candidate.content(self.file)
        if content is None:
            return Outcome(score=0.0, reason=f"{self.file} is not there after the change")
        try:
            value = json.loads(content, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            return Outcome(score=0.0, reason=f"{self.file} is no JSON: {error}")
        from referencing.exceptions import Unresolvable

        try:
            findings = self._findings(value)
        except (Unresolvable, RecursionError) as error:
            reason = f"the schema cannot be applied: {error}"
            return Outcome(score=0.0, reason=reason, error=reason)
        reason = f"{self.file} breaks the schema in {len(findings)} places" if findings else f"{self.file} is valid"
        return Outcome(
            score=float(not findings), reason=reason, evidence=Evidence(findings=tuple(findings[:MOST_FINDINGS]))
        )

    def _findings(self, value: Any) -> list[str]:
        from jsonschema.validators import validator_for
        from referencing import Registry

        validator = validator_for(self.document)(self.document, registry=Registry())  # nothing is fetched
        errors = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
        return [f"{error.json_path}: {error.message[:300]}" for error in errors]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is none of its numbers")
