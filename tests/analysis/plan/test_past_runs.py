"""Runs that have happened: what they tell, what they teach, and how a plan of them would have fared."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from gputel.analysis.plan import calibrate, check, inputs, past_runs, rows
from gputel.analysis.plan.inputs import machine
from gputel.analysis.plan.memory import GIB, Recipe
from gputel.analysis.plan.question import Question
from gputel.analysis.runs import RunData, read_run
from gputel.telemetry.errors import GputelError

ROOT = Path(__file__).resolve().parents[3]
D16 = ROOT / "sample_logs" / "d16-base.log.gz"
D24 = ROOT / "sample_logs" / "d24-base.log.gz"

BANNER = """GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14
Distributed world size: 8
Vocab size: 65,536
num_layers: 12
model_dim: 768
num_heads: 6
Tokens / micro-batch / rank: 32 x 2048 = 65,536
Total batch size 524,288 => gradient accumulation steps: 1
Number of parameters: 185,597,952
Estimated FLOPs per token: 1.038090e+09
"""
STEP = (
    "step {:05d}/07080 (0.00%) | loss: 3.0000 | lrm: 1.00 | dt: {:.2f}ms | tok/sec: {:,.0f} "
    "| mfu: 40.00 | total time: {:.2f}m\n"
)
START = datetime(2026, 11, 21, 9, tzinfo=timezone.utc)
Write = Callable[..., RunData]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A run of depth 12 on eight GPUs; `dt_ms` is the time of each step."""

    def write(dt_ms: float = 180.0, steps: int = 60, banner: str = BANNER, end: str = "") -> RunData:
        lines = [STEP.format(n, dt_ms, 524_288e3 / dt_ms, n * dt_ms / 6e4) for n in range(steps)]
        path = tmp_path / "d12.log"
        path.write_text(banner + "".join(lines) + end)
        return read_run(path)

    return write


def test_run_tells_its_size_its_gpus_and_its_pace(write: Write) -> None:
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


def test_gpus_are_known_by_the_mfu_that_is_printed_where_no_line_names_them() -> None:
    run = past_runs.happened(read_run(D16), Recipe(1))
    assert run.machine
    assert run.machine.words == "2 x H100"
    assert run.mfu
    assert run.mfu.value == pytest.approx(43.9, abs=0.1)


def test_rate_that_no_gpu_reaches_is_refused(write: Write) -> None:
    with pytest.raises(GputelError) as told:
        past_runs.happened(write(dt_ms=40.0), Recipe(1))
    assert str(told.value) == (
        "d12: its 13,107,200 tok/s would be 172% MFU on 8 x H100; name its GPUs with --on"
    )


def test_of_several_phases_the_one_with_most_steps_counts(write: Write) -> None:
    loaded = "[INFO] Loading model from out/base_checkpoints/d12 with step 60\n"
    later = "".join(STEP.format(n, 900, 582_542, 0.1) for n in range(30))
    run = past_runs.happened(write(end=loaded + later), Recipe(1))
    assert run.steps == 60
    assert run.dt_ms
    assert run.dt_ms.value == pytest.approx(180)


def test_log_without_a_size_teaches_nothing(write: Write) -> None:
    with pytest.raises(GputelError, match=r"^d12: prints neither depth nor parameters; name a run that does"):
        past_runs.happened(write(banner=""), Recipe(1))


def test_model_that_is_built_in_another_way_keeps_what_it_printed(write: Write) -> None:
    other = BANNER.replace("185,597,952", "299,999,999").replace("1.038090e+09", "1.500000e+09")
    run = past_runs.happened(write(banner=other), Recipe(1))
    assert (run.size.parameters, run.size.flops_per_token) == (299_999_999, 1_500_000_000)
    assert run.asked == inputs.of_depth(12)


def test_run_without_a_shape_is_taken_by_its_parameters(write: Write) -> None:
    lines = [line for line in BANNER.splitlines(keepends=True) if "layers" not in line]
    run = past_runs.happened(write(banner="".join(lines)), Recipe(1))
    assert run.asked.name == "185.6M"
    assert run.size.flops_per_token == 1_038_090_000


