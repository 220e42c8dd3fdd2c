"""A rubric: the specification's weights, the gate, and what findings do to the reward."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.hacking.finding import KINDS, Finding, Severity
from flywheel.arbiter.evaluation.rubrics import terms
from flywheel.arbiter.evaluation.rubrics.catalog import BUILTIN, named_rubric, rubric_of, rubrics_of
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.reading import read_rubric
from flywheel.arbiter.evaluation.rubrics.rubric import TERMS, Rubric
from flywheel.arbiter.evaluation.rubrics.settings import RubricSettings
from flywheel.errors import ConfigurationError
from flywheel.records import Complexity, RubricScores, ToolCall
from flywheel.settings import Settings
from flywheel.tasks.environment import MadeCall

SHARES = st.floats(0, 1)
SPECIFIED = {  # SPEC section 8: format, tool, task, minimal, cost
    "code-editing": (0.20, 0.25, 0.40, 0.10, 0.05),
    "research": (0.15, 0.35, 0.30, 0.05, 0.15),
    "data-analysis": (0.25, 0.30, 0.35, 0.05, 0.05),
    "tool-calling": (0.25, 0.30, 0.35, 0.0, 0.10),
    "anything else": (0.25, 0.30, 0.35, 0.0, 0.10),
}


def perfect(**changes: float) -> RubricScores:
    scores = dict.fromkeys(RubricScores.__struct_fields__, 1.0)
    return RubricScores(**{**scores, **changes})


def evidence(**changes: Any) -> Evidence:
    found: dict[str, Any] = {"complexity": Complexity.STANDARD, "passed": True, "tokens_used": 0}
    shares = dict.fromkeys(("format", "tool", "done", "needed", "safety"), 1.0)
    return Evidence(**{**found, **shares, **changes})


def team_rubric(**changes: Any) -> Rubric:
    return Rubric.model_validate(BUILTIN.model_dump() | {"id": "team"} | changes)


def written(folder: Path, text: str, name: str = "team.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


TEAM = """
id: team
version: 2
functions: {format: written_as_asked, tool: well_used_tools, task: all_or_nothing, minimal: nothing_needless,
            cost: thrift, safety: nothing_unsafe}
safety_threshold: 0.9
rows:
  - task_types: [research, planning]
    weights: {format: 0, tool: 0.5, task: 0.5, minimal: 0, cost: 0}
    functions: {tool: right_calls}
