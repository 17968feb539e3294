"""What a step cost, and where the time and the energy of a run went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import gputel
from gputel.analysis.align import samples
from gputel.analysis.align.join import measured, with_gpus
from gputel.analysis.align.per_step import of_spans, per_step, totals
from gputel.analysis.align.samples import gpu_samples
from gputel.analysis.align.spans import cut_spans
from gputel.analysis.runs import RunData, read_run
from gputel.telemetry import run_folder
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import SECOND, START, step, validation

Recorded = Callable[..., RunData]
Compose = Callable[..., None]
FAST = Tier("fast", 100.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))
BEGUN = 10**18  # when the clock of `compose` began
TRAINING, EVALUATING = 500, 100


@pytest.fixture
def trained(tmp_path: Path, recorded: Recorded, compose: Compose) -> RunData:
    """Two GPUs of 500 W each; 10 steps a record of 0.1 s each; 5 s of evaluation at 100 W; sampled at 100 Hz."""
    shift = (BEGUN - START) / 1e9
    lines = [(shift + 1 + n, step(10 * n, dt_ms=100)) for n in range(4)]
    lines += [
        (shift + 9, validation(30)),
        (shift + 10, step(40, dt_ms=100)),
        (shift + 11, step(50, dt_ms=100)),
    ]
    subject = recorded([(shift, shift + 12, lines)])
    assert subject.recording is not None
    folder = subject.recording.folder.segments[0].gpu
    folder.rmdir()
    run_folder.update(
        folder.parent, gpus=[{"gpu": gpu, "name": "H100"} for gpu in "01"], sampling={"hz": 100.0}
    )
    watts = [EVALUATING if 400 <= tick < 900 else TRAINING for tick in range(1200)]
    compose(folder, [FAST], [(0, tick * SECOND // 100, [1000 * w, 1000 * w]) for tick, w in enumerate(watts)])
    return read_run(subject.recording.path)


def test_sums_are_divided_by_the_steps_that_a_record_stands_for(trained: RunData) -> None:
    rows = per_step(trained)
    assert rows["step"].to_list() == [0, 10, 20, 30, 40, 50]
    assert rows["steps"].to_list() == [1, 10, 10, 10, 10, 10]
    assert rows["duration_s"].to_list() == pytest.approx([0.1] * 6)
    assert rows["energy_j"].to_list() == pytest.approx([100] * 6)
    assert rows["power_mean_w"].to_list() == pytest.approx([1000] * 6)
    assert rows["energy_counter_j"].null_count() == len(rows)
    assert rows["j_per_token"].null_count() == len(rows)  # nothing says how many tokens a step has


def test_time_and_energy_are_summed_by_kind(trained: RunData) -> None:
    sums = totals(measured(cut_spans(trained), trained.gpu))
    by_kind = {row["kind"]: row for row in sums.iter_rows(named=True)}
    assert list(by_kind) == ["start", "train", "eval", "idle"]
    assert by_kind["eval"]["duration_s"] == pytest.approx(5)
    assert by_kind["eval"]["energy_j"] == pytest.approx(1000)
    assert by_kind["train"]["energy_j"] == pytest.approx(5100)
    assert by_kind["train"]["steps"] == 51
    assert sums["share"].sum() == pytest.approx(1)
    assert sums["energy_share"].sum() == pytest.approx(1)


def test_open_run_gives_the_same_rows(trained: RunData) -> None:
    assert trained.recording is not None
    assert gputel.open_run(trained.recording.path).per_step().equals(per_step(trained))


def test_tokens_make_joules_a_token(trained: RunData) -> None:
    rows = of_spans(measured(cut_spans(trained), trained.gpu), tokens=2048)
    assert rows["j_per_token"].to_list() == pytest.approx([100 / 2048] * 6)


def test_step_that_was_measured_in_part_has_no_joules_a_token(trained: RunData) -> None:
    assert trained.gpu is not None
    half = trained.gpu.filter(pl.col("time").dt.epoch("ns") > BEGUN + 3 * SECOND // 2)
    rows = of_spans(measured(cut_spans(trained), half), tokens=2048)
    assert rows["j_per_token"].is_null().to_list() == [True, True, False, False, False, False]
    assert rows["energy_j"][0] is None
    assert 0.4 < rows["measured"][1] < 0.6


def test_long_recording_is_read_by_whole_seconds(trained: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = gpu_samples(trained)
    monkeypatch.setattr(samples, "MANY", 0)
    seconds = gpu_samples(trained)
    assert ticks is not None
    assert seconds is not None
    assert (ticks.whole_seconds, seconds.whole_seconds) == (False, True)
    exact, result = (totals(measured(cut_spans(trained), read)) for read in (ticks, seconds))
    assert result["energy_j"].sum() == pytest.approx(exact["energy_j"].sum(), rel=1e-9)
    assert result["power_peak_w"].max() == exact["power_peak_w"].max()


def test_each_node_of_a_recording_is_measured_by_its_own_gpus(recorded: Recorded, compose: Compose) -> None:
    shift = (BEGUN - START) / 1e9
    printed = [(shift + 1 + n, step(n, dt_ms=1000)) for n in range(3)]
    subject = recorded([(shift, shift + 4, printed)] * 2, nodes=["0", "1"])
    assert subject.recording is not None
    for segment, watts in zip(subject.recording.folder.segments, (300, 500), strict=True):
        segment.gpu.rmdir()
        ticks = [(0, tick * SECOND // 100, [1000 * watts, 2000 * watts]) for tick in range(400)]
        compose(segment.gpu, [FAST], ticks)
    subject = read_run(subject.recording.path)
    cut = cut_spans(subject).filter(kind="train")
    held, gpus = with_gpus(cut, gpu_samples(subject), (BEGUN + SECOND, BEGUN + 3 * SECOND))
    result = dict(held.group_by("node").agg(pl.col("energy_j").sum()).iter_rows())
    assert result == {"0": pytest.approx(3 * 900), "1": pytest.approx(3 * 1500)}
    assert held.equals(measured(cut, subject.gpu))
    assert gpus.select("node", "gpu").rows() == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    assert gpus["energy_j"].to_list() == pytest.approx([600, 1200, 1000, 2000])


def test_nodes_are_added_up() -> None:
    moment = pl.Datetime("ns", "UTC")
    rows = [("train", "base", 1, 7, 1, node, start, 10 + start) for node, start in (("0", 0), ("1", 2))]
    names = ("kind", "phase", "attempt", "step", "steps", "node", "start", "end")
    held = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("start", "end").cast(moment), contains=pl.lit(None, pl.String)
    )
    known = {"power_mean_w": 300.0, "energy_j": 30.0, "measured": 1.0}
    held = measured(held, None).with_columns(pl.lit(value).alias(name) for name, value in known.items())
    (row,) = of_spans(held, tokens=10).to_dicts()
    assert (row["power_mean_w"], row["energy_j"], row["j_per_token"]) == (600, 60, 6)
    (total,) = totals(held).to_dicts()
    assert (total["steps"], total["energy_j"]) == (1, 60)
