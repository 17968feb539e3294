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


def h100_curve() -> mfu.MfuCurve:
    curve = mfu.public()
    assert curve
    return curve


def gpu_named(name: str) -> GpuModel:
    gpu = find_gpu(name)
    assert gpu
    return gpu


@pytest.mark.parametrize(("depth", "percent"), [(12, 40.6), (16, 43.8), (20, 47.5), (24, 50.3)])
def test_curve_goes_through_the_public_figures(depth: int, percent: float) -> None:
    assert h100_curve().at(64 * depth) == pytest.approx(percent)


@given(st.integers(1, 255))
def test_wider_model_is_never_expected_to_reach_less(depth: int) -> None:
    curve = h100_curve()
    assert 0 < curve.at(64 * depth) < curve.at(64 * (depth + 1)) < 100


@pytest.mark.parametrize("left_out", [12, 16, 20, 24])
def test_each_public_figure_lies_in_the_range_that_the_others_give(left_out: int) -> None:
    figures = h100_curve().figures
    others = mfu.MfuCurve(tuple(figure for figure in figures if figure.width != 64 * left_out))
    (truth,) = (figure.mfu for figure in figures if figure.width == 64 * left_out)
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
    assert wider.value == pytest.approx(30 * h100_curve().at(2048) / h100_curve().at(1024))
    assert wider.high / wider.low > same.high / same.low


def test_every_gpu_of_the_table_has_a_peak_to_plan_by_and_all_that_a_plan_asks_for() -> None:
    for gpu in gpus():
        assert gpu.half_flops > 0, gpu.name
        assert min(gpu.memory_gib, gpu.power_w, gpu.link_gb_s) > 0, gpu.name


@pytest.mark.parametrize(("gpu", "width", "percent"), [("A100", 1280, 73.8), ("RTX-4090", 768, 54.8)])
def test_measured_gpu_and_width_are_planned_within_15_percent(gpu: str, width: int, percent: float) -> None:
    figure = mfu.expected(width, gpu_named(gpu), ENOUGH)
    assert figure.value == pytest.approx(percent)
    assert figure.low / percent == pytest.approx(0.85)
    assert figure.high / percent == pytest.approx(1.15)
    assert f"public on {gpu}, width {width:,}" in figure.sources[0]


def test_every_public_figure_names_its_software_and_source() -> None:
    for gpu in gpus():
        curve = mfu.public(gpu.name)
        for figure in curve.figures if curve else ():
            assert figure.software, figure
            assert figure.source, figure


def test_unmeasured_gpu_has_the_widest_range_and_says_so() -> None:
    figure = mfu.expected(768, gpu_named("B200"), ENOUGH)
    assert figure.high / figure.low > 8
    assert figure.sources[-1] == "no measurement on this GPU; --like a run on it narrows the range"


def test_figure_measured_in_eager_mode_is_planned_within_15_percent_in_eager_mode_alone() -> None:
    """GPT-2 of 124 million parameters trained at 14,000 tokens a second on a GB10."""
    gb10 = gpu_named("GB10")
    truth = 100 * 14_000 * 8.57e8 / gb10.half_flops
    eager = mfu.expected(768, gb10, ENOUGH, compiled=False)
    assert eager.value == pytest.approx(truth, rel=0.01)
    assert eager.high / eager.low == pytest.approx(1.15 / 0.85)
    compiled = mfu.expected(768, gb10, ENOUGH)
    assert compiled.low < truth < compiled.value < 2.5 * truth < compiled.high
    assert mfu.expected(1024, gb10, ENOUGH).value == pytest.approx(26.4)


def test_same_chip_at_another_power_limit_is_nearer_than_another_chip() -> None:
    def spread(gpu: str) -> float:
        figure = mfu.expected(768, gpu_named(gpu), ENOUGH)
        return figure.high / figure.low

    assert spread("H100") < spread("H100-PCIe") < 2.5 < spread("B200")


def test_eager_mode_takes_longer_than_compiled() -> None:
    compiled, eager = (mfu.expected(768, h100(), ENOUGH, compiled=way) for way in (True, False))
    assert eager.value == pytest.approx(0.6 * compiled.value)
    assert eager.low < 0.54 * compiled.value < eager.high