def test_measured_share_takes_the_place_of_the_assumed_one(write: Write) -> None:
    like = calibrate.calibration(write(dt_ms=200.0), Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, like=like)
    same = rows.row(asked, inputs.of_depth(12)).figures
    assert same["dt_ms"].value == pytest.approx(200)
    assert same["dt_ms"].origin == "measured"
    assert same["dt_ms"].sources == ("MFU of d12",)
    two = rows.row(Question(machine("2xH100"), Recipe(32), device_batch=32, like=like), inputs.of_depth(12))
    assert two.figures["dt_ms"].value == pytest.approx(800)


def test_run_on_other_gpus_is_carried_over_with_doubt(write: Write) -> None:
    like = calibrate.calibration(write(dt_ms=200.0), Recipe(32))
    asked = Question(machine("8xA100"), Recipe(32), device_batch=32, like=like)
    figure = rows.row(asked, inputs.of_depth(12)).figures["mfu"]
    assert figure.low < 0.8 * figure.value
    assert any("another GPU" in source for source in figure.sources)


def test_memory_that_was_measured_is_met_at_its_own_size_and_a_range_at_others(write: Write) -> None:
    subject = write(end="Peak memory usage: 40960.00MiB\n")
    like = calibrate.calibration(subject, Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, like=like)
    parts = rows.memory_parts(asked, inputs.of_depth(12), Recipe(32))
    seen = sum(part.value for name, part in parts.items() if name != "reserve") / GIB
    assert seen == pytest.approx(40)
    assert parts["activations"].origin == parts["logits"].origin == "measured"
    own = parts["activations"].high / parts["activations"].low
    deeper = rows.memory_parts(asked, inputs.of_depth(24), Recipe(32))["activations"]
    assert deeper.high / deeper.low > own


@pytest.mark.parametrize(
    ("banner", "note"),
    [
        (BANNER, "d12 has no memory figures; memory stays assumed"),
        (
            BANNER.replace("Tokens / micro-batch / rank: 32 x 2048 = 65,536\n", ""),
            "d12 does not name its GPUs or device batch, so its memory cannot be transferred to other sizes",
        ),
    ],
)
def test_what_a_run_does_not_tell_stays_assumed_and_is_said(write: Write, banner: str, note: str) -> None:
    end = "" if "micro-batch" in banner else "Peak memory usage: 40960.00MiB\n"
    like = calibrate.calibration(write(banner=banner, end=end), Recipe(32))
    assert like.moving is None
    assert note in like.notes
    assert "d12 has no power; it stays assumed" in like.notes


def test_how_a_run_trained_is_what_it_tells_and_else_what_is_planned(write: Write) -> None:
    """The project's own trainer takes its loss in chunks, and prints no shard where there is none."""
    planned = Recipe(1, shard="zero1", recompute=True)
    assert past_runs.happened(write(), planned).recipe == planned
    told = "Device: cuda, 8 ranks, bf16 autocast, eager, shard {}\nOptimizer: muon, peak lr 1.0e-03, cosine\n"
    for shard in ("none", "fsdp"):
        run = past_runs.happened(write(banner=BANNER + told.format(shard)), planned)
        expected = Recipe(1, "muon", shard=shard, loss="chunked", recompute=True, compiled=False)
        assert run.recipe == expected


def stamped(steps: int = 40) -> str:
    """Steps of two seconds; an evaluation of six after every ten, and a checkpoint of four with it."""
    now, lines = START + timedelta(seconds=32), []
    for step in range(steps):
        now += timedelta(seconds=2)
        lines.append((now, STEP.format(step, 2000, 262_144, step / 30)))
        if step % 10 == 9:
            now += timedelta(seconds=4)
            lines.append((now, f"Saved model file to: runs/model_{step:06d}.pt\n"))
            now += timedelta(seconds=6)
            lines.append((now, f"Step {step + 1:05d} | Validation bpb: 1.000000\n"))
    return "".join(f"{moment:%Y-%m-%dT%H:%M:%S}Z {line}" for moment, line in lines)


def test_stamps_tell_what_evaluations_and_checkpoints_took(tmp_path: Path) -> None:
    path = tmp_path / "stamped.log"
    path.write_text(f"{START:%Y-%m-%dT%H:%M:%S}Z Vocab size: 65,536\n" + stamped())
    did = past_runs.overheads(read_run(path).log)
    assert did == past_runs.Overheads(None, 4, 6.0, 4, 4.0)


def test_log_without_stamps_tells_nothing_of_what_it_did_besides(write: Write) -> None:
    assert past_runs.overheads(write().log) == past_runs.Overheads(None, 0, None, 0, None)


