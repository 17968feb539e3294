"""Logs of runs that a plan learns from: eight GPUs, depth 12."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gputel.analysis.runs import RunData

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
ROOT = Path(__file__).resolve().parents[3]
D16 = ROOT / "sample_logs" / "d16-base.log.gz"
D24 = ROOT / "sample_logs" / "d24-base.log.gz"


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
