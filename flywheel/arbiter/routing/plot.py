"""The learning curve of a replay: as a picture, or as text in the terminal."""

from pathlib import Path

from flywheel.arbiter.routing.replay import ReplayReport

WIDTH, HEIGHT = 60, 16


def save_curve(report: ReplayReport, path: Path) -> None:
    """Draw the curve to a file; its ending says whether as PNG or SVG.

    Raises:
        ValueError: the ending is another.
    """
    if path.suffix not in {".png", ".svg"}:
        raise ValueError(f"a curve is drawn as .png or .svg, and {path.name} is neither")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    tasks = [report.tasks * (i + 1) / len(report.curve) for i in range(len(report.curve))]
    axes.plot(tasks, report.curve, label=report.strategy)
    axes.plot(tasks, report.best_curve, label=f"best single agent ({report.best_agent})")
    for name, value in (("best per type", report.best_per_type), ("random", report.random)):
        axes.axhline(value, linestyle=":", color="grey")
        axes.annotate(name, (0, value), fontsize="small", color="grey", va="bottom")
    axes.set_xlabel("tasks")
    axes.set_ylabel("running mean reward")
    axes.legend(loc="lower right")
    figure.savefig(path)


def text_curve(report: ReplayReport) -> str:
    """The curve in characters: ``*`` the strategy, ``-`` the best single agent."""
    values = [*report.curve, *report.best_curve]
    low, high = min(values), max(values)
    span = high - low or 1.0
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    for curve, mark in ((report.best_curve, "-"), (report.curve, "*")):
        for column in range(WIDTH):
            value = curve[column * len(curve) // WIDTH]
            rows[HEIGHT - 1 - round((value - low) / span * (HEIGHT - 1))][column] = mark
    labels = [f"{high - span * row / (HEIGHT - 1):.3f}" for row in range(HEIGHT)]
    lines = [f"{label} |{''.join(row)}" for label, row in zip(labels, rows, strict=True)]
    return "\n".join([*lines, f"      +{'-' * WIDTH}", f"       1{report.tasks:>{WIDTH - 1}} tasks"])
