"""A fact that several figures share has one definition in the source, and the figures agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gputel.analysis
from gputel.analysis import columns
from gputel.analysis.align.join import measured
from gputel.analysis.align.windows import longest_silence_ns
from gputel.analysis.compare import compare, gate
from gputel.analysis.document import Curves, Heat, PlotAxis
from gputel.analysis.documents.panels import gpus, spectrogram
from gputel.analysis.documents.panels.spectrogram import SpectrumWindows
from gputel.analysis.plan import inputs
from gputel.analysis.report.gpu_totals import folder_totals
from gputel.analysis.runs import facts, paths, printed_times
from gputel.telemetry.clock import SECOND
from gputel.telemetry.errors import GputelError
from gputel.telemetry.store import frames
from gputel.telemetry.store.tiers import Tier, TierColumn

Compose = Callable[..., None]
ROOMS = Path(gputel.analysis.__file__).resolve().parent

DEFINITIONS = {
    "how much of a second was sampled": (r"np\.quantile\(ticks", "align/windows.py"),
    "gap in the sampling": (r"GAP_POLLS = |\bHOLE\b|\bHOLE_", "align/windows.py"),
    "usual time of a step": (r"rolling_median\(AROUND|AROUND = ", "runs/printed_times.py"),
    "FLOPs a parameter": (
        r"FLOPS_PER_PARAMETER = 6|\b6(\.0)? ?\* ?(float\()?[\w.\[\"]*parameters",
        "runs/facts.py",
    ),
    "better direction of a metric": (r"sacrebleu|\bperplexities\b", "columns.py"),
    "duration and money as text": (r"def (duration|money)\(\w+: float", "text.py"),
    "joules in a kWh, MiB in a GiB": (r"(JOULES_PER_KWH|MIB_PER_GIB) = ", "text.py"),
    "caution of a simulation": (r"no real GPU data", "document.py"),
    "axes that runs share": (r"all\([\w.]+ in \w+\.track\.costs", "compare/curves.py"),
    "step at which a run goes on": (r"resumed_step\(\w", "logs/saved_steps.py"),
    "joules": (r"coalesce\(\s*['\"]energy_counter_j", "align/join.py"),
    "file that may be overwritten": (r"was not written by gputel", "render/files.py"),
    "strict JSON of a value": (r"\ndef as_json\(value", "document.py"),
    "loss that begins to be NaN": (r"LogEvent\(\"nan\"", "logs/events.py"),
    "steps that begin again": (r"LogEvent\(\"restart\"", "logs/events.py"),
    "moment as text": (r"import (\w+, )*iso\b|%S%\.9fZ|%d %H:%M:%S\"|%H:%M:%SZ", "text.py"),
}


def homes(pattern: str) -> list[str]:
    """The modules of the package's analysis in which the pattern occurs."""
    return [
        str(path.relative_to(ROOMS))
        for path in sorted(ROOMS.rglob("*.py"))
        if re.search(pattern, path.read_text())
    ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_stands_in_one_module(name: str) -> None:
    pattern, home = DEFINITIONS[name]
    assert homes(pattern) == [home]


def test_plan_estimates_the_flops_of_a_size_as_compare_does() -> None:
    size = inputs.of_parameters(10**9, "1B")
    assert size.flops_per_token == facts.estimated_flops(10**9) == 6e9


def test_usual_time_of_a_step_is_the_median_of_the_51_records_around_it() -> None:
    times = pl.DataFrame({"ms": [10.0] * 30 + [None] * 5 + [1000.0] * 10 + [30.0] * 60})
    usual = times.select(printed_times.usual_near(pl.col("ms")))["ms"]
    assert (usual[0], usual[40], usual[-1]) == (10.0, 30.0, 30.0)


START = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def silent(poll_s: float, silence_s: float) -> pl.DataFrame:
    """A GPU at 100 W, polled for 100 s before a silence and for 100 s after it."""
    before = np.arange(0, 100, poll_s)
    seconds = np.concatenate([before, before[-1] + silence_s + before])
    moments = pl.Series(int(START.timestamp()) * 10**9 + (seconds * 1e9).astype(np.int64))
    time = moments.cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return pl.DataFrame({"time": time, "gpu": "0", "power_w": 100.0})


def by_second(ticks: pl.DataFrame) -> pl.DataFrame:
    power = pl.col("power_w")
    return ticks.group_by("gpu", pl.col("time").dt.truncate("1s"), maintain_order=True).agg(
        ticks=pl.len().cast(pl.Int64),
        power_w_mean=power.mean(),
        power_w_min=power.min(),
        power_w_max=power.max(),
    )


def curve_breaks(readings: pl.DataFrame) -> bool:
    (panel,) = gpus.panels(readings)
    assert isinstance(panel, Curves)
    return bool(np.isnan(panel.series[0].y).any())


def energy_is_missing(readings: pl.DataFrame) -> bool:
    """Whether a part of the time before the last sample costs nothing."""
    span = readings.select(pl.col("time").min().alias("start"), pl.col("time").max().alias("end"))
    return bool(measured(span, readings)["measured"][0] < 0.999)


def spectrogram_is_empty(ticks: pl.DataFrame, poll_s: float) -> bool:
    """Whether a window as short as the silence has no samples."""
    seconds = (ticks["time"].dt.epoch("ns").to_numpy() - int(START.timestamp()) * 10**9) / 1e9
    longest_s = longest_silence_ns(poll_s * 1e9) / 1e9
    windows = SpectrumWindows(10 * poll_s, 1 / poll_s, 0.0, float(seconds[-1]), longest_s)
    heat = spectrogram.panel(
        "s", "S", [(seconds, 100 + seconds % 3)], windows, PlotAxis("time", "time"), None
    )
    assert isinstance(heat, Heat)
    return bool(np.isnan(heat.values).any())


SILENCES = [
    (0.01, 0.9, False),
    (0.01, 1.4, True),
    (0.1, 3.0, True),
    (0.5, 4.0, False),
    (0.5, 8.0, True),
    (1.0, 8.0, False),
    (1.0, 12.0, True),
    (5.0, 40.0, False),
    (5.0, 60.0, True),
]


@pytest.mark.parametrize(("poll_s", "silence_s", "gap"), SILENCES)
def test_curve_energy_and_spectrogram_break_at_the_same_silence(
    poll_s: float, silence_s: float, gap: bool
) -> None:
    ticks = silent(poll_s, silence_s)
    assert (curve_breaks(ticks), energy_is_missing(ticks), spectrogram_is_empty(ticks, poll_s)) == (gap,) * 3


@pytest.mark.parametrize(("poll_s", "silence_s", "gap"), [one for one in SILENCES if one[1] > 2])
def test_whole_seconds_break_where_their_ticks_do(poll_s: float, silence_s: float, gap: bool) -> None:
    seconds = by_second(silent(poll_s, silence_s))
    assert (curve_breaks(seconds), energy_is_missing(seconds)) == (gap, gap)


def test_account_and_spans_measure_the_same_seconds_of_a_recording(tmp_path: Path, compose: Compose) -> None:
    """Sampled at 10 Hz from 0.7 s to 12.3 s and from 20.4 s to 31.9 s."""
    tier = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"),))
    sampled = [tick for tick in range(320) if 7 <= tick < 123 or 204 <= tick < 319]
    compose(tmp_path, [tier], [(0, tick * SECOND // 10, [100_000]) for tick in sampled])
    (account,) = folder_totals(tmp_path)
    seconds = frames.seconds(tmp_path)
    time = pl.col("time")
    span = seconds.select(time.min().alias("start"), (time.max() + pl.duration(seconds=1)).alias("end"))
    spent = measured(span, seconds)
    assert account.measured_s == pytest.approx(23.1)
    assert spent["measured"][0] * spent["duration_s"][0] == pytest.approx(account.measured_s)
    assert spent["energy_j"][0] == pytest.approx(account.energy_integral_j)


@pytest.mark.parametrize("name", ["reward_loss", "mse", "kl", "acc_norm", "tok_per_sec", "grad_norm"])
def test_gate_and_compare_agree_on_the_better_direction(tmp_path: Path, name: str) -> None:
    """Both judge a metric, or both refuse it."""
    for run, value in (("a", 1.0), ("b", 1.1)):
        lines = [f"step {n} | loss: 3.0 | {name}: {value}\n" for n in range(100)]
        (tmp_path / f"{run}.log").write_text("".join(lines))
    logs = [paths.parse(tmp_path / f"{run}.log") for run in ("b", "a")]
    if columns.better(name) is None:
        with pytest.raises(GputelError, match="does not say"):
            gate.judge(logs[0], logs[1], {name: 0.01}, {})
        with pytest.raises(GputelError, match="does not say"):
            compare(logs, target={name: 1.05})
        return
    (result,) = gate.judge(logs[0], logs[1], {name: 0.01}, {})
    reached = compare(logs[::-1], target={name: 1.05}).targets
    worse_run = "b" if result.verdict == "failed" else "a"
    assert reached.filter(run=worse_run)["step"].to_list() == [None]
