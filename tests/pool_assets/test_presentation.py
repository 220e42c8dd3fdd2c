"""Plots are small PNGs, whatever they show."""

import base64
import warnings
from collections.abc import Callable, Iterator
from datetime import date

import dagster as dg
import pytest

from flywheel.pool.trends import Outlook, PhaseOutlook, days_until
from pool_assets.presentation import bar_chart, day_chart, outlook_chart, outlook_figures, share_chart, waiting

DAY = date(2026, 3, 10)
DAYS = days_until(DAY)
ODD = ("$x$ costs", "$", "a_{b", "long " * 100, "two\nlines", "ünïcödé", "<b>&", "%", "{}")
Plot = Callable[[], dg.MarkdownMetadataValue]

PLOTS: dict[str, Plot] = {
    "no days": lambda: day_chart(dict.fromkeys(DAYS, 0), title="lines"),
    "one day": lambda: day_chart({DAY: 1}, title="lines"),
    "30 days": lambda: day_chart({day: day.day * 10_000 for day in DAYS}, title="lines"),
    "no shares": lambda: share_chart({}, title="success"),
    "a share without days": lambda: share_chart({"clean": {}}, title="clean", limit=0.95),
    "one share": lambda: share_chart({"clean": {DAY: 0.0}}, title="clean", limit=0.95),
    "30 days of many names": lambda: share_chart(
        {name: {day: (day.day * 7 + number) % 31 / 31 for day in DAYS} for number, name in enumerate(ODD)},
        title="success",
    ),
    "no counts": lambda: bar_chart({}, title="gates"),
    "counts of nothing": lambda: bar_chart({"types": 0}, title="gates"),
    "odd names": lambda: bar_chart({name: number for number, name in enumerate(ODD)}, title="$x$ gates"),
    "shares": lambda: bar_chart({"types": 1.0, "time": 0.0}, title="gates", share=True),
}


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def png_of(value: dg.MarkdownMetadataValue) -> bytes:
    assert value.value is not None
    return base64.b64decode(value.value.split("base64,")[1].removesuffix(")"))


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_png_of_less_than_60_kb(name: str) -> None:
    image = png_of(PLOTS[name]())
    assert image.startswith(b"\x89PNG")
    assert 500 < len(image) < 60_000


def test_the_outlook_says_when_and_when_never() -> None:
    phases = (
        PhaseOutlook(phase="sft", points=310, needed=1_000, per_day=46.0, days=15.0),
        PhaseOutlook(phase="grpo", points=5, needed=10, per_day=0.0, days=None),
        PhaseOutlook(phase="curriculum", points=10, needed=10, per_day=0.0, days=0.0),
    )
    assert [waiting(phase) for phase in phases] == [
        "15.0 days at 46.0 a day",
        "never at this rate, 0 a day",
        "enough",
    ]
    never = Outlook(phases=phases, missing=("5 of 10 points",))
    assert never.days is None
    assert "days_to_next_batch" not in outlook_figures(never)
    assert Outlook(phases=phases[::2], missing=()).days == 15.0
    assert png_of(outlook_chart(never, title="next batch")).startswith(b"\x89PNG")
