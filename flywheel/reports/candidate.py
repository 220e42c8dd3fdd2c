"""The report on a trained model: what it was compared with, on what, and what follows. For people to decide by."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from flywheel.errors import TrainingError
from flywheel.reports.rendering import table
from flywheel.settings import EvaluationSettings
from flywheel.training.verdict import Comparison, Judgement, TaskOutcome, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINES = ("baseZeroShot", "baseFewShot", "champion")
PRETRAINED = BASELINES[:2]
CANDIDATE_LABEL = "grpo"
TITLES = {
    "baseZeroShot": "base, zero-shot",
    "baseFewShot": "base, few-shot",
    "champion": "champion",
    "sft": "SFT",
    "grpo": "GRPO",
}
DECODINGS = {"greedy": "greedy", "sampled": "sampled, T = 1"}
ACCENT, QUIET = "#4f43dd", "#b9b5ee"


class CandidateReport(Struct, frozen=True, kw_only=True):
    """A judged candidate.

    Attributes:
        judgement: the rule's outcome on greedy answers.
        baseline: label of the model it was held against: the best of the pretrained model's two prompts and the
            champion, where one serves.
        models: figures by label, and those of the better prompt again as ``base``.
        differences: paired intervals between neighbouring models.
    """

    judgement: Judgement
    baseline: str
    models: dict[str, dict[str, Any]]
    differences: list[dict[str, Any]]


class AnswerRow(Struct, frozen=True, kw_only=True):
    """What the judgement needs of an evaluated answer."""

    label: str
    mode: str
    task_id: str
    task_type: str
    trained: bool
    exact: bool


def judge_candidate(result: Mapping[str, Any], answers: Path, *, recipe: EvaluationSettings) -> CandidateReport:
    """Judge an evaluation's result: GRPO's greedy answers against those of the best baseline.

    Args:
        result: what the evaluation job wrote.
        answers: its file of answers, a JSON object a line.
        recipe: confidence and improvement asked for.

    Raises:
        TrainingError: the answers cannot be read.
    """
    models = dict(result["models"])
    baseline = best_of(models, BASELINES)
    outcomes = greedy_outcomes(answers)
    judgement = judge(
        outcomes[baseline],
        outcomes[CANDIDATE_LABEL],
        min_improvement=recipe.min_improvement,
        confidence=recipe.confidence,
    )
    return CandidateReport(
        judgement=judgement,
        baseline=baseline,
        models={"base": models[best_of(models, PRETRAINED)], **models},
        differences=list(result["differences"]),
    )


def best_of(models: Mapping[str, Mapping[str, Any]], labels: Sequence[str]) -> str:
    """The label, of those that were compared, with the highest greedy accuracy; the first of equal ones."""
    return max((label for label in labels if label in models), key=lambda label: models[label]["greedy"]["exact"])


def titles(models: Mapping[str, Any]) -> dict[str, str]:
    """What the compared models are called, in the order they are shown."""
    return {label: title for label, title in TITLES.items() if label in models}


def greedy_outcomes(path: Path) -> dict[str, list[TaskOutcome]]:
    """Greedy answers to the tasks of trained categories, by model.

    Raises:
        TrainingError: the file cannot be read.
    """
    try:
        rows = msgspec.json.Decoder(AnswerRow).decode_lines(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise TrainingError(f"the evaluation's answers cannot be read from {path}: {error}") from error
    outcomes: dict[str, list[TaskOutcome]] = {}
    for row in rows:
        if row.mode == "greedy" and row.trained:
            outcome = TaskOutcome(task_id=row.task_id, task_type=row.task_type, exact=row.exact)
            outcomes.setdefault(row.label, []).append(outcome)
    return outcomes


def markdown(report: CandidateReport, *, batch_id: str, lineage: Mapping[str, str]) -> str:
    """The report as Markdown: verdict first, then figures, then where they come from."""
    verdict = "registered as candidate" if report.judgement.is_better else "not registered"
    return "\n\n".join(
        [
            f"# Batch {batch_id}: {verdict}",
            f"{report.judgement.reason}. Held against: {TITLES[report.baseline]}.",
            "## Held-out tasks",
            models_table(report.models),
            "Exact answers with Wilson's 95 % interval; the reward is the rubric's overall score (0–1).",
            "## By task type, greedy",
            types_table(report.judgement.by_task_type),
            "## What each step changed, paired by task",
            differences_table(report.differences),
            *not_trained_on(report.models),
            "## Lineage",
            table(("", ""), sorted(lineage.items())),
        ]
    )


def models_table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a model, greedy and sampled."""
    header = ["model"]
    for title in DECODINGS.values():
        header += [f"{title}: exact", "reward"]
    rows = []
    for label, title in titles(models).items():
        row = [title]
        for decoding in DECODINGS:
            figures = models[label][decoding]
            row += [share(figures["exact"], figures["low"], figures["high"]), f"{figures['reward']:.3f}"]
        rows.append([*row, str(models[label]["greedy"]["tasks"])])
    return table((*header, "tasks"), rows)


