"""A working spec is read, or every mistake in it is named with its line, its field and what to do."""

from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
import yaml

from flywheel.arbiter.evaluation.working_spec.reading import LARGEST_FILE_BYTES, load_spec, parse_spec, read_spec
from flywheel.arbiter.evaluation.working_spec.spec import DEMANDS, WorkingSpec, json_schema
from flywheel.errors import InputError

SPEC = """
id: billing
version: '1.2'
risk_tier: 2
budget: {files: 5, lines: 120}
scope:
  allowed: ["src/", "tests/"]
  forbidden: ["src/payments/"]
gates:
  - {gate: tests, command: python -m pytest -q, timeout_s: 60}
  - gate: lint
    command: [ruff, check, .]
  - {gate: coverage, command: python -m pytest --cov}
  - {gate: minimal_diff}
  - {gate: command, name: licenses, command: licenses --all, mandatory: false}
waivers:
  - {id: w-1, gate: coverage, owner: ann, reason: no tests of it yet, expires: 2027-03-31}
"""


def spec(text: str = SPEC) -> WorkingSpec:
    read = parse_spec(text, name="spec.yaml")
    assert isinstance(read, WorkingSpec), read
    return read


def problems(text: str) -> list[str]:
    read = parse_spec(text, name="spec.yaml")
    assert not isinstance(read, WorkingSpec)
    return [str(problem) for problem in read]


def test_a_spec_is_read_with_its_tiers_thresholds() -> None:
    found = spec()
    assert found.name == "billing@1.2"
    assert [gate.title for gate in found.all_gates] == [
        *("scope", "budget", "safety", "minimal_diff"),
        *("tests", "lint", "coverage", "licenses"),
    ]
    thresholds = {gate.title: found.threshold_of(gate) for gate in found.all_gates}
    assert (thresholds["coverage"], thresholds["minimal_diff"], thresholds["tests"]) == (0.8, 0.3, 1.0)


def test_a_spec_that_says_the_same_has_the_same_digest_and_another_one_another() -> None:
    again = yaml.safe_dump(yaml.safe_load(SPEC))
    assert spec(again).digest == spec().digest
    assert spec(SPEC.replace("lines: 120", "lines: 121")).digest != spec().digest


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("id: billing\n", "", "spec.yaml:2: id: it is missing; add it"),
        ("version: '1.2'", "version: 1.2", "spec.yaml:3: version: Input should be a valid string; put 1.2 in quotes"),
        ("risk_tier: 2", "risk_tier: 4", "spec.yaml:4: risk_tier: input should be 1, 2 or 3, not 4"),
        ("risk_tier: 2", "risk_teir: 2", "spec.yaml:4: risk_teir: there is no such field, risk_tier is meant perhaps"),
        ("lines: 120", "lines: many", "spec.yaml:5: budget.lines: input should be a valid integer, not 'many'"),
        ("files: 5", "files: -1", "spec.yaml:5: budget.files: input should be greater than or equal to 0, not -1"),
        ("gate: lint", "gate: lynt", "spec.yaml:11: gates[1]: input tag 'lynt' found using 'gate'"),
        ("gate: lint", "name: lint", "spec.yaml:11: gates[1]: it does not say which gate it is"),
        ("[ruff, check, .]", "[]", "spec.yaml:12: gates[1].command: value should have at least 1 item"),
        ("[ruff, check, .]", "ruff check . && true", "spec.yaml:12: gates[1].command: && is for a shell"),
        ("[ruff, check, .]", "ruff 'check", "spec.yaml:12: gates[1].command: No closing quotation"),
        ("python -m pytest --cov}", "x, threshold: 0.5}", "gates[2].threshold: risk tier 2 demands at least 0.8"),
        ("  - {gate: minimal_diff}\n", "", "spec.yaml:9: gates: risk tier 2 demands a gate minimal_diff; add one"),
        ("{gate: minimal_diff}", "{gate: minimal_diff, mandatory: false}", "gates[3].mandatory: risk tier 2 demands"),
        ("name: licenses", "name: tests", "gates[4].name: there is a gate tests already; give this one a name"),
        ("name: licenses, command: licenses --all", "name: x", "spec.yaml:15: gates[4].command: it is missing"),
        ("gate: coverage, owner", "gate: types, owner", "spec.yaml:17: waivers[0].gate: there is no gate 'types'"),
        (", expires: 2027-03-31", "", "spec.yaml:17: waivers[0].expires: it is missing"),
        ("2027-03-31", "soon", "spec.yaml:17: waivers[0].expires: input should be a valid date"),
        ("id: billing", "id: billing\nid: other", "spec.yaml:3: not YAML: id stands twice"),
        ("id: billing", "id: &a billing\ntitle: *a", "spec.yaml:3: not YAML: *a: aliases are not read"),
        ("id: billing", "id: [", "spec.yaml:4: not YAML"),
        ("id: billing", "id: billing\nreadable: [opt/jdk]", "readable[0]: 'opt/jdk' is not absolute"),
    ],
)
def test_a_mistake_is_named_with_its_line_its_field_and_what_to_do(old: str, new: str, problem: str) -> None:
    assert old in SPEC
    assert any(problem in found for found in problems(SPEC.replace(old, new, 1))), problems(SPEC.replace(old, new, 1))


