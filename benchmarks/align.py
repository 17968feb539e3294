"""What a join of samples and steps costs, beside the ways that users would take: a filter per step, a join as of.

The samples are made: two GPUs at 100 Hz for four hours, eight readings of random values, and 12,800 steps that took
1.125 s each. Every way gives the energy of each step by zero-order hold or by mean times duration; how far it lies
from a sum by hand is told beside its time. `python benchmarks/align.py --help`
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from gputel.analysis.align.join import measured
from gputel.analysis.align.marks import LogMark
from gputel.analysis.align.spans import of_marks

START = 1_772_359_200_000_000_000
SECOND = 1_000_000_000
STEP_NS = 1_125_000_000
FEW = 200  # steps that the slow ways are timed over

Joules: TypeAlias = npt.NDArray[np.float64]
Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12_800)
    parser.add_argument("--rows", type=int, default=2_880_000, help="of both GPUs together")
    parser.add_argument(
        "--out", type=Path, help="where to write the results as Markdown, else standard output"
    )
    parser.add_argument("--apart", action="store_true", help="each GPU is sampled at times of its own")
    options = parser.parse_args()
    text = "\n".join(report(options.rows, options.steps, together=not options.apart)) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


def report(rows: int, steps: int, *, together: bool) -> Iterator[str]:
    gpu = samples(rows // 2, together=together)
    marks = [LogMark("began", START)]
    marks += [
        LogMark("train", START + (n + 1) * STEP_NS, "base", 1, n, 1, first=n == 0, dt_ns=STEP_NS)
        for n in range(steps)
    ]
    cut_s, spans = timed(lambda: of_marks(marks))
    part = spans.slice(steps // 2, FEW)
    exact = by_hand(gpu, part)
    yield "# Align"
    yield ""
    yield (
        f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}); "
        f"{len(gpu):,} samples x 8 readings, {steps:,} steps; cutting the run into spans took {cut_s:.2f} s."
    )
    yield ""
    yield "| way | CPU s | x ours | worst error of a step's energy |"
    yield "|---|---|---|---|"
    ours_s, held = timed(lambda: measured(spans, gpu), 5)
    yield line(
        "`gputel.analysis.align.measured`: 17 measures",
        ours_s,
        ours_s,
        held["energy_j"].slice(steps // 2, FEW).to_numpy(),
        exact,
    )
    seconds, joules = timed(lambda: filtered(gpu, part))
    yield line(
        f"polars, a filter per step (timed over {FEW} steps)", seconds * steps / FEW, ours_s, joules, exact
    )
    seconds, joules = timed(lambda: masked(gpu, part))
    yield line(
        f"numpy, a mask per step, power alone (over {FEW})", seconds * steps / FEW, ours_s, joules, exact
    )
    seconds, joules = timed(lambda: as_of(gpu, spans), 5)
    yield line(
        "polars, join_asof and group_by: means of 8 readings",
        seconds,
        ours_s,
        joules[steps // 2 :][:FEW],
        exact,
    )


def line(name: str, seconds: float, ours_s: float, joules: Joules, exact: Joules) -> str:
    return f"| {name} | {seconds:.2f} | {seconds / ours_s:.1f} | {np.max(np.abs(joules / exact - 1)):.1e} |"


def timed(work: Callable[[], Result], times: int = 1) -> tuple[float, Result]:
    """The best of so many."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        result = work()
        taken.append(time.process_time() - began)
    return min(taken), result


def samples(each: int, *, together: bool) -> pl.DataFrame:
    """Of two GPUs, sampled a little late now and then: at one time, as we do, or each at its own."""
    chance = np.random.default_rng(7)
    frames = []
    times = START + np.arange(each) * 10_000_000
    for gpu in "01":
        if gpu == "0" or not together:
            times = START + np.arange(each) * 10_000_000 + chance.integers(0, 500_000, each)
        power = chance.integers(60_000, 700_000, each) / 1000
        frames.append(
            pl.DataFrame(
                {
                    "time": times,
                    "gpu": [gpu] * each,
                    "power_w": power,
                    "energy_j": np.cumsum(power / 100)[np.arange(each) // 10 * 10],
                    "temp_c": chance.integers(30, 80, each),
                    "util": chance.integers(0, 101, each),
                    "mem_used_mib": chance.integers(0, 80_000, each),
                    "sm_mhz": chance.integers(300, 1980, each),
                    "throttle": np.zeros(each, dtype=np.int64),
                    "tensor_active": chance.random(each) * 100,
                }
            )
        )
    return (
        pl.concat(frames)
        .with_columns(pl.col("time").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))
        .sort("time")
    )


READINGS = ("power_w", "energy_j", "temp_c", "util", "mem_used_mib", "sm_mhz", "throttle", "tensor_active")


def by_hand(gpu: pl.DataFrame, spans: pl.DataFrame) -> Joules:
    """Tick by tick, in Python's own numbers."""
    total = np.zeros(len(spans))
    for own in gpu.partition_by("gpu"):
        times, power = own["time"].dt.epoch("ns").to_list(), own["power_w"].to_list()
        edges = zip(spans["start"].dt.epoch("ns"), spans["end"].dt.epoch("ns"), strict=True)
        for place, (start, end) in enumerate(edges):
            first = int(np.searchsorted(times, start, side="right")) - 1
            at = first
            while at < len(times) - 1 and times[at] < end:
                total[place] += power[at] * (min(times[at + 1], end) - max(times[at], start)) / 1e9
                at += 1
    return total


def filtered(gpu: pl.DataFrame, spans: pl.DataFrame) -> Joules:
    """What a script does: the samples of each step, their means and maxima; energy as mean power times duration."""
    found = []
    for start, end in spans.select("start", "end").iter_rows():
        own = gpu.filter((pl.col("time") >= start) & (pl.col("time") < end))
        means = own.select(pl.col(READINGS).mean(), pl.col("power_w").max().alias("peak"))
        found.append(2 * means["power_w"][0] * (end - start).total_seconds())
    return np.array(found)


def masked(gpu: pl.DataFrame, spans: pl.DataFrame) -> Joules:
    times, power = gpu["time"].dt.epoch("ns").to_numpy(), gpu["power_w"].to_numpy()
    edges = zip(spans["start"].dt.epoch("ns"), spans["end"].dt.epoch("ns"), strict=True)
    return np.array([2 * power[(times >= a) & (times < b)].mean() * (b - a) / 1e9 for a, b in edges])


def as_of(gpu: pl.DataFrame, spans: pl.DataFrame) -> Joules:
    numbered = spans.select(pl.col("start").alias("time").set_sorted(), "start", "end").with_row_index("span")
    joined = gpu.join_asof(numbered, on="time").group_by("span", maintain_order=True)
    means = joined.agg(pl.col(READINGS).mean(), (pl.col("end") - pl.col("start")).first().alias("width"))
    means = numbered.select("span").join(means, on="span", how="left")
    seconds = means["width"].dt.total_nanoseconds().to_numpy() / 1e9
    return 2 * means["power_w"].to_numpy() * seconds


if __name__ == "__main__":
    main()
