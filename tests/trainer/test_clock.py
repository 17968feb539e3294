"""Times of a device that runs behind the host: a simulated GPU with a launch queue, under the real loop."""

import json
from collections import deque
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from gputel.trainer.__main__ import main
from gputel.trainer.clock import Marks, StampClock

from .conftest import TINY
from .small_model import CPU

KERNEL_S, LAUNCH_S, QUEUE, KERNELS = 18.75e-6, 5e-6, 1024, 8000
STAMPS_OF_A_STEP = 6  # data, forward, backward, agreement, optimizer, end
STEP_MS = KERNELS * KERNEL_S * 1e3


class SimulatedGpu:
    """Every stamp follows its share of a step's kernels. The host launches them faster than they run, until the
    queue is full; its clock stands still otherwise."""

    on_gpu = True

    def __init__(self) -> None:
        self.host_s = self.free_s = 0.0
        self.queue: deque[float] = deque()

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
    marks = Marks(StampClock(CPU))
    marks.marks = [("forward", 10.0)]
    buckets = [(10.0 + i / 10, 13.0 + i / 10) for i in range(20)]
    assert marks.ms_of_any(buckets) == pytest.approx(4900)
    assert marks.ms_of_any([(10.0, 11.0), (12.0, 12.5), (10.2, 10.4)]) == pytest.approx(1500)
    assert marks.ms_of_any([]) == 0


def test_clock_of_a_cpu_is_the_hosts() -> None:
    clock = StampClock(CPU)
    first = clock.stamp()
    torch.zeros(1)
    assert clock.ms(first, clock.stamp()) >= 0
