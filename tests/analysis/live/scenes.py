"""Logs and run folders that grow under a follower."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from gputel.analysis.live.follower import Follower, Update
from gputel.analysis.live.view import Terms
from gputel.analysis.logs.incremental import Increment
from gputel.telemetry import run_folder
from gputel.telemetry.clock import SECOND
from gputel.telemetry.process import output_index
from gputel.telemetry.store.tiers import Tier, TierColumn

STEP = "step {:05d}/00400 (0.1%) | loss: {:.6f} | lrm: 1.00 | dt: 500.00ms | total time: {:.2f}m\n"
TRACEBACK = "Traceback (most recent call last):\n  File 'a'\nRuntimeError: CUDA out of memory.\n"
START = 1_800_000_000 * SECOND
FAST = Tier("fast", 10.0, (TierColumn("power_w", "W", 1000, "0"), TierColumn("util", "%", 1, "0")))


def log_of(steps: range) -> str:
    lines = [STEP.format(step, 5 - step / 100, step / 120) for step in steps]
    for at in range(len(lines) - 1, 0, -50):
        lines.insert(at, f"Step {steps[at]:05d} | Validation bpb: {2 - at / 1000:.6f}\n")
        lines.insert(at, f"saved checkpoint to out/ckpt_{steps[at]}.pt\n")
    return "".join(lines)


def record(segment: Path, text: str, wall_ns: int) -> None:
    with (segment / "output.log").open("a") as output:
        output.write(text)
    with (segment / "output.idx").open("ab") as index:
        index.write(output_index.pack(wall_ns, (segment / "output.log").stat().st_size))


def make_run(folder: Path) -> Path:
    gpu = {"gpu": "0", "uuid": "GPU-1", "name": "H100", "memory_total_mib": 81559, "limits": {"power_w": 700}}
    run_folder.create(
        folder, {"run": "d16", "started": {"wall_ns": START}, "gpus": [gpu, {**gpu, "gpu": "1"}]}
    )
    return folder


def joined(updates: list[Update], table: str) -> pl.DataFrame:
    frames_read: list[pl.DataFrame] = []
    for update in updates:
        if isinstance(update.increment, Increment):
            frames_read = [] if update.increment.afresh else frames_read
            frames_read.append(getattr(update.increment, table))
    return pl.concat(frames_read, how="diagonal").sort("line", maintain_order=True)


class Clock:
    """A clock in hand; `read` moves it a second, so that each read looks for new files."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def read(follower: Follower, clock: Clock) -> list[Update]:
    clock.now += 1
    return follower.read()


def view_of(tmp_path: Path, clock: Clock, text: str, terms: Terms | None = None) -> Any:
    (tmp_path / "train.log").write_text(text)
    follower = Follower([str(tmp_path / "train.log")], now=clock)
    read(follower, clock)
    follower.close()
    return follower.runs[0].state.view(terms)
