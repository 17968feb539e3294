"""Every kind of page under axe-core, in both themes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gputel.analysis.document import (
    Bars,
    Curves,
    Document,
    FactList,
    Heat,
    Level,
    Marker,
    PlotAxis,
    Section,
    Series,
    Table,
)
from gputel.analysis.render import html
from gputel.cli import group
from tests.browser import Browser
from tests.browser.axe import violations

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long]

LOGS = Path(__file__).resolve().parents[3] / "sample_logs"
D16, D24 = (str(LOGS / f"d{depth}-base.log.gz") for depth in (16, 24))
COMMANDS = {
    "report": ("report", D16),
    "parse": ("parse", D16, D24, str(LOGS / "nan.log")),
    "compare": ("compare", D16, D24),
    "runs": ("runs", str(LOGS)),
    "plan": ("plan", "--depth", "12,20", "--on", "8xH100"),
}


def everything() -> Document:
    """One of each item, with twelve runs and a heat map of eight GPUs."""
    step, time = PlotAxis("step", "step"), PlotAxis("time", "time", "s")
    x = np.arange(50.0)
    runs = tuple(f"run{n}" for n in range(12))
    series = tuple(Series(run, {"step": x}, n + x, run=run, tint=n) for n, run in enumerate(runs))
    marks = (Marker("nan", "nan at step 9", {"step": 9.0}),)
    loss = Curves(
        "loss", "Loss", (step,), PlotAxis("loss", "loss"), series, marks, (Level(9.0, "limit"),), noisy=True
    )
    heat = Heat(
        "h", "Power by GPU", time, PlotAxis("gpu", "GPU"), PlotAxis("power", "Power", "W"),
        np.arange(11.0), np.arange(9.0), np.full((8, 10), 600.0), names=tuple(f"GPU {n}" for n in range(8)),
    )  # fmt: skip
    bars = Bars("b", "Time", "s", ("d16",), ("train", "eval", "idle"), np.array([[9.0, 3.0, 1.0]]))
    tables = (
        Table("T", ("", "W"), [("a", 1), ("b", 2), ("c", None)]),
        Table("F", ("a",), [("b",)], folded=True),
    )
    sections = [Section(title, [FactList({"run": title})]) for title in ("One", "Two", "Three")]
    return Document(
        "runs", [Section("", [loss, heat, bars, *tables]), *sections], "about", "caution", runs=runs
    )


@pytest.fixture(scope="module", params=["everything", *COMMANDS])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    if request.param == "everything":
        file.write_bytes(html.html(everything()))
    else:
        words = [*COMMANDS[request.param], "--html", "--out", str(file)]
        assert CliRunner().invoke(group, words, standalone_mode=False).exception is None
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_breaks_no_rule(dark: bool, page: Path, chromium: Browser) -> None:
    tab = chromium.tab(dark=dark)
    tab.open(page)
    tab.evaluate("document.querySelectorAll('details').forEach((own) => { own.open = true; })")
    tab.evaluate("charts.slice(0, 4).forEach(showFigures)")
    assert violations(tab) == []
    assert tab.errors == []
