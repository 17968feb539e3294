"""Public MFU figures -> the MFU to expect of a GPU and a width of the model.

Part of the work grows with the width of the model, part with its square, so MFU is about `most * width / (width +
half)`. Two numbers fit that curve to the GPU with the most figures; it is then bent through those of each GPU. One
without any figure gets the widest range, not a guess.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gputel.analysis.plan.estimate import Estimate, assumed
from gputel.trainer.gpus import GpuModel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("public.toml")
MEASURED_ON = "H100"
NO_MEASUREMENT = "no measurement on this GPU"

# Possible deviation, as factors. Other software at one of the depths, on the same GPUs, was 15 % lower (nanochat's
# mid-training at depth 20: 40.2 %).
ELSEWHERE = (0.85, 1.15)
# The same chip, with another power limit or memory: a PCIe board runs slower than its peak says.
KIN = (0.65, 1.15)
# Another chip: 60 % was published of an A100 where an H100 reaches 41 %, and a chip with a tenth of their memory
# bandwidth reached 10 %.
OTHER_CHIP = (0.2, 1.6)
PER_DOUBLING = 0.1  # wider range for each doubling of the width away from a measured one
SMALL_BATCH = 0.85
MOST = 90.0  # percent; higher than any published figure
TOKENS_MEASURED = 8 * 2048  # on a GPU at once, the least of the public runs


@dataclass(frozen=True)
class Public:
    """A public figure, with what was measured on and where it stands."""

    gpu: str
    width: int
    mfu: float
    gpus: int
    compiled: bool
    software: str
    source: str

    @property
    def when_compiled(self) -> float:
        """The MFU with torch.compile; estimated where it was measured without."""
        return self.mfu if self.compiled else self.mfu / _eager().value


@dataclass(frozen=True)
class MfuCurve:
    """Compiled MFU in percent by width, through public figures of one GPU; `base` gives the curve of too few."""

    figures: tuple[Public, ...]
    base: MfuCurve | None = None

    def at(self, width: float) -> float:
        most, half = (self.base or self)._fit
        widths = [math.log(figure.width) for figure in self.figures]
        bends = [
            math.log(figure.when_compiled * (figure.width + half) / figure.width / most)
            for figure in self.figures
        ]
        return float(most * width / (width + half) * math.exp(np.interp(math.log(width), widths, bends)))

    @property
    def _fit(self) -> tuple[float, float]:
        """Fits a line: 1 / MFU is linear in 1 / width."""
        slope, intercept = np.polyfit(
            [1 / figure.width for figure in self.figures],
            [1 / figure.when_compiled for figure in self.figures],
            1,
        )
        return 1 / float(intercept), float(slope / intercept)

    def nearest(self, width: float) -> Public:
        return min(self.figures, key=lambda figure: abs(math.log2(width / figure.width)))

    def doublings_from(self, width: float) -> float:
        """Returns how many doublings a width is away from the nearest figure."""
        return abs(math.log2(width / self.nearest(width).width))


def public(gpu: str = MEASURED_ON) -> MfuCurve | None:
    """Returns the curve of a GPU; None if nothing about it was published."""
    return _curves().get(gpu)


def expected(
    width: int, gpu: GpuModel, tokens_at_once: int, curve: MfuCurve | None = None, *, compiled: bool = True
) -> Estimate:
    """Returns the expected MFU in percent, without a measured run."""
    kin = gpu.name if curve or public(gpu.name) else _table()["kin"].get(gpu.name)
    curve = curve or public(kin or MEASURED_ON)
    assert curve is not None
    low, high = ELSEWHERE
    if tokens_at_once < TOKENS_MEASURED:
        low *= SMALL_BATCH
    doubt = 1 + PER_DOUBLING * curve.doublings_from(width)
    value, near = curve.at(width), curve.nearest(width)
    source = (
        f"public on {near.gpu}, width {near.width:,}, {near.software} ({near.source}); other software ±15%"
    )
    figure = assumed(value, value * low / doubt, min(value * high * doubt, MOST), source)
    if kin != gpu.name:
        figure = on_another_gpu(figure, near.gpu, gpu)
    if near.compiled:
        return figure if compiled else without_compiling(figure)
    as_measured = figure * _eager().value
    return _capped(as_measured / _eager()) if compiled else as_measured


def without_compiling(figure: Estimate) -> Estimate:
    """Lowers an MFU to that of eager mode."""
    return figure * _eager()


def _eager() -> Estimate:
    """The share of an MFU that remains without torch.compile."""
    eager = _table()["eager"]
    return assumed(eager["value"], eager["low"], eager["high"], eager["source"])


def _capped(figure: Estimate) -> Estimate:
    return replace(figure, value=min(figure.value, MOST), high=min(figure.high, MOST))


@lru_cache(maxsize=1)
def _curves() -> dict[str, MfuCurve]:
    runs = sorted((Public(**row) for row in _table()["run"]), key=lambda run: run.width)
    figures = {run.gpu: tuple(each for each in runs if each.gpu == run.gpu) for run in runs}
    base = MfuCurve(figures[MEASURED_ON])
    return {gpu: base if gpu == MEASURED_ON else MfuCurve(rows, base) for gpu, rows in figures.items()}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    with TABLE.open("rb") as table:
        return tomllib.load(table)


def carried(run: Estimate, run_width: int, width: int, curve: MfuCurve | None = None) -> Estimate:
    """Transfers a measured MFU to another width along the curve; the range widens with the distance."""
    curve = curve or public()
    assert curve is not None
    factor = curve.at(width) / curve.at(run_width)
    doubt = 1 + PER_DOUBLING * abs(math.log2(width / run_width))
    value = min(run.value * factor, MOST)
    return replace(run, value=value, low=run.low * factor / doubt, high=min(run.high * factor * doubt, MOST))


def on_another_gpu(figure: Estimate, measured_on: str, gpu: GpuModel) -> Estimate:
    """Transfers an MFU to another GPU: widely to one with the same chip, as widely as honest to any other."""
    kin = _table()["kin"]
    if kin.get(gpu.name, gpu.name) == kin.get(measured_on, measured_on):
        low, high = KIN
        source = f"another GPU with the chip of {measured_on} {low - 1:+.0%} to {high - 1:+.0%}"
        value = figure.value
    else:
        low, high = OTHER_CHIP
        source = f"{NO_MEASUREMENT}; --like a run on it narrows the range"
        value = figure.value * math.sqrt(low * high)
    highest = min(figure.high * high, MOST)
    return replace(
        figure,
        value=min(value, highest),
        low=figure.low * low,
        high=highest,
        sources=(*figure.sources, source),
    )
