"""Whole runs, small enough for a moment: what they say, when they stop, what they leave."""

import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from gputel.trainer.__main__ import main
from gputel.trainer.checkpoint import verify
from gputel.trainer.clock import StampClock
from gputel.trainer.options import Options
from gputel.trainer.ranks import WAN
from gputel.trainer.say import step_line
from gputel.trainer.train import Training, exit_code

from .conftest import TINY, Left, Run, steps_of
from .small_model import CPU

KERNEL_S, LAUNCH_S, QUEUE, KERNELS = 18.75e-6, 5e-6, 1024, 8000
STAMPS_OF_A_STEP = 6  # data, forward, backward, agreement, optimizer, end
STEP_MS = KERNELS * KERNEL_S * 1e3
LINE = re.compile(
    r"step \d{5}/\d{5} \(\d+\.\d\d%\) \| loss: (\d+\.\d{6}|nan|inf)"
    r" \| grad norm: (\d+\.\d{4}|nan|inf) \| lrm: \d\.\d\d \| dt: \d+\.\d\dms \| tok/sec: [\d,]+"
    r"( \| mfu: \d+\.\d\d)? \| total time: \d+\.\d\dm \| lr: \d\.\d\de[-+]\d\d \| data: \d+\.\d\dms"
    r"( \| mem: \d+\.\d\dGiB)? \| epoch: \d+ \| eta: \d+\.\d+m"
)


def test_every_step_is_a_line_of_the_old_nanochat_grammar_with_extras_appended(
    run: Run, tmp_path: Path
) -> None:
    lines = steps_of(run("--steps", "12"))
    assert all(LINE.fullmatch(line) for line in lines), lines[0]
    assert [int(line[5:10]) for line in lines] == list(range(12))
    assert (tmp_path / "run" / "log.txt").read_text().splitlines()[-1] == "training completed: 12 steps"


