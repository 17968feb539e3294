"""A finished run in the terms of a plan."""

from __future__ import annotations

import pytest

from gputel.analysis.plan import inputs, past_runs
from gputel.analysis.plan.memory import Recipe
from gputel.analysis.runs import read_run
from gputel.telemetry.errors import GputelError
from tests.analysis.plan.scenes import BANNER, D16, STEP, Write


def test_run_has_its_size_gpus_and_pace(write: Write) -> None:
    run = past_runs.happened(write(), Recipe(1))
    assert run.machine
    assert (run.machine.gpu.name, run.machine.count, run.device_batch) == ("H100", 8, 32)
    assert run.size == inputs.of_depth(12)
    assert run.dt_ms
    assert run.tok_per_sec
    assert run.mfu
    assert run.tok_per_sec.value == pytest.approx(524_288 / 0.18)
    assert run.mfu.value == pytest.approx(100 * 1_038_090_240 * 524_288 / 0.18 / (8 * 989e12))
    assert run.mfu.sources == ("MFU of d12",)


def test_unnamed_gpus_follow_from_the_printed_mfu() -> None:
    run = past_runs.happened(read_run(D16), Recipe(1))
    assert run.machine
    assert run.machine.words == "2 x H100"
    assert run.mfu
    assert run.mfu.value == pytest.approx(43.9, abs=0.1)


def test_rate_above_100_percent_mfu_is_refused(write: Write) -> None:
    with pytest.raises(GputelError) as error:
        past_runs.happened(write(dt_ms=40.0), Recipe(1))
    assert str(error.value) == (
        "d12: its 13,107,200 tok/s would be 172% MFU on 8 x H100; name its GPUs with --on"
    )


def test_longest_of_several_phases_counts(write: Write) -> None:
    loaded = "[INFO] Loading model from out/base_checkpoints/d12 with step 60\n"
    later = "".join(STEP.format(n, 900, 582_542, 0.1) for n in range(30))
    run = past_runs.happened(write(end=loaded + later), Recipe(1))
    assert run.steps == 60
    assert run.dt_ms
    assert run.dt_ms.value == pytest.approx(180)


def test_log_without_a_size_is_refused(write: Write) -> None:
    with pytest.raises(GputelError, match=r"^d12: prints neither depth nor parameters; name a run that does"):
        past_runs.happened(write(banner=""), Recipe(1))


def test_other_architecture_keeps_its_printed_figures(write: Write) -> None:
    other = BANNER.replace("185,597,952", "299,999,999").replace("1.038090e+09", "1.500000e+09")
    run = past_runs.happened(write(banner=other), Recipe(1))
    assert (run.size.parameters, run.size.flops_per_token) == (299_999_999, 1_500_000_000)
    assert run.asked == inputs.of_depth(12)


def test_run_without_a_shape_is_sized_by_its_parameters(write: Write) -> None:
    lines = [line for line in BANNER.splitlines(keepends=True) if "layers" not in line]
    run = past_runs.happened(write(banner="".join(lines)), Recipe(1))
    assert run.asked.name == "185.6M"
    assert run.size.flops_per_token == 1_038_090_000


def test_recipe_is_as_printed_and_else_as_planned(write: Write) -> None:
    """The project's same_size trainer takes its loss in chunks, and prints no shard where there is none."""
    planned = Recipe(1, shard="zero1", recompute=True)
    assert past_runs.happened(write(), planned).recipe == planned
    line = "Device: cuda, 8 ranks, bf16 autocast, eager, shard {}\nOptimizer: muon, peak lr 1.0e-03, cosine\n"
    for shard, planned_as in (("none", "none"), ("fsdp", "zero3")):
        run = past_runs.happened(write(banner=BANNER + line.format(shard)), planned)
        expected = Recipe(1, "muon", shard=planned_as, loss="chunked", recompute=True, compiled=False)
        assert run.recipe == expected