def test_evaluations_and_checkpoints_are_carried_to_other_sizes(tmp_path: Path) -> None:
    """An evaluation by its tokens at the other size's pace, a checkpoint by its bytes."""
    path = tmp_path / "stamped.log"
    path.write_text(BANNER + stamped())
    like = calibrate.calibration(read_run(path), Recipe(32))
    asked = Question(machine("8xH100"), Recipe(32), device_batch=32, save_every=10, like=like)
    same = rows.row(asked, inputs.of_depth(12)).figures
    steps = same["steps"].value
    assert same["eval_hours"].value * 3600 == pytest.approx(steps / 10 * 6)
    assert same["save_hours"].value * 3600 == pytest.approx(steps / 10 * 4)
    assert same["eval_hours"].origin == same["save_hours"].origin == "measured"


def test_check_sets_the_plan_beside_the_run_with_its_errors(write: Write) -> None:
    found = check.check_plan(write(dt_ms=200.0), Recipe(1))
    lines = {line.name: line for line in found.lines}
    assert lines["parameters"].error_percent == 0
    assert lines["parameters"].within is None
    assert lines["steps"].happened == 7080
    dt_ms = lines["dt_ms"]
    assert dt_ms.error_percent
    assert dt_ms.error_percent == pytest.approx(100 * (dt_ms.planned.value / 200 - 1))
    assert dt_ms.within == (dt_ms.planned.low <= 200 <= dt_ms.planned.high)
    assert lines["power_w"].happened is None
    assert lines["power_w"].error_percent is None
    assert "dollars" not in lines
    assert "hours are those of the 60 completed steps, of 7,080" in found.notes


def test_check_knows_what_evaluations_and_checkpoints_took_and_what_it_cost(tmp_path: Path) -> None:
    path = tmp_path / "stamped.log"
    path.write_text(BANNER + stamped())
    lines = {line.name: line for line in check.check_plan(read_run(path), Recipe(1), price=4.0).lines}
    assert lines["eval_hours"].happened == pytest.approx(4 * 6 / 3600)
    assert lines["save_hours"].happened == pytest.approx(4 * 4 / 3600)
    hours = lines["train_hours"].happened
    assert hours
    assert lines["dollars"].happened == pytest.approx(8 * 4 * hours)
    assert lines["dollars"].error_percent == pytest.approx(lines["train_hours"].error_percent)


def test_check_of_depth_24_is_right_when_depth_16_came_before_it() -> None:
    like = calibrate.calibration(read_run(D16), Recipe(8))
    lines = {line.name: line for line in check.check_plan(read_run(D24), Recipe(1), like=like).lines}
    for name in ("dt_ms", "tok_per_sec", "mfu", "train_hours"):
        error = lines[name].error_percent
        assert error is not None
        assert abs(error) < 10
        assert lines[name].within


def test_log_that_prints_no_size_is_checked_by_the_one_that_is_named(write: Write) -> None:
    subject = write(banner="")
    found = check.check_plan(subject, Recipe(1), machine("8xH100"), named=inputs.of_depth(12))
    lines = {line.name: line for line in found.lines}
    assert lines["parameters"].happened is None
    assert lines["mfu"].happened == pytest.approx(100 * 1_038_090_240 * 524_288 / 0.18 / (8 * 989e12))


def test_memory_out_of_range_is_reported_with_the_recipe_that_comes_nearest(write: Write) -> None:
    held = check.check_plan(write(end="Peak memory usage: 75000.00MiB\n"), Recipe(1))
    (note,) = [note for note in held.notes if "it used" in note]
    assert "GiB more than planned; the nearest other recipe is" in note


def test_run_that_does_not_tell_its_gpus_needs_them_by_name(write: Write) -> None:
    nameless = [line for line in BANNER.splitlines(keepends=True) if not re.search("GPU|world|FLOPs", line)]
    subject = write(banner="".join(nameless))
    with pytest.raises(GputelError, match=r"^d12: does not name its GPUs; name them, such as --on 2xH100"):
        check.check_plan(subject, Recipe(1))


def test_composed_log_says_so_wherever_it_is_used() -> None:
    said = "d16-base: synthetic log"
    assert gzip.decompress(D16.read_bytes()).startswith(b"# COMPOSED")
    assert said in calibrate.calibration(read_run(D16), Recipe(8)).notes
    assert said in check.check_plan(read_run(D16), Recipe(8)).notes
