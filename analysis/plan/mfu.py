"""Public MFU figures -> a curve of MFU over the width of the model.

Part of the work grows with the width of the model, part with its square, so MFU is about `most * width / (width +
half)`. Two numbers fit that curve, which is then bent through the figures themselves. Beyond them it levels off,
below 100 %.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from gputel.analysis.plan.estimate import Estimate, assumed
from gputel.trainer.gpus import GpuModel
from gputel.trainer.shape import DIM_PER_LAYER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("public.toml")
MEASURED_ON = "H100"

# Possible deviation from the curve, as factors. The figures deviate by 1.7 %; other software at one of their
# depths, on the same GPUs, was 15 % lower (nanochat's mid-training at depth 20: 40.2 %).
ELSEWHERE = (0.85, 1.1)
OTHER_GPU = (
    0.75,
    1.15,
)  # memory and power limit do not grow with the peak: a PCIe board runs slower than it says
PER_DOUBLING = 0.1  # of width, beyond what was measured
SMALL_BATCH = 0.85
MOST = 90.0  # percent; higher than any published figure
TOKENS_MEASURED = 8 * 2048  # on a GPU at once, the least of the public runs


@dataclass(frozen=True)
class Public:
    depth: int
    mfu: float
    gpus: int
    device_batch: int

    @property
    def width(self) -> int:
        return self.depth * DIM_PER_LAYER


@dataclass(frozen=True)
class MfuCurve:
    """MFU in percent by width, through public figures."""

    figures: tuple[Public, ...]

    def at(self, width: float) -> float:
        most, half = self._fit
        widths = [math.log(figure.width) for figure in self.figures]
        bends = [
            math.log(figure.mfu * (figure.width + half) / figure.width / most) for figure in self.figures
        ]
        return float(most * width / (width + half) * math.exp(np.interp(math.log(width), widths, bends)))

    @property
    def _fit(self) -> tuple[float, float]:
        """Fits a line: 1 / MFU is linear in 1 / width."""
        slope, intercept = np.polyfit(
            [1 / figure.width for figure in self.figures], [1 / figure.mfu for figure in self.figures], 1
        )
        return 1 / float(intercept), float(slope / intercept)

    def doublings_beyond(self, width: float) -> float:
        """Returns how many doublings a width is outside the range of the figures."""
        least, most = self.figures[0].width, self.figures[-1].width
        return max(0.0, math.log2(least / width), math.log2(width / most))


@lru_cache(maxsize=1)
def public() -> MfuCurve:
    with TABLE.open("rb") as table:
        runs = tuple(Public(**row) for row in tomllib.load(table)["run"])
    return MfuCurve(tuple(sorted(runs, key=lambda run: run.depth)))


def expected(width: int, gpu: GpuModel, tokens_at_once: int, curve: MfuCurve | None = None) -> Estimate:
    """Returns the expected MFU in percent, without a measured run."""
    curve = curve or public()
    low, high = ELSEWHERE
    depths = f"{curve.figures[0].depth} to {curve.figures[-1].depth}"
    source = f"public runs on {MEASURED_ON}, depth {depths}; other software {low - 1:+.0%} to {high - 1:+.0%}"
    if tokens_at_once < TOKENS_MEASURED:
        low *= SMALL_BATCH
    doubt = 1 + PER_DOUBLING * curve.doublings_beyond(width)
    value = curve.at(width)
    figure = assumed(value, value * low / doubt, min(value * high * doubt, MOST), source)
    return figure if gpu.name == MEASURED_ON else on_another_gpu(figure)


def carried(run: Estimate, run_width: int, width: int, curve: MfuCurve | None = None) -> Estimate:
    """Transfers a measured MFU to another width along the curve; the range widens with the distance."""
    curve = curve or public()
    factor = curve.at(width) / curve.at(run_width)
    doubt = 1 + PER_DOUBLING * abs(math.log2(width / run_width))
    value = min(run.value * factor, MOST)
    return replace(run, value=value, low=run.low * factor / doubt, high=min(run.high * factor * doubt, MOST))


def on_another_gpu(figure: Estimate) -> Estimate:
    low, high = OTHER_GPU
    sources = (*figure.sources, f"another GPU {low - 1:+.0%} to {high - 1:+.0%}")
    return replace(figure, low=figure.low * low, high=min(figure.high * high, MOST), sources=sources)
