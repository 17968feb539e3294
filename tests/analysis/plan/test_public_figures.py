"""What users' runs were like, and what two of their plans had wrong: the plan must say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputel.analysis.plan import calibrate, inputs, mfu, rows, targets
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.plan.rows import Row
from gputel.analysis.runs import read_run

ROOT = Path(__file__).resolve().parents[3]
Plan = Callable[..., Row]

USERS = [
    (12, 768, 6, 185_597_952, "1.038090e+09", 7_080),
    (16, 1024, 8, 335_544_320, "2.013266e+09", 12_800),
    (20, 1280, 10, 560_988_160, "3.491758e+09", 21_400),
    (24, 1536, 12, 880_803_840, "5.586813e+09", 33_600),
    (32, 2048, 16, 1_879_048_192, "1.207960e+10", 71_680),
]
D24_STEP_S, D24_STEPS = 2.94, 33_600


def without_depth(depth: int) -> mfu.MfuCurve:
    curve = mfu.public()
    assert curve
    return mfu.MfuCurve(tuple(figure for figure in curve.figures if figure.width != 64 * depth))


@pytest.mark.parametrize(("depth", "dim", "heads", "parameters", "flops", "steps"), USERS)
def test_depth_has_the_parameters_the_flops_and_the_steps_that_users_know(
    plan: Plan, depth: int, dim: int, heads: int, parameters: int, flops: str, steps: int
) -> None:
    figures = plan(depth, "2xH100").figures
    assert [figures[name].value for name in ("dim", "heads", "parameters", "steps")] == [
        dim, heads, parameters, steps,
    ]  # fmt: skip
    assert f"{figures['flops_per_token'].value:.6e}" == flops


@pytest.mark.parametrize(("depth", "parameters"), [(24, 679_575_552), (64, 12_885_164_032)])
def test_vocabulary_of_32_leaves_the_blocks(plan: Plan, depth: int, parameters: int) -> None:
    assert plan(depth, "8xH100-PCIe", vocab=32).figures["parameters"].value == parameters


def test_log_of_depth_16_predicts_the_steps_of_depth_24(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """By the public figures of other depths; that of depth 24 itself is taken away."""
    others = without_depth(24)
    monkeypatch.setattr(mfu, "public", lambda *_: others)
    log = read_run(ROOT / "sample_logs" / "d16-base.log.gz")
    like = calibrate.calibration(log, Recipe(8))
    assert like.run.machine
    assert (like.run.machine.gpu.name, like.run.machine.count) == ("H100", 2)
    figures = plan(24, "2xH100", device_batch=8, like=like).figures
    assert figures["dt_ms"].origin == "measured"
    assert figures["dt_ms"].value / 1000 == pytest.approx(D24_STEP_S, rel=0.1)
    assert figures["hours"].value == pytest.approx(D24_STEPS * D24_STEP_S / 3600, rel=0.1)
    assert figures["dt_ms"].low / 1000 <= D24_STEP_S <= figures["dt_ms"].high / 1000


def test_without_a_run_the_public_figures_alone_predict_it(
    monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    others = without_depth(24)
    monkeypatch.setattr(mfu, "public", lambda *_: others)
    figures = plan(24, "2xH100", device_batch=8).figures
    assert figures["dt_ms"].origin == "assumed"
    assert figures["dt_ms"].value / 1000 == pytest.approx(D24_STEP_S, rel=0.1)
    assert figures["hours"].value == pytest.approx(D24_STEPS * D24_STEP_S / 3600, rel=0.1)


def test_depth_16_at_batch_8_holds_what_users_saw_on_two_gpus(plan: Plan) -> None:
    row = plan(16, "2xH100", device_batch=8)
    assert row.fits == "fits"
    assert 20.3 <= row.figures["memory_gib"].value <= 27.8


@pytest.mark.parametrize(
    ("depth", "batch", "vocab", "peak_mib"), [(20, 32, 65_536, 75_422.02), (24, 16, 32_768, 62_389.67)]
)
def test_peaks_that_nanochat_printed_on_eight_gpus_lie_in_the_range(
    plan: Plan, depth: int, batch: int, vocab: int, peak_mib: float
) -> None:
    """Its optimizers spread their state; the second has 604 million parameters more, in embeddings of values."""
    figures = plan(depth, "8xH100", vocab=vocab, device_batch=batch, shard="zero1").figures
    reserve = figures["reserve_gib"].value
    low, high = (end - reserve for end in (figures["memory_gib"].low, figures["memory_gib"].high))
    assert low <= peak_mib / 1024 <= high


def test_depth_64_does_not_fit_eight_gpus_of_80_gb_unless_it_is_sharded(
    ask: Callable[..., Question], plan: Plan
) -> None:
    asked = {"vocab": 32, "device_batch": 4}
    row = plan(64, "8xH100-PCIe", **asked)
    assert row.fits == "no"
    kept = sum(row.figures[f"{name}_gib"].low for name in ("weights", "gradients", "optimizer"))
    assert kept > 2 * 79.6
    ways = rows.changes(ask("8xH100-PCIe", device_batch=4), row)
    assert ways
    assert all("--shard" in way for way in ways)
    assert plan(64, "8xH100-PCIe", vocab=32, device_batch=2, shard="zero3").fits != "no"


def test_checkpoint_every_3000_of_33600_steps_makes_eleven_and_the_last(plan: Plan) -> None:
    figures = plan(24, "2xH100", save_every=3000).figures
    assert figures["steps"].value == D24_STEPS
    assert figures["checkpoints"].value == 11 + 1
    assert figures["checkpoint_gb"].value == pytest.approx(12 * 0.880803840)
    assert figures["weights_gb"].value == pytest.approx(4 * 0.880803840)
    assert figures["disk_gb"].value == pytest.approx(12 * 12 * 0.880803840)


def test_four_hundred_thousand_tokens_a_second_on_eight_a100_are_impossible(
    ask: Callable[..., Question], plan: Plan
) -> None:
    asked = ask("8xA100", nodes=4, link=10e9 / 8)
    row = plan(inputs.of_parameters(1_500_000_000, "1.5B"), "8xA100", nodes=4, link=10e9 / 8)
    (found,) = targets([row], asked.machine, 400_000)
    assert not found.possible
    assert round(found.mfu) == 144


def test_730_steps_an_hour_at_depth_64_are_impossible(ask: Callable[..., Question], plan: Plan) -> None:
    asked = ask("8xH100-PCIe", device_batch=4)
    (found,) = targets(
        [plan(64, "8xH100-PCIe", vocab=32, device_batch=4)], asked.machine, 730 * 524_288 / 3600
    )
    assert not found.possible
    assert round(found.mfu) == 147


def test_gradients_of_fp32_over_four_nodes_send_9_gb_and_take_7_seconds(plan: Plan) -> None:
    size = inputs.of_parameters(1_500_000_000, "1.5B")
    together = plan(size, "8xA100", nodes=4, link=10e9 / 8, device_batch=4).figures
    alone = plan(size, "8xA100", device_batch=4).figures
    assert together["sent_gb"].value == pytest.approx(9)
    assert together["communication_s"].value == pytest.approx(7.2)
    assert (together["dt_ms"] / 1000).value == pytest.approx(alone["dt_ms"].value / 1000 + 7.2)
    assert together["communication_s"].is_range


def test_size_of_the_users_family_is_not_changed_by_asking_in_another_way() -> None:
    by_depth, by_layers = inputs.of_depth(24), inputs.of_layers(24, 1536, 12)
    assert replace(by_layers, name="d24") == by_depth