def test_all_mistakes_are_named_in_the_order_of_their_lines() -> None:
    found = problems(SPEC.replace("risk_tier: 2", "risk_tier: 9").replace("id: billing\n", "").replace("2027", "x"))
    assert [line.split(":")[2].strip() for line in found] == ["id", "risk_tier", "waivers[0].expires"]


@pytest.mark.parametrize("text", ["", "- a", "a", "\t", "id: {a: [b}", "{" * 1_000_000])
def test_what_is_no_mapping_is_a_problem_and_no_traceback(text: str) -> None:
    assert len(problems(text)) == 1


@pytest.mark.parametrize(("tier", "kinds"), [(tier, tuple(kinds)) for tier, kinds in DEMANDS.items()])
def test_each_tier_demands_its_gates(tier: int, kinds: tuple[str, ...]) -> None:
    bare = f"id: a\nversion: '1'\nrisk_tier: {tier}\nbudget: {{files: 1, lines: 1}}\ngates: []\n"
    assert problems(bare) == [f"spec.yaml:5: gates: risk tier {tier} demands a gate {kind}; add one" for kind in kinds]


def test_a_schema_that_is_none_and_a_pattern_that_is_none_are_named() -> None:
    text = SPEC.replace("gates:\n", "gates:\n  - {gate: output_schema, file: a.json, schema: {type: 3}}\n")
    assert "no JSON Schema: $.type" in problems(text)[0]


def test_a_waiver_holds_to_the_end_of_its_day_and_only_with_an_owner() -> None:
    (waiver,) = spec().waivers
    assert waiver.refusal(datetime(2027, 3, 31, 23, 59, tzinfo=UTC)) is None
    assert waiver.refusal(datetime(2027, 4, 1, tzinfo=UTC)) == "it expired on 2027-03-31"
    (ownerless,) = spec(SPEC.replace("owner: ann, ", "")).waivers
    assert ownerless.refusal(datetime(2027, 1, 1, tzinfo=UTC)) == "it has no owner"


def test_the_published_schema_takes_what_is_taken_and_refuses_what_is_refused() -> None:
    schema = json_schema()
    document = yaml.safe_load(SPEC.replace("2027-03-31", "'2027-03-31'"))
    jsonschema.validate(document, schema)
    document["gates"][0]["gate"] = "nonsense"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_the_example_of_the_documentation_is_a_working_spec() -> None:
    page = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (example,) = (block.split("```")[0] for block in page.split("```yaml\n")[1:] if "risk_tier:" in block)
    assert spec(example).name == "billing@1.2"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml cannot be read: No such file"):
        read_spec(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"id: \xff")
    with pytest.raises(InputError, match="no text in UTF-8"):
        read_spec(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    with pytest.raises(InputError, match="larger than"):
        read_spec(tmp_path / "large.yaml")


def test_loading_a_wrong_file_raises_with_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.replace("risk_tier: 2", "risk_tier: 9"))
    with pytest.raises(InputError, match=r"spec\.yaml:4: risk_tier"):
        load_spec(path)
    path.write_text(SPEC)
    assert load_spec(path) == spec()
