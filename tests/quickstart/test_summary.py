import io
import json
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from flywheel.quickstart.summary import (
    AgentShare,
    Candidate,
    Difference,
    ModelScores,
    Routing,
    Score,
    Summary,
    Traffic,
    print_summary,
    write_summary,
)


def scores(exact: float) -> ModelScores:
    score = Score(exact=exact, low=exact - 0.05, high=exact + 0.05, reward=exact + 0.2, tasks=180)
    return ModelScores(greedy=score, sampled=score)


def traffic(agent: str, share: float) -> Traffic:
    part = AgentShare(tasks=int(100 * share), share=share, success_rate=0.5, mean_quality=0.6)
    return Traffic(tasks=100, success_rate=0.5, agents={agent: part})


def summary(*, registered: bool = True) -> Summary:
    return Summary(
        profile="quickstart",
        batch="batch-20260105-101500",
        models={"base": scores(0.1), "baseZeroShot": scores(0.05), "sft": scores(0.3), "grpo": scores(0.35)},
        differences=[
            Difference(source="sft", target="grpo", mode=mode, figure=figure, value=0.05, low=low, high=0.09)
            for mode, low in (("greedy", -0.01), ("sampled", 0.01))
            for figure in ("exact", "reward")
        ],
        candidate=Candidate(registered=registered, version=2 if registered else None, reason="25.0 % better"),
        routing=Routing(before=traffic("reference", 0.9), after=traffic("champion", 0.4)),
        pool={"lines": 1200, "points": 396, "quarantined": 9, "duplicates": 3, "waiting": 0},
        seconds={"tasks before": 83.2},
        peak_memory_gi_b=6.25,
        links={"Dagster": "http://127.0.0.1:3000"},
    )


def test_the_file_has_the_shape_that_programs_read(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.json", summary())
    found = json.loads((tmp_path / "summary.json").read_text())
    assert {"base", "sft", "grpo"} <= found["models"].keys()
    for model in found["models"].values():
        for decoding in ("greedy", "sampled"):
            assert model[decoding].keys() == {"exact", "low", "high", "reward", "tasks"}
    assert found["candidate"] == {"registered": True, "version": 2, "reason": "25.0 % better"}
    assert found["routing"]["before"]["agents"]["reference"]["share"] == 0.9
    assert found["routing"]["after"]["successRate"] == 0.5
    assert found["pool"].keys() == {"lines", "points", "quarantined", "duplicates", "waiting"}
    assert found["differences"][3] == {
        "from": "sft",
        "to": "grpo",
        "mode": "sampled",
        "figure": "reward",
        "value": 0.05,
        "low": 0.01,
        "high": 0.09,
    }
    assert found["seconds"] == {"tasks before": 83.2}
    assert found["peakMemoryGiB"] == 6.25
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_people_see_every_figure() -> None:
    output = io.StringIO()
    print_summary(Console(file=output, width=140), summary())
    text = output.getvalue()
    for figure in (
        "35.0% (30.0%–40.0%)",
        "0.550",
        "25.0 % better",
        "90.0%",
        "396 points",
        "6.2 GiB",
        "tasks before 83",
        "GRPO against SFT, greedy reward: +0.050 (-0.010 to +0.090), not more than chance explains",
        "GRPO against SFT, sampled reward: +0.050 (+0.010 to +0.090), more than chance explains",
    ):
        assert figure in text


def test_reasons_and_names_of_agents_are_text_and_no_markup() -> None:
    output = io.StringIO()
    found = replace(
        summary(),
        candidate=Candidate(registered=True, version=2, reason="better in [/x]"),
        routing=Routing(before=traffic("[red]", 0.9), after=traffic("[/agent]", 0.4)),
    )
    print_summary(Console(file=output, width=140), found)
    assert all(said in output.getvalue() for said in ("better in [/x]", "[red]", "[/agent]"))


def test_a_model_that_is_not_better_is_said_to_be_none() -> None:
    output = io.StringIO()
    print_summary(Console(file=output, width=140), summary(registered=False))
    assert "No candidate was registered. 25.0 % better" in output.getvalue()
