"""`gputel record --inside steps`: from the hooks of an unchanged training to the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gputel
from tests.command import gputel as command
from tests.recordings import RECORD
from tests.telemetry.inside import small_torch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="recording is for Linux")

TRAINING = """
import time, torch
from torch.autograd import backward
from torch.utils.data.dataloader import DataLoader
optimizer = torch.optim.Optimizer()
def data():
    for number in range(12):
        time.sleep(0.2)  # a line that comes late is still nearer to its step than to the next
        yield number
for number, batch in enumerate(DataLoader(data())):
    backward()
    optimizer.step()
    time.sleep(0.01)
    print(f"step {number:05d}/00012 | loss: {1 / (number + 1):.6f}", flush=True)
"""


def record(tmp_path: Path, script: str, *options: str) -> Path:
    """Records a script with a `torch` of a few lines on its path."""
    small_torch.write(tmp_path / "stub")
    (tmp_path / "train.py").write_text(script)
    run = tmp_path / "run"
    argv = [*RECORD, "--out", str(run), "--no-host", "--no-source", "--inside", "steps", *options]
    subprocess.run(
        [*argv, "--", sys.executable, str(tmp_path / "train.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "stub")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return run


def test_unchanged_training_tells_what_its_steps_waited_for(tmp_path: Path) -> None:
    run = record(tmp_path, TRAINING)
    steps = gputel.open_run(run).per_step().select("step", "data_wait_ms", "backwards").rows()
    assert [step for step, _, _ in steps] == list(range(12))
    assert all(wait >= 200 and backwards == 1 for _, wait, backwards in steps)
    report = json.loads(command("report", run, "--json").stdout)
    (parts,) = report["step_parts"]
    assert (parts["rank"], parts["steps"]) == (None, 11)
    assert parts["data_wait_share"] == pytest.approx(parts["data_wait_ms"] / parts["step_ms"])
    (finding,) = [each for each in report["verdicts"] if each["question"] == "bottleneck"]
    assert finding["answer"] == "input"
    assert finding["evidence"][0].endswith("spent waiting for data, as seen from inside over 11 steps")
    assert report["unseen"] == []
    assert "Where the time of a step went: steps 0 to 11" in command("report", run).stdout
    assert gputel.open_run(run).descriptions[0]["inside"]["level"] == "steps"


def test_training_without_steps_says_so(tmp_path: Path) -> None:
    run = record(tmp_path, "import torch\nprint('step 1/2 | loss: 1.0')")
    report = json.loads(command("report", run, "--json").stdout)
    assert report["step_parts"] == []
    assert report["unseen"] == [
        "no steps: no optimizer of PyTorch took one in a Python that could be entered"
    ]


WITHOUT_OPTIMIZER = """
import time
ticks = iter(range(0, 10**12, 500_000_000))
time.clock_gettime_ns = lambda _: next(ticks)  # of the hooks alone
import torch
from torch.autograd import backward
from torch.utils.data.dataloader import DataLoader
for _ in DataLoader(range(8)):
    backward()
"""


def test_training_without_an_optimizer_says_what_it_did_instead(tmp_path: Path) -> None:
    run = record(tmp_path, WITHOUT_OPTIMIZER)
    (words,) = json.loads(command("report", run, "--json").stdout)["unseen"]
    assert "steps are not seen: no optimizer of PyTorch took one; " in words
    assert words.endswith(" % of it waiting for data")
    recording = gputel.open_run(run).recording
    assert recording is not None
    assert recording.inside.is_empty()
