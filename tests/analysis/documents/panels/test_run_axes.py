"""What a report's panels lie on beside time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gputel.analysis.document import Conversion, Curves
from gputel.analysis.documents.panels.run_axes import StepAxes, epochs
from gputel.analysis.documents.report import report_document
from gputel.analysis.report.run_report import make_report
from gputel.analysis.runs import read_run
from gputel.telemetry import run_folder
from gputel.telemetry.store.tiers import Tier, TierColumn
from tests.recordings.printed import SECOND, START, clock, fill, step

BEGUN = 10**18  # when the clock of `compose` began
LENGTH_S = 100
WATTS = 500.0
POWER = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("power_w", "W", 1000, "1")))
BATCH = "Total batch size 524,288 => gradient accumulation steps: 1"
SHAPE = "Estimated FLOPs per token: 1.000000e+09"


@pytest.fixture
def run(tmp_path: Path, compose: Callable[..., None]) -> Path:
    """Two GPUs at 500 W for 100 s; 60 steps of a second each, from second 21 on."""
    shift = (BEGUN - START) / 1e9
    gpus = [{"gpu": str(n), "name": "H100", "uuid": f"GPU-{n}"} for n in range(2)]
    facts = {"run": "d12", "started": clock(shift), "ended": clock(shift + LENGTH_S), "gpus": gpus}
    segment = run_folder.create(tmp_path / "run", facts)
    printed = [(shift + 20, BATCH), (shift + 20, SHAPE)]
    fill(segment, [*printed, *((shift + 21 + n, step(n, dt_ms=1000)) for n in range(60))])
    milliwatts = [round(1000 * WATTS)] * 2
    compose(segment.gpu, [POWER], [(0, n * SECOND // 10, milliwatts) for n in range(10 * LENGTH_S)])
    return tmp_path / "run"


def conversion(run: Path, name: str, price: float | None = None) -> Conversion:
    page = report_document(make_report(read_run(run)), price=price)
    return next(each for each in page.conversions if each.axis.name == name)


def test_loss_of_a_recording_lies_on_tokens_and_flops_too(run: Path) -> None:
    page = report_document(make_report(read_run(run)))
    (loss,) = (panel for panel in page.panels() if isinstance(panel, Curves) and panel.name == "loss")
    assert [axis.name for axis in loss.axes] == ["time", "step", "tokens", "flops"]
    x = loss.series[0].x
    assert x["tokens"][[0, -1]].tolist() == [524_288, 60 * 524_288]
    assert x["flops"][-1] == pytest.approx(60 * 524_288 * 1e9)


def test_energy_so_far_grows_with_the_power_of_all_gpus(run: Path) -> None:
    energy = conversion(run, "energy")
    seconds = np.array([30.0, 50.0])
    first, second = np.interp(seconds, energy.seconds, energy.values)
    assert second - first == pytest.approx(2 * WATTS * 20, rel=0.01)
    assert (np.diff(energy.seconds) >= 0).all()
    assert (np.diff(energy.values) >= 0).all()


def test_cost_counts_from_the_start_of_the_recording_at_the_price_of_its_gpus(run: Path) -> None:
    cost = conversion(run, "cost", price=36.0)
    assert cost.values[0] == 0
    hours = (cost.seconds[-1] - cost.seconds[0]) / 3600
    assert cost.values[-1] == pytest.approx(2 * hours * 36.0)
    assert hours * 3600 == pytest.approx(80, abs=2)


def test_without_a_price_there_is_no_cost(run: Path) -> None:
    page = report_document(make_report(read_run(run)))
    assert [each.axis.name for each in page.conversions] == ["energy"]


def test_steps_that_go_back_are_no_axis() -> None:
    places = StepAxes(from_zero=True, tokens_per_step=10.0)
    assert places.places(np.array([0.0, 1.0, 0.0]), evaluated=False) == {}
    assert places.places(np.array([0.0, 1.0]), evaluated=False)["tokens"].tolist() == [10, 20]
    assert places.places(np.array([0.0, 1.0]), evaluated=True)["tokens"].tolist() == [0, 10]


def printed(step: list[int], epoch: list[float | None]) -> pl.DataFrame:
    return pl.DataFrame({"step": step, "epoch": epoch}, schema={"step": pl.Int64, "epoch": pl.Float64})


def test_whole_epochs_are_counted_on_through_their_steps() -> None:
    known = epochs(printed([0, 10, 20, 30, 40, 50], [1, 1, 2, 2, 3, 3]))
    assert known is not None
    assert known.at(np.array([0.0, 10, 20, 30, 40, 50])).tolist() == [1, 1.5, 2, 2.5, 3, 3.5]


def test_fractions_of_epochs_are_as_printed() -> None:
    known = epochs(printed([100, 200, 300], [0.25, 0.5, 0.75]))
    assert known is not None
    assert known.at(np.array([100.0, 150, 300])).tolist() == [0.25, 0.375, 0.75]
    assert StepAxes(epochs=known).places(np.array([200.0]), evaluated=True)["epoch"].tolist() == [0.5]


@pytest.mark.parametrize("epoch", [[1, 1, 1], [1, 2, 1], [None, None, 1]])
def test_epochs_that_stand_still_or_go_back_are_no_axis(epoch: list[float | None]) -> None:
    assert epochs(printed([1, 2, 3], epoch)) is None


def test_records_without_epochs_have_no_such_axis() -> None:
    assert epochs(pl.DataFrame({"step": [1, 2]})) is None