def test_step_on_a_cpu_is_printed_before_the_next_begins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that comes a step late puts the energy of each step into the one before it."""
    order: list[str] = []

    def noted(name: str) -> Callable[..., object]:
        method = getattr(Training, name)

        def called(*args: object) -> object:
            order.append(name)
            return method(*args)

        return called

    for name in ("_step", "_settle"):
        monkeypatch.setattr(Training, name, noted(name))
    run("--steps", "4")
    assert order == ["_step", "_settle"] * 4


def test_line_of_a_gpu_has_the_fields_that_users_know() -> None:
    figures = {
        "loss": 3.412345,
        "grad_norm": 0.387,
        "lrm": 1.0,
        "dt_ms": 1217.31,
        "tok_per_sec": 430_695,
        "mfu": 43.84,
        "total_time_min": 0.85,
        "lr": 6e-4,
        "data_ms": 0.41,
        "mem_gib": 20.31,
        "epoch": 0,
        "eta_min": 259.2,
    }
    assert step_line(42, 12_800, figures) == (
        "step 00042/12800 (0.33%) | loss: 3.412345 | grad norm: 0.3870 | lrm: 1.00 | dt: 1217.31ms"
        " | tok/sec: 430,695 | mfu: 43.84 | total time: 0.85m | lr: 6.00e-04 | data: 0.41ms | mem: 20.31GiB"
        " | epoch: 0 | eta: 259.2m"
    )


def test_metrics_tell_the_whole_story_with_null_for_what_is_not_known(run: Run, tmp_path: Path) -> None:
    run("--steps", "4", "--eval-every", "2")
    left = Left(tmp_path / "run")
    rows = [json.loads(line) for line in (left.out / "metrics.jsonl").read_text().splitlines()]
    kinds = [row["event"] for row in rows]
    assert kinds[0] == "run_start"
    assert kinds[-1] == "run_end"
    assert (kinds.count("step"), kinds.count("eval_start"), kinds.count("eval_end")) == (4, 3, 3)
    assert kinds.count("checkpoint_start") == kinds.count("checkpoint_end") > 0
    assert all(row["mfu"] is None and row["mem_gib"] is None for row in left.metrics("step"))
    assert all({"time", "monotonic_s"} <= set(row) for row in rows)
    assert left.metrics("run_end")[0]["reason"] == "steps"


def test_line_every_few_steps_and_the_last_one(run: Run) -> None:
    lines = steps_of(run("--steps", "8", "--log-every", "5"))
    assert [int(line[5:10]) for line in lines] == [0, 5, 7]


@pytest.mark.parametrize(
    ("options", "reason", "step", "code"),
    [
        (("--steps", "9", "--stop-at", "4"), "stop-at", 4, 0),
        (("--tokens", "640"), "steps", 10, 0),
        (("--steps", "50", "--hours", "1e-9"), "hours", None, 0),
        (("--steps", "50", "--budget", "1e-9", "--price", "4"), "budget", None, 0),
        (
            ("--steps", "50", "--lr", "1e38", "--grad-clip", "0", "--max-skips", "3"),
            "non-finite loss",
            None,
            1,
        ),
        (
            ("--steps", "50", "--lr", "1e-30", "--eval-every", "2", "--patience", "2"),
            "early stop",
            None,
            0,
        ),
    ],
)
def test_run_ends_at_each_limit_with_its_reason(
    run: Run, tmp_path: Path, options: tuple[str, ...], reason: str, step: int | None, code: int
) -> None:
    run(*options, code=code)
    end = Left(tmp_path / "run").metrics("run_end")[0]
    assert end["reason"] == reason
    assert end["step"] == step if step else end["step"] < 50
    verify(tmp_path / "run" / "checkpoints" / "latest")


def test_step_that_is_not_finite_leaves_the_weights_alone_and_is_reported(run: Run, tmp_path: Path) -> None:
    result = run("--steps", "50", "--lr", "1e38", "--grad-clip", "0", "--max-skips", "3", code=1)
    skips = Left(tmp_path / "run").metrics("skip")
    assert [row["in_a_row"] for row in skips][:3] == [1, 2, 3]
    assert len(skips) <= 4, "a step is read when the next has been started"
    assert skips[0]["loss"] is None or skips[0]["grad_norm"] is None
    assert "skipped the update of step" in result.stdout


def test_stop_at_leaves_the_schedule_of_all_steps_unchanged(run: Run, tmp_path: Path) -> None:
    run("--steps", "10", out="whole")
    run("--steps", "10", "--stop-at", "4", out="part")
    whole, part = (Left(tmp_path / name).metrics("step") for name in ("whole", "part"))
    assert [row["lr"] for row in part] == [row["lr"] for row in whole][:4]


def test_epoch_is_a_pass_over_the_data_and_leaves_a_checkpoint(run: Run, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name in ("a", "val"):
        (tmp_path / "d" / f"{name}.txt").write_text("abcdefgh" * 200)
    run("--data", "d", "--steps", "50")
    steps = Left(tmp_path / "run").metrics("step")
    assert [steps[0]["epoch"], steps[-1]["epoch"]] == [0, 1]
    assert (tmp_path / "run" / "checkpoints" / "epoch_1").is_symlink()
    assert (tmp_path / "run" / "checkpoints" / "epoch_1").resolve().name == "step_000025"


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (
            ("--total-batch-size", "100"),
            "--total-batch-size 100: is no multiple of 2 x 32 x 1 ranks = 64; try 128",
        ),
        (("--budget", "5"), "--budget 5: needs to know what an hour costs; give --price"),
        (
            ("--shard", "fsdp"),
            "--shard fsdp: there is one process, and nothing to spread over; start it with torchrun",
        ),
        (
            ("--tokenizer", "nowhere"),
            "--tokenizer nowhere: is no file; give bytes or a tokenizer.json",
        ),
        (("--fp8",), "--fp8: a CPU does not multiply in eight bits; leave it out"),
        (("--resume", "best"), "--resume best: there is no run/checkpoints/best; see run/checkpoints"),
        (("--data", "nowhere"), "nowhere: does not exist; see --data"),
    ],
)
def test_mistake_is_one_line_with_a_hint(run: Run, options: tuple[str, ...], answer: str) -> None:
    result = run("--steps", "2", *options, code=1)
    assert result.stderr == answer + "\n"


@pytest.mark.parametrize("options", ["--lr nan", "--lr inf", "--hours nan", "--rank-timeout inf"])
def test_number_that_is_not_finite_is_refused_before_anything_is_read(options: str) -> None:
    result = CliRunner().invoke(main, options.split())
    assert result.exit_code == 2
    assert f"Invalid value for '{options.split()[0]}': {options.split()[1]} is not finite" in result.stderr


def test_options_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trainer.md").read_text()
    documented = set(re.findall(r"`--([a-z0-9-]+)", page))
    assert {entry.name.replace("_", "-") for entry in fields(Options)} <= documented


def test_parser_of_this_project_reads_the_log_with_no_reject(run: Run, tmp_path: Path) -> None:
    run(
        "--steps",
        "20",
        "--eval-every",
        "10",
        "--save-every",
        "10",
        "--sample-prompt",
        "step 00001",
        "--sample-tokens",
        "4",
    )
    command = [sys.executable, "-m", "gputel", "parse", "run/log.txt", "--json"]
    parsed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["runs"][0]
    phase = parsed["phases"][0]
    assert (parsed["rejects"], parsed["status"]) == (0, "completed")
    assert (phase["records"], phase["first_step"], phase["last_step"], phase["total_steps"]) == (
        20,
        0,
        19,
        20,
    )
    assert phase["evals"]["val_loss"]["count"] == phase["evals"]["val_bpb"]["count"] == 3
    assert phase["metrics"]["loss"]["last"] == pytest.approx(Left(tmp_path / "run").losses()[19], abs=1e-6)


@pytest.mark.long
def test_run_learns_more_than_how_often_bytes_occur(run: Run, tmp_path: Path) -> None:
    """The entropy of single bytes of the standard library is 3.245 nats, of bytes after bytes 2.422."""
    size = "--dim 128 --heads 1 --seq 128 --device-batch-size 4 --eval-tokens 16384"
    run(*size.split(), "--steps", "100", "--eval-every", "100", data=None)
    assert Left(tmp_path / "run").metrics("eval_end")[-1]["val_loss"] < 3.245


def test_slow_network_gets_its_settings_where_none_are_set(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WAN:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("NCCL_BUFFSIZE", "1048576")
    answer = run("--steps", "1", "--network", "wan").stdout
    assert "Network: NCCL_IB_DISABLE=1" in answer
    assert "Network: NCCL_BUFFSIZE=1048576" in answer


def test_slow_network_keeps_nvlink_and_overlap() -> None:
    assert not {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "CUDA_DEVICE_MAX_CONNECTIONS"} & set(WAN)


def test_tensorboard_gets_curves_histograms_samples_and_hyperparameters(run: Run, tmp_path: Path) -> None:
    read = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    asked = "--steps 4 --eval-every 2 --tensorboard --sample-tokens 4".split()
    run(*asked, "--sample-prompt", "def ")
    board = read.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    tags = board.Tags()
    assert [event.step for event in board.Scalars("train/loss")] == [0, 1, 2, 3]
    assert [event.step for event in board.Scalars("eval/val_loss")] == [0, 2, 4]
    assert "weights/blocks.0.up.weight" in tags["histograms"]
    assert "sample/text_summary" in tags["tensors"]
    assert "_hparams_/session_start_info" in board.summary_metadata


def test_run_without_tensorboard_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    answer = run("--steps", "2", "--tensorboard", code=1).stderr
    assert answer == "--tensorboard: needs the package tensorboard; pip install tensorboard\n"


def test_exit_codes_are_those_a_shell_expects() -> None:
    codes = {reason: exit_code(reason) for reason in ("steps", "stop-at", "hours", "SIGINT", "SIGTERM")}
    assert codes == {"steps": 0, "stop-at": 0, "hours": 0, "SIGINT": 130, "SIGTERM": 143}
    assert exit_code("non-finite loss") == 1


class SimulatedGpu(StampClock):
    """Every stamp follows its share of a step's kernels. The host launches them faster than they run, until the
    queue is full; its clock stands still otherwise."""

    def __init__(self) -> None:
        self.host_s = self.free_s = 0.0
        self.queue: deque[float] = deque()
        super().__init__(CPU)
        self.on_gpu = True

    def stamp(self) -> float:
        for _ in range(KERNELS // STAMPS_OF_A_STEP):
            self._launch()
        return self.free_s

    def wait(self, stamp: float) -> None:
        self.host_s = max(self.host_s, stamp)

    def ms(self, first: float, second: float) -> float:
        return (second - first) * 1e3

    def now(self) -> float:
        return self.host_s

    def _launch(self) -> None:
        self.host_s += LAUNCH_S
        if len(self.queue) == QUEUE:
            self.host_s = max(self.host_s, self.queue.popleft())
        self.free_s = max(self.host_s, self.free_s) + KERNEL_S
        self.queue.append(self.free_s)


@pytest.mark.long
def test_steps_at_a_border_last_as_long_as_any_other_on_a_gpu_with_a_launch_queue(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is timed by the device: neither the step launched ahead of an evaluation nor the one after it is
    longer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    gpu = SimulatedGpu()
    monkeypatch.setattr("gputel.trainer.train.StampClock", lambda _: gpu)
    options = f"--device-batch-size 2 --steps 8 --save-every 3 --out {tmp_path / 'run'}"
    result = CliRunner().invoke(main, [*TINY, *options.split()])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "step"]
    kernels = KERNELS // STAMPS_OF_A_STEP * STAMPS_OF_A_STEP
    assert [row["dt_ms"] for row in steps] == pytest.approx([STEP_MS * kernels / KERNELS] * 8, rel=0.01)
    ends = [row["monotonic_s"] for row in steps]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(gpu.free_s, abs=0.2)


def test_spans_that_overlap_are_counted_once() -> None:
    """Buckets wait for each other in the queue of a slow link; only the time in which any of them travels
    counts."""
    clock = StampClock(CPU)
    buckets = [(10.0 + i / 10, 13.0 + i / 10) for i in range(20)]
    assert clock.ms_of_any(buckets) == pytest.approx(4900)
    assert clock.ms_of_any([(10.0, 11.0), (12.0, 12.5), (10.2, 10.4)]) == pytest.approx(1500)
    assert clock.ms_of_any([]) == 0


def test_clock_of_a_cpu_is_the_hosts() -> None:
    clock = StampClock(CPU)
    first = clock.stamp()
    torch.zeros(1)
    assert clock.ms(first, clock.stamp()) >= 0
