"""The page of a run: telemetry with what happened behind it, and what the run printed, on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gputel.analysis.document import Bars, Curves, Document, FactList, Heat, Table
from gputel.analysis.documents.panels import samples
from gputel.analysis.documents.panels.samples import drawn_samples
from gputel.analysis.documents.report import report_document
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import RunData, read_run
from gputel.telemetry import run_folder
from gputel.telemetry.store import frames, parquet
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import SECOND, START, clock, fill, step, validation

BEGUN = 10**18  # when the clock of `compose` began
LENGTH_S = 200
FAST = Tier(
    "fast",
    10.0,
    tuple(TierColumn(name, "W", 1000, gpu) for gpu in ("0", "1") for name in ("power_w", "temp_c")),
)
PEAK_W = 915.0


def watts(n: int, gpu: int) -> float:
    """Idle for half a minute at either end; one tick of the second GPU stands out."""
    if n == 1234 and gpu == 1:
        return PEAK_W
    busy = 300 <= n < 10 * LENGTH_S - 300
    return 600 + 50 * math.sin(n) + gpu if busy else 80.0


@pytest.fixture
def subject(tmp_path: Path, compose: Callable[..., None]) -> RunData:
    """Two GPUs at 10 Hz; a step a second from second 31 to 170, a validation that took ten seconds among them."""
    shift = (BEGUN - START) / 1e9
    facts = {
        "run": "d12",
        "started": clock(shift),
        "ended": clock(shift + LENGTH_S),
        "simulated": "2xH100",
        "gpus": [],
    }
    segment = run_folder.create(tmp_path / "run", facts)
    lines = [(shift + 31 + n, step(n, dt_ms=1000)) for n in range(70)]
    lines += [(shift + 110, validation(70))]
    lines += [(shift + 111 + n, step(70 + n, dt_ms=1000)) for n in range(60)]
    fill(segment, lines)
    ticks = [
        (0, n * SECOND // 10, [v for gpu in (0, 1) for v in (round(1000 * watts(n, gpu)), 55_000)])
        for n in range(10 * LENGTH_S)
    ]
    compose(segment.gpu, [FAST], ticks)
    return read_run(tmp_path / "run")


def panels(page: Document) -> dict[str, Curves | Heat | Bars]:
    return {panel.name: panel for panel in page.panels()}


def curves(page: Document, name: str) -> Curves:
    panel = panels(page)[name]
    assert isinstance(panel, Curves)
    return panel


def test_events_are_markers_in_the_telemetry_at_their_time(subject: RunData) -> None:
    page = report_document(make_report(subject))
    power = curves(page, "power")
    (evaluated,) = [mark for mark in power.marks if mark.kind == "eval"]
    assert evaluated.end is not None
    start_s = (power.axes[0].start_ns or 0) / 1e9 - BEGUN / 1e9
    assert evaluated.end["time"] + start_s == pytest.approx(110, abs=0.2)
    assert 8 < evaluated.end["time"] - evaluated.x["time"] < 11
    assert page.caution == "SIMULATED: 2xH100; no real GPU data"


def test_idle_ends_are_cut_and_shown_when_asked_for(subject: RunData) -> None:
    result = make_report(subject)
    cut, whole = (curves(report_document(result, keep_idle=keep), "power") for keep in (False, True))
    lengths = [float(np.ptp(panel.series[0].x["time"])) for panel in (cut, whole)]
    assert lengths[1] == pytest.approx(LENGTH_S, abs=0.2)
    assert 140 < lengths[0] < 185
    said = [section.text for section in report_document(result).sections if section.title == "GPUs"]
    assert said[0].startswith("Idle time is left out: ")
    assert said[0].endswith("after the run; --keep-idle shows it.\n")


def test_all_panels_over_time_are_linked_and_the_runs_own_curves_among_them(subject: RunData) -> None:
    page = report_document(make_report(subject))
    found = panels(page)
    assert {
        "time-spent",
        "energy-spent",
        "power",
        "temperature",
        "energy-per-step",
        "loss",
        "val_loss",
    } <= set(found)
    over_time = [panel for panel in found.values() if isinstance(panel, Curves)]
    assert {panel.link for panel in over_time} == {"recording"}
    assert {panel.axes[0].start_ns for panel in over_time} == {over_time[0].axes[0].start_ns}
    assert isinstance(found["spectrogram-1min"], Heat)


def test_energy_of_a_step_is_drawn_where_all_of_it_was_measured(subject: RunData) -> None:
    report = make_report(subject)
    steps = report.steps.with_columns(
        measured=pl.when(pl.col("step") == pl.col("step").max()).then(0.5).otherwise(1.0)
    )
    drawn = curves(report_document(replace(report, steps=steps)), "energy-per-step").series[0].y
    assert np.isnan(drawn).tolist() == [False] * (len(steps) - 1) + [True]


def tables(page: Document) -> dict[str, Table]:
    return {
        item.title: item for section in page.sections for item in section.items if isinstance(item, Table)
    }


def facts(page: Document, title: str) -> dict[str, str]:
    items = [item for section in page.sections for item in section.items if isinstance(item, FactList)]
    return next(item.known() for item in items if item.title == title)


def test_time_and_energy_stand_in_one_table_of_phases(subject: RunData) -> None:
    page = report_document(make_report(subject), panels=False)
    title, table = next((title, table) for title, table in tables(page).items() if "by phase" in title)
    assert title.startswith("Time and energy by phase: ")
    assert table.columns == ["phase", "time", "time\nshare", "energy", "energy\nshare", "mean\npower"]
    assert {row[0]: row[1] for row in table.rows}["training"] == "2 min 10 s"
    training = tables(page)["Training by phase"]
    assert training.columns[:3] == ["phase", "steps", "ms/step"]
    assert training.rows[0][:3] == ("train", "130", "1,000.00")


def test_sensors_and_findings_are_facts(subject: RunData) -> None:
    page = report_document(make_report(subject), panels=False)
    assert facts(page, "Sensors")["too few changes to tell"] == "temperature"
    assert facts(page, "Findings")["bottleneck, headroom, stragglers"].splitlines() == [
        "unknown",
        "the GPU readings are simulated (2xH100): no verdict",
    ]


def test_document_without_panels_has_the_same_facts_and_tables(subject: RunData) -> None:
    report = make_report(subject)
    drawn, plain = report_document(report), report_document(report, panels=False)
    assert tables(drawn) == tables(plain)
    assert facts(drawn, "") == facts(plain, "")
    assert list(drawn.panels())
    assert not list(plain.panels())


def test_bars_add_up_to_the_run(subject: RunData) -> None:
    result = make_report(subject)
    spent = panels(report_document(result))["time-spent"]
    assert isinstance(spent, Bars)
    assert np.nansum(spent.values) == pytest.approx(result.totals["duration_s"].sum())


def test_long_recording_is_reduced_without_losing_an_extreme_or_a_joule(
    subject: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whole seconds, compacted and not: the peak of one tick is there, and the mean is that of all ticks."""
    recording = subject.recording
    assert recording is not None
    raw = recording.gpu
    monkeypatch.setattr(samples, "FEW", -1)
    monkeypatch.setattr(samples, "POINTS", 50)
    gpu = recording.folder.segments[0].gpu
    for compact in (False, True):
        if compact:
            parquet.compact(gpu, everything=True)
        reduced = drawn_samples(subject)
        assert reduced is not None
        assert reduced["ticks"].sum() == len(raw)
        assert of_gpus(reduced, "power_w_min", pl.Expr.min) == of_gpus(raw, "power_w", pl.Expr.min)
        assert of_gpus(reduced, "power_w_max", pl.Expr.max) == of_gpus(raw, "power_w", pl.Expr.max)
        assert of_gpus(reduced, "power_w_max", pl.Expr.max)[1] == PEAK_W
        weighted = reduced.with_columns(power_w_mean=pl.col("power_w_mean") * pl.col("ticks"))
        sums = [total / 2000 for total in of_gpus(weighted, "power_w_mean", pl.Expr.sum)]
        assert sums == pytest.approx(of_gpus(raw, "power_w", pl.Expr.mean), rel=1e-5)


def of_gpus(frame: pl.DataFrame, column: str, how: Callable[[pl.Expr], pl.Expr]) -> list[float]:
    return frame.group_by("gpu").agg(how(pl.col(column))).sort("gpu")[column].to_list()


def test_power_of_all_gpus_comes_tick_by_tick(subject: RunData) -> None:
    recording = subject.recording
    assert recording is not None
    (stretch,) = samples.power(subject, BEGUN)
    assert np.allclose(stretch[0], np.arange(10 * LENGTH_S) / 10, atol=1e-6)
    assert np.allclose(stretch[1], [watts(n, 0) + watts(n, 1) for n in range(10 * LENGTH_S)], atol=1e-2)
    assert samples.polled_hz(subject) == pytest.approx(10)
    assert sum(len(part) for part in frames.one_reading(recording.folder.segments[0].gpu, "power_w")) == 2000


def test_bare_log_has_its_curves_by_step(tmp_path: Path) -> None:
    log = tmp_path / "d12.log"
    log.write_text("".join(f"{step(n)}\n" for n in range(20)))
    page = report_document(make_report(read_run(log)))
    assert curves(page, "loss").axes[0].name == "step"