findings: {edited_checker: report, loop: {lower: task, by: 0.1}}
otherwise: {format: 0.2, tool: 0.2, task: 0.6, minimal: 0, cost: 0}
"""


@pytest.mark.parametrize("task_type", SPECIFIED)
def test_the_builtin_weights_are_the_specifications(task_type: str) -> None:
    weights = BUILTIN.weights_of(task_type)
    assert tuple(weights.of(term) for term in TERMS) == SPECIFIED[task_type]
    assert BUILTIN.overall(task_type, perfect()) == pytest.approx(1)
    assert BUILTIN.name == "builtin@1"


@pytest.mark.parametrize("term", TERMS)
def test_a_term_counts_by_its_weight_in_the_task_type(term: str) -> None:
    for task_type in SPECIFIED:
        lost = 1 - BUILTIN.overall(task_type, perfect(**{term: 0.0}))
        assert lost == pytest.approx(BUILTIN.weights_of(task_type).of(term))  # type: ignore[arg-type]


def test_safety_is_a_gate_and_no_term() -> None:
    assert BUILTIN.overall("research", perfect(safety=0.8)) == BUILTIN.overall("research", perfect())
    assert BUILTIN.overall("research", perfect(safety=0.79)) == 0
    assert set(BUILTIN.contributions("research", perfect(safety=0.79)).values()) == {0.0}


@given(scores=st.builds(RubricScores, **dict.fromkeys(RubricScores.__struct_fields__, SHARES)))
def test_a_reward_is_within_0_and_1_and_the_sum_of_its_contributions(scores: RubricScores) -> None:
    for task_type in SPECIFIED:
        reward = BUILTIN.overall(task_type, scores)
        assert 0 <= reward <= 1
        assert reward == pytest.approx(min(1, sum(BUILTIN.contributions(task_type, scores).values())))


@given(tokens=st.integers(0, 10**7), more=st.integers(1, 10**7), share=SHARES)
def test_no_length_makes_a_reward_negative_and_none_makes_it_larger(tokens: int, more: int, share: float) -> None:
    def reward(used: int) -> float:
        scores = BUILTIN.scores("tool-calling", evidence(tokens_used=used, done=share, passed=False))
        return BUILTIN.overall("tool-calling", scores)

    assert 0 <= reward(tokens + more) <= reward(tokens) <= 1


def test_a_voiding_finding_makes_safety_and_so_the_reward_0_and_the_point_shows_it() -> None:
    scores = BUILTIN.scores("code-editing", evidence(findings=(Finding(name="deleted_test", evidence="gone"),)))
    assert scores == perfect(safety=0.0)
    assert BUILTIN.overall("code-editing", scores) == 0


def test_a_lowering_finding_multiplies_its_term_once_however_often_it_is_found() -> None:
    calls = tuple(Finding(name="repeated_calls", evidence="again", line=number) for number in range(5))
    scores = BUILTIN.scores("tool-calling", evidence(findings=calls))
    assert scores == perfect(tool=0.5)


@pytest.mark.parametrize("name", KINDS)
def test_no_finding_raises_a_reward(name: str) -> None:
    for task_type in SPECIFIED:
        with_it = BUILTIN.scores(task_type, evidence(findings=(Finding(name=name, evidence="seen"),)))
        rewards = BUILTIN.overall(task_type, with_it), BUILTIN.overall(task_type, perfect())
        assert rewards[0] <= rewards[1]
        assert (rewards[0] == 0) == (KINDS[name].severity is Severity.VOID)


def test_an_agent_that_did_not_answer_to_the_end_scores_0_in_every_term_but_safety() -> None:
    scores = BUILTIN.scores("research", evidence(answered=False))
    assert scores == RubricScores(format=0, tool=0, task=0, minimal=0, cost=0, safety=1)


def test_a_teams_file_sets_functions_weights_gate_and_what_findings_do(tmp_path: Path) -> None:
    rubric = read_rubric(written(tmp_path, TEAM))
    assert (rubric.name, rubric.safety_threshold) == ("team@2", 0.9)
    half = evidence(passed=False, done=0.9, tool=0.5)
    assert rubric.scores("planning", half).tool == 0.5
    assert rubric.scores("planning", half).task == 0
    assert BUILTIN.scores("planning", half).task == 0.45
    found = (Finding(name="edited_checker", evidence="conftest.py"), Finding(name="loop", evidence="again"))
    assert rubric.scores("planning", evidence(findings=found)) == perfect(task=0.1)


@pytest.mark.parametrize(
    ("changed", "to", "problem"),
    [
        ("task: 0.6", "task: 0.7", "otherwise: the weights sum to 1.1, not to 1"),
        ("task: 0.6", "task: .nan", "otherwise.task"),
        ("task: 0.6", "task: 1.6", "otherwise.task"),
        ("cost: 0}\n    functions", "cost: 0, speed: 0}\n    functions", "rows.0.weights.speed"),
        ("task: 0.6, minimal: 0,", "task: 0.6,", "otherwise.minimal: Field required"),
        ("cost: thrift", "cost: thrifty", "there is no term function 'thrifty'; there are written_as_asked"),
        ("{tool: right_calls}", "{tool: right}", "there is no term function 'right'"),
        ("safety: nothing_unsafe", "safe: nothing_unsafe", "functions"),
        ("            cost: thrift, ", "            ", "functions: no function is named for cost"),
        ("[research, planning]", "[research, research]", "research is in more than one row"),
        ("[research, planning]", "[]", "rows.0.task_types"),
        ("edited_checker: report", "edited_checkers: report", "findings: there is no finding edited_checkers"),
        ("edited_checker: report", "edited_checker: maybe", "findings.edited_checker"),
        ("lower: task, by: 0.1", "lower: task, by: 2", "findings.loop"),
        ("version: 2", "version: two", "version"),
        ("version: 2", "version: true", "version"),
        ("version: 2", "version: 2\nversion: 3", "'version' stands twice"),
        ("id: team", "id: Team One", "id: "),
        ("safety_threshold: 0.9", "safety_threshold: 0", "safety_threshold"),
        ("safety_threshold: 0.9", "safety_treshold: 0.9", "safety_treshold"),
        (TEAM, "- a\n- list", "holds no fields"),
        (TEAM, "id: [", "is not valid YAML"),
        (TEAM, "", "holds no fields"),
        (TEAM, "? [1, 2]\n: 3\n? {a: 1}\n: 3", "is not valid YAML"),
    ],
)
def test_what_cannot_be_used_is_named_with_file_and_field(tmp_path: Path, changed: str, to: str, problem: str) -> None:
    broken = TEAM.rsplit(changed, 1)
    assert len(broken) == 2, "the change must change something"
    path = written(tmp_path, to.join(broken))
    with pytest.raises(ConfigurationError) as raised:
        read_rubric(path)
    assert str(path) in str(raised.value)
    assert problem in str(raised.value)


def test_a_file_that_is_not_there_or_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("none.yaml", "bytes.yaml"):
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
            read_rubric(tmp_path / name)


def test_two_files_of_one_version_must_be_equal_and_the_differing_field_is_named(tmp_path: Path) -> None:
    one = written(tmp_path, TEAM, "one.yaml")
    same = written(tmp_path, TEAM + "\n# a remark\n", "same.yaml")
    other = written(tmp_path, TEAM.replace("0.9", "0.8"), "other.yaml")
    assert set(rubrics_of(RubricSettings(files=(one, same)))) == {"builtin@1", "team@2"}
    with pytest.raises(
        ConfigurationError, match=r"one\.yaml and .*other\.yaml are both team@2 and differ in safety_th"
    ):
        rubrics_of(RubricSettings(files=(one, other)))


def test_the_highest_version_of_an_id_scores_unless_one_is_named(tmp_path: Path) -> None:
    files = (written(tmp_path, TEAM), written(tmp_path, TEAM.replace("version: 2", "version: 10"), "later.yaml"))
    assert rubric_of(RubricSettings(files=files, use="team")).name == "team@10"
    assert rubric_of(RubricSettings(files=files, use="team@2")).name == "team@2"
    assert rubric_of(Settings.load(profile="smoke").rubrics) == BUILTIN
    with pytest.raises(ConfigurationError, match=r"no rubric 'teem'; there are builtin@1, team@2, team@10"):
        named_rubric(RubricSettings(files=files), "teem")


def test_nothing_of_a_rubric_is_lost_on_its_way_through_a_job_file(tmp_path: Path) -> None:
    rubric = read_rubric(written(tmp_path, TEAM))
    assert Rubric.model_validate_json(rubric.model_dump_json()) == rubric


def test_other_packages_add_term_functions_and_a_wrong_number_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    entries = importlib.metadata.EntryPoints(
        [
            importlib.metadata.EntryPoint("kind", "tests.arbiter.evaluation.rubrics.test_rubric:kindness", terms.GROUP),
            importlib.metadata.EntryPoint("broken", "no.such.module:term", terms.GROUP),
            importlib.metadata.EntryPoint("number", "tests.arbiter.evaluation.rubrics.test_rubric:SHARE", terms.GROUP),
        ]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", entries.select)
    functions = BUILTIN.functions
    assert terms.term_names()[-3:] == ("kind", "broken", "number")
    rubric = team_rubric(functions=functions | {"format": "kind"})
    assert rubric.scores("research", evidence(format=0.0)).format == 0.25
    with pytest.raises(ConfigurationError, match=r"kind gave 1\.5"):
        rubric.scores("research", evidence(format=1.0))
    for name, problem in (("broken", "cannot be loaded"), ("number", "is no function")):
        with pytest.raises(ValueError, match=problem):
            team_rubric(functions=functions | {"format": name})


SHARE = 0.5


def kindness(found: Evidence) -> float:
    return 0.25 + 1.25 * found.format


# --- terms ----------------------------------------------------------------------------------------------------------


def made(name: str, *, right: bool = True, arguments: str = "{}") -> MadeCall:
    return MadeCall(call=ToolCall(name=name, arguments=arguments), right=right)


def test_wrong_answers_keep_an_order_and_none_reaches_half_of_a_right_one() -> None:
    shares = [terms.work_done(evidence(passed=False, done=share)) for share in (0.0, 0.3, 1.0)]
    assert shares == [0.0, 0.15, 0.5]
    assert terms.work_done(evidence(passed=True, done=0.2)) == 1
    assert [terms.all_or_nothing(evidence(passed=passed, done=0.9)) for passed in (True, False)] == [1, 0]


def test_tools_are_well_used_where_calls_are_right_new_and_errors_lead_to_something_else() -> None:
    assert terms.well_used_tools(evidence()) == 1
    assert terms.well_used_tools(evidence(calls=(made("a"), made("b")))) == pytest.approx(1)
    stubborn = evidence(calls=(made("a", right=False), made("a", right=False)), tool=0.0)
    assert terms.well_used_tools(stubborn) == pytest.approx(0.3 + 0.2 / 2)
    changed = evidence(calls=(made("a", right=False), made("b")), tool=0.5)
    assert terms.well_used_tools(changed) == pytest.approx(0.2 + 0.3 + 0.2 + 0.1)


@given(repeats=st.integers(1, 50))
def test_the_same_call_again_never_raises_the_tool_reward(repeats: int) -> None:
    once = terms.well_used_tools(evidence(calls=(made("a"), made("b"))))
    assert terms.well_used_tools(evidence(calls=(made("a"), made("b"), *(made("b"),) * repeats))) < once


# --- documentation --------------------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[4] / "docs" / "evaluation.md"


def test_the_rubric_of_the_documentation_can_be_used_and_its_tables_are_whole(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    example = page.partition("```yaml\nid: team")[2].partition("```")[0]
    assert read_rubric(written(tmp_path, f"id: team{example}")).name == "team@2"
    for name in (*KINDS, *terms.TERM_FUNCTIONS):
        assert f"| `{name}`" in page, name
    for name, kind in KINDS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        default = f"{kind.term} × ½" if kind.severity is Severity.LOWER else str(kind.severity)
        assert row.endswith(f"| {default} |"), row
