"""The share of the peak: the curve goes through what was measured, and says how far it may be trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.plan import mfu
from gputel.analysis.plan.estimate import measured
from gputel.trainer.gpus import GpuModel, find_gpu, gpus

ENOUGH = 16_384


def h100() -> GpuModel:
    found = find_gpu("H100")
    assert found
    return found


@pytest.mark.parametrize(("depth", "percent"), [(12, 40.6), (16, 43.8), (20, 47.5), (24, 50.3)])
def test_curve_goes_through_the_public_figures(depth: int, percent: float) -> None:
    assert mfu.public().at(64 * depth) == pytest.approx(percent)


@given(st.integers(1, 255))
def test_wider_model_is_never_expected_to_reach_less(depth: int) -> None:
    curve = mfu.public()
    assert 0 < curve.at(64 * depth) < curve.at(64 * (depth + 1)) < 100


@pytest.mark.parametrize("left_out", [12, 16, 20, 24])
def test_each_public_figure_lies_in_the_range_that_the_others_give(left_out: int) -> None:
    figures = mfu.public().figures
    others = mfu.MfuCurve(tuple(figure for figure in figures if figure.depth != left_out))
    (truth,) = (figure.mfu for figure in figures if figure.depth == left_out)
    found = mfu.expected(64 * left_out, h100(), ENOUGH, others)
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.low <= truth <= found.high


def test_doubt_grows_away_from_the_figures_on_other_gpus_and_with_small_batches() -> None:
    def doubt(depth: int, gpu: str = "H100", tokens: int = ENOUGH) -> float:
        found_gpu = find_gpu(gpu)
        assert found_gpu
        found = mfu.expected(64 * depth, found_gpu, tokens)
        return found.high / found.low

    assert doubt(16) == pytest.approx(doubt(24))
    assert doubt(48) > doubt(24)
    assert doubt(4) > doubt(8) > doubt(12)
    assert doubt(16, "A100") > doubt(16)
    assert doubt(16, tokens=2048) > doubt(16)


def test_measured_share_keeps_its_own_level_and_loses_certainty_on_the_way() -> None:
    run = measured(30.0, "run", low=29.0, high=31.0)
    same = mfu.carried(run, 1024, 1024)
    assert (same.low, same.value, same.high) == (29, 30, 31)
    wider = mfu.carried(run, 1024, 2048)
    assert wider.value == pytest.approx(30 * mfu.public().at(2048) / mfu.public().at(1024))
    assert wider.high / wider.low > same.high / same.low


def test_every_gpu_of_the_table_has_a_peak_to_plan_by_and_all_that_a_plan_asks_for() -> None:
    for gpu in gpus():
        assert gpu.half_flops > 0, gpu.name
        assert min(gpu.memory_gib, gpu.power_w, gpu.link_gb_s) > 0, gpu.name