def types_table(types: Mapping[str, Comparison]) -> str:
    """One row a task type: baseline, candidate, difference."""
    rows = [
        (
            name,
            comparison.tasks,
            f"{comparison.baseline:.1%}",
            f"{comparison.candidate:.1%}",
            f"{comparison.difference:+.1%} ({comparison.low:+.1%} to {comparison.high:+.1%})",
            f"{comparison.p_value:.3f}",
        )
        for name, comparison in types.items()
    ]
    return table(("task type", "tasks", "baseline", "candidate", "difference", "p"), rows)


def differences_table(differences: Sequence[Mapping[str, Any]]) -> str:
    """One row a pair of neighbouring models, decoding and figure."""
    rows = [
        (
            f"{TITLES[entry['from']]} → {TITLES[entry['to']]}",
            DECODINGS[entry["mode"]],
            entry["figure"],
            f"{entry['value']:+.3f} ({entry['low']:+.3f} to {entry['high']:+.3f})",
        )
        for entry in differences
    ]
    return table(("step", "decoding", "figure", "difference"), rows)


def not_trained_on(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Categories that are only reported, where there are any."""
    names = sorted(models[CANDIDATE_LABEL]["not_trained_on"])
    if not names:
        return []
    rows = [
        (
            title,
            *(
                share(figures["exact"], figures["low"], figures["high"])
                for name in names
                for figures in (models[label]["not_trained_on"][name],)
            ),
        )
        for label, title in titles(models).items()
    ]
    return ["## Not trained on, reported apart (greedy, exact)", table(("model", *names), rows)]


def plot(report: CandidateReport) -> "Figure":
    """Exact accuracy of each model with its interval, greedy beside sampled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot()
    labels = list(titles(report.models))
    for offset, (decoding, color) in enumerate(zip(DECODINGS, (ACCENT, QUIET), strict=True)):
        scores = [report.models[label][decoding] for label in labels]
        places = [number + (offset - 0.5) * 0.38 for number in range(len(labels))]
        values = [score["exact"] for score in scores]
        errors = [
            [score["exact"] - score["low"] for score in scores],
            [score["high"] - score["exact"] for score in scores],
        ]
        axes.bar(places, values, width=0.36, color=color, label=DECODINGS[decoding])
        axes.errorbar(places, values, yerr=errors, fmt="none", ecolor="#333333", capsize=3, linewidth=1)
    axes.set_xticks(range(len(labels)), [TITLES[label] for label in labels])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(bottom=0)
    axes.set_title("Exact answers to held-out tasks, 95 % intervals", loc="left")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def share(value: float, low: float, high: float) -> str:
    """A share with its interval."""
    return f"{value:.1%} ({low:.1%}–{high:.1%})"
