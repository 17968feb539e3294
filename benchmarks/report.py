"""What a run's page costs to write, to carry and to paint, beside the same plots under plotly's full bundle.

Two recordings are simulated with the clock given: four hours of two GPUs at 100 Hz with a log, 31 hours of eight.
Paint is measured in Chromium, from the start of the navigation to the second frame after the page has drawn.
`python benchmarks/report.py --help`
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import long_recordings

from gputel.analysis.document import Curves, Document, Heat, Panel
from gputel.analysis.documents.report import report_document
from gputel.analysis.render import downsample
from gputel.analysis.report import run_report
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run
from gputel.telemetry.clock import SECOND
from tests import browser

ROUNDS = 5
FRAMES = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
)
PAINTED = "document.documentElement.dataset.painted = performance.now();"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=31.0, help="of the long recording; 0 leaves it out")
    parser.add_argument("--keep", type=Path, help="where recordings are kept, and found again")
    parser.add_argument("--out", type=Path, help="where to write the results, else standard output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputel-report-") as scratch:
        folder = options.keep or Path(scratch)
        few = Cost.of(
            recording(folder, "four-hours", "2xH100", 4.0, 12_800), Path(scratch) / "four-hours.html"
        )
        lines = [*head()]
        if options.hours:  # before anything else fills this process, whose memory a child's count begins with
            run = recording(folder, f"{options.hours:g}-hours", "8xH100", options.hours, 33_600)
            many = Cost.of(run, Path(scratch) / "day.html")
        lines += four_hours(few, Path(scratch))
        if options.hours:
            lines += day(many, options.hours)
    text = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


@dataclass(frozen=True)
class Cost:
    """Of the command, started as people start it."""

    run: Path
    page: Path
    wall_s: float
    cpu_s: float
    mib: float

    @classmethod
    def of(cls, run: Path, page: Path) -> Cost:
        command = [sys.executable, "-m", "gputel", "report", str(run), "--html", "--out", str(page)]
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        assert status == 0
        wall_s = time.perf_counter() - start
        return cls(run, page, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def __str__(self) -> str:
        bytes_ = f"{self.page.stat().st_size:,} bytes"
        return f"{self.wall_s:.1f} s ({self.cpu_s:.1f} s of CPU), {self.mib:.0f} MiB at most, {bytes_}"


def head() -> Iterator[str]:
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    yield from ("# Pages", "", f"{date.today()}, {machine}, Python {platform.python_version()}.")
    yield f"The machine's load was {os.getloadavg()[0]:.1f} when this began: ratios tell more than seconds."


def recording(folder: Path, name: str, machine: str, hours: float, steps: int) -> Path:
    made = folder / name
    return made if made.exists() else long_recordings.make(made, machine, hours, steps)


def four_hours(cost: Cost, scratch: Path) -> Iterator[str]:
    yield from ("", "## Four hours of two GPUs at 100 Hz, with a log of 12,800 steps", "")
    yield f"`gputel report RUN --html`: {cost}."
    told = report_document(make_report(read_run(cost.run)))
    plots, plots_s = plotly_of(told, scratch / "plots.html")
    raw, raw_s = raw_points(cost.run, scratch / "raw.html")
    yield from ("", "| | bytes | to write | to paint | heap |", "|---|---|---|---|---|")
    with browser.started() as chromium:
        for what, file, seconds in (
            ("the page", cost.page, cost.wall_s),
            ("the same plots under the full bundle", plots, plots_s),
            ("2,880,000 raw points of power under the full bundle", raw, raw_s),
        ):
            paint, heap = painted(chromium, file, ROUNDS if file != raw else 2)
            yield f"| {what} | {file.stat().st_size:,} | {seconds:.1f} s | {paint:.0f} ms | {heap:.0f} MB |"


def day(cost: Cost, hours: float) -> Iterator[str]:
    told = make_report(read_run(cost.run))
    samples = f"{hours * 3600 * long_recordings.HZ * 8:,.0f} samples a column"
    yield from ("", f"## {hours:g} hours of eight GPUs at 100 Hz ({samples}), with 33,600 steps", "")
    yield f"`gputel report RUN --html`: {cost}."
    peak, joules = peak_of(report_document(told)), float(told.totals["energy_j"].sum())
    raw_peak, raw_joules = of_all_ticks(told)
    yield f"Highest power on the page {peak:.3f} W, of all ticks {raw_peak:.3f} W."
    apart = joules / raw_joules - 1
    yield f"Energy of all spans {joules:,.0f} J, of all ticks in them {raw_joules:,.0f} J ({apart:+.1e})."


def painted(chromium: browser.Browser, file: Path, rounds: int) -> tuple[float, float]:
    """Median milliseconds to the second frame after everything was drawn, and megabytes of heap."""
    times, heaps = [], []
    for _ in range(rounds):
        tab = chromium.tab()
        tab.open(file)
        times.append(float(tab.evaluate(FRAMES)))
        heap = tab.call("Runtime.getHeapUsage")
        heaps.append((heap["usedSize"] + heap.get("backingStorageSize", 0)) / 1e6)
        tab.close()
    return statistics.median(times), statistics.median(heaps)


def plotly_of(page: Document, file: Path) -> tuple[Path, float]:
    """Every panel with the points that our page draws; bands as plotly draws them, filled between two lines."""
    panels = list(page.panels())
    curves = iter(downsample.curves([panel for panel in panels if isinstance(panel, Curves)]))
    drawn: list[Panel] = [next(curves) if isinstance(panel, Curves) else panel for panel in panels]
    start = time.perf_counter()
    figures = [figure for panel in drawn if (figure := figure_of(panel)) is not None]
    write_plotly(figures, file)
    return file, time.perf_counter() - start


def figure_of(panel: Panel) -> Any:
    import plotly.graph_objects as go

    if isinstance(panel, Heat):
        heat = go.Heatmap(x=panel.x_edges[:-1], y=panel.y_edges[:-1], z=panel.values.astype(np.float32))
        return go.Figure([heat])
    if not isinstance(panel, Curves):
        return None
    figure, axis = go.Figure(), panel.axes[0].name
    for series in panel.series:
        x, y = series.x[axis].astype(np.float32), series.y.astype(np.float32)
        if series.low is not None and series.high is not None:
            figure.add_scatter(x=x, y=series.low.astype(np.float32), mode="lines", line_width=0)
            figure.add_scatter(
                x=x, y=series.high.astype(np.float32), mode="lines", line_width=0, fill="tonexty"
            )
        figure.add_scatter(x=x, y=y, name=series.name, mode="lines")
    return figure.update_layout(title=panel.title, height=280)


def write_plotly(figures: list[Any], file: Path) -> None:
    import plotly.io as pio

    count = f"if ((window.drawn = (window.drawn || 0) + 1) === {len(figures)}) {{ {PAINTED} }}"
    parts = [
        pio.to_html(figure, full_html=False, include_plotlyjs=number == 0, post_script=count)
        for number, figure in enumerate(figures)
    ]
    file.write_text("<!doctype html><html><body>" + "".join(parts) + "</body></html>")


def raw_points(run: Path, file: Path) -> tuple[Path, float]:
    """What people have today: every sample of power of two GPUs in one plot."""
    import plotly.graph_objects as go

    start = time.perf_counter()
    gpu = read_run(run).gpu
    assert gpu is not None
    figure = go.Figure()
    for (index,), own in gpu.group_by("gpu", maintain_order=True):
        figure.add_scatter(
            x=own["time"].dt.epoch("ms").to_numpy(),
            y=own["power_w"].to_numpy(),
            name=f"GPU {index}",
            mode="lines",
        )
    write_plotly([figure], file)
    return file, time.perf_counter() - start


def peak_of(page: Document) -> float:
    power = next(panel for panel in page.panels() if panel.name == "power")
    assert isinstance(power, Curves)
    (thinned,) = downsample.curves([power])
    return max(
        float(np.nanmax(series.y if series.high is None else series.high)) for series in thinned.series
    )


def of_all_ticks(told: run_report.Report) -> tuple[float, float]:
    """Straight from the files: the highest tick of any GPU, and each tick held until the next, summed."""
    from gputel.telemetry.store import frames

    recorded_as = told.subject.recording
    assert recorded_as is not None
    start = told.spans["start"].dt.epoch("ns").min()
    end = told.spans["end"].dt.epoch("ns").max()
    peak, joules = 0.0, 0.0
    last: tuple[int, Any] | None = None
    for stretch in frames.one_reading(recorded_as.folder.segments[0].gpu, "power_w"):
        times = stretch["time_ns"].to_numpy()
        watts = stretch.drop("time_ns").to_numpy()
        if last is not None:
            times, watts = np.insert(times, 0, last[0]), np.vstack([last[1], watts])
        inside = np.clip(times, start, end)  # type: ignore[arg-type]
        joules += float((watts[:-1] * (np.diff(inside) / SECOND)[:, None]).sum())
        peak = max(peak, float(np.nanmax(watts)))
        last = int(times[-1]), watts[-1]
    return peak, joules


if __name__ == "__main__":
    main()
