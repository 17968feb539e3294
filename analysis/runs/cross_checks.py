"""Figures of one run, each from two sources -> doubts where the two differ by more than their ranges allow.

A pair says how far one figure may be from the other without a contradiction: a step time may leave out a part of a
step, but cannot be longer than the time between two lines. Below come the pairs; `runs.log_doubts` and
`report.doubts` have the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gputel.analysis import text
from gputel.analysis.doubts import Doubt
from gputel.analysis.runs.batch import unit_factor

ETA_TELLS_S = 60.0  # less is often rounded away
ETA_FACTOR = 2.0  # by which a printed time left may differ from that of the steps left


@dataclass(frozen=True)
class Figure:
    """A figure by one source; the true value is within `error` in nine of ten cases."""

    value: float
    error: float = 0.0


@dataclass(frozen=True)
class Pair:
    """Figures `one` and `other`, whose ratio is from `low` to `high` in a run without a contradiction.

    `evidence` is the sentence with both, written by `show`; `likely` may depend on their ratio.
    """

    what: str
    one: str
    other: str
    low: float
    high: float
    evidence: str
    show: Callable[[float], str]
    likely: str | Callable[[float], str]

    def doubt(self, figures: Mapping[str, Figure | None]) -> Doubt | None:
        one, other = figures.get(self.one), figures.get(self.other)
        if one is None or other is None or not other.value > 0:
            return None
        error = math.hypot(one.error, other.error * one.value / other.value)
        if self.low * other.value - error <= one.value <= self.high * other.value + error:
            return None
        ratio = one.value / other.value
        return Doubt(
            "run",
            self.what,
            self.evidence.format(self.show(one.value), self.show(other.value)),
            self.likely(ratio) if callable(self.likely) else self.likely,
            {self.one: one.value, self.other: other.value},
        )


def figure(value: Any) -> Figure | None:
    """Returns a number as an exact figure; None of anything else."""
    return Figure(float(value)) if isinstance(value, (int, float)) else None


def cross_checks(figures: Mapping[str, Figure | None]) -> Iterator[Doubt]:
    """Yields the doubts about all pairs of which both figures are given, the first of each kind."""
    doubts = [doubt for pair in PAIRS if (doubt := pair.doubt(figures))]
    yield from reversed({doubt.what: doubt for doubt in reversed(doubts)}.values())


def _why_of_time(ratio: float) -> str:
    factor = unit_factor(ratio)
    if factor in (1000.0, 0.001):
        return "seconds and milliseconds are mixed up"
    if factor is not None and factor < 1:
        return "it is printed for one of several micro-batches"
    return (
        "it covers several steps"
        if ratio > 1
        else "it leaves out part of each step, such as waiting for data"
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:,.4g}"


def _watts(value: float) -> str:
    return f"{value:,.0f} W"


def _percent(value: float) -> str:
    return f"{value:,.0f} %"


OTHER_RUNS = "its unit is another, or lines of several runs are mixed"
PAIRS = (
    Pair("step-time", "printed_s", "stamped_s", 0.7, 1.15,
         "a step takes {} as printed, and {} by timestamps", text.duration, _why_of_time),
    Pair("step-time", "steps_s", "elapsed_s", 0, 1.15,
         "all steps take {} by their printed times, and timestamps cover {}", text.duration, OTHER_RUNS),
    Pair("total-time", "total_s", "passed_s", 0, 1.15,
         "the log's own time grows by {} within {} of timestamps", text.duration, OTHER_RUNS),
    Pair("runtime", "runtime_s", "whole_s", 0, 1.15,
         "the log ends with a training time of {}, and its timestamps cover {}", text.duration,
         "it counts an earlier attempt, or its unit is another"),
    Pair("time-left", "eta_s", "left_s", 1 / ETA_FACTOR, ETA_FACTOR,
         "the log prints a time left of {}, and the steps left at its usual pace take {}", text.duration,
         "its unit is another, or it is that of an epoch or of a phase"),
    Pair("tok-per-sec", "tok_per_sec", "tok_per_sec_by_stamps", 0.55, 1.8,
         "the log prints {} tok/s, and tokens of a step by timestamps are {} tok/s", _number,
         "it is printed per GPU, or in another unit"),
    Pair("tokens", "tokens", "tokens_by_steps", 0.95, 1.05,
         "the printed token count grows by {}, and steps x batch are {}", _count,
         "the batch is another, or tokens are those of one rank"),
    Pair("steps", "last_step", "total_steps", 0, 1.0,
         "the log goes to step {}, and announces {} steps", _count,
         "steps and total are counted in different units, or it went on from another run"),
    Pair("steps-per-sec", "steps_by_summary", "steps", 0.8, 1.25,
         "the log ends with a rate and a time that make {} steps, and the steps that it prints are {}", _count,
         "the summary counts one attempt alone, or steps of another kind"),
    Pair("mean-loss", "summary_loss", "mean_loss", 0.8, 1.25,
         "the log ends with a mean training loss of {}, and the mean of those it prints is {}", _number,
         "the summary covers other steps, as of a resumed run, or another loss"),
    Pair("best-evaluation", "best_printed", "best_read", 0.995, 1.005,
         "the log ends with a best evaluation of {}, and the nearest best of those it prints is {}", _number,
         "evaluations were not read, or an earlier attempt was better"),
    Pair("ranks", "printing", "ranks", 0, 1.0,
         "{} ranks print, and the log says that there are {}", _count, "lines of several runs are mixed"),
    Pair("power", "power_mean_w", "power_limit_w", 0, 1.1,
         "the GPUs drew {} on average, and their limit is {}", _watts,
         "the readings are in another unit, or of more GPUs than the limit"),
    Pair("energy", "integral_j", "counter_j", 0.85, 1.15,
         "the training took {} by the integral of power, and {} by the GPUs' counter", text.energy,
         "readings of power are too rare or too smooth for the steps: the counter is right"),
    Pair("memory", "printed_mib", "measured_mib", 0, 1.05,
         "the log prints a peak of {} a GPU, and the readings have {}", text.mebibytes,
         "the readings are of other GPUs, or began after the peak"),
    Pair("memory", "printed_mib", "memory_total_mib", 0, 1.02,  # a name has whole GB
         "the log prints a peak of {} a GPU, and one has {}", text.mebibytes,
         "it is printed in another unit, for several GPUs together, or for another GPU"),
    Pair("memory", "measured_mib", "memory_total_mib", 0, 1.0,
         "the readings have a peak of {} on one GPU, and it has {}", text.mebibytes,
         "the readings are in another unit, or of several GPUs together"),
    Pair("power", "mfu_percent", "power_percent", 0, 1.5,
         "by its throughput the run used {} of the GPUs' peak, and they drew {} of their power limit on average",
         _percent, "the readings are of other GPUs or of another time, or the throughput is in another unit"),
    Pair("gpus", "ranks", "measured", 0, 1.0,
         "the log prints {} ranks, and the readings are of {} GPUs", _count,
         "other nodes were not recorded: energy is that of a part"),
    Pair("gpus", "busy", "ranks", 0, 1.0,
         "{} GPUs were busy, and the log prints {} ranks", _count,
         "other jobs ran beside it: energy is not its own"),
)  # fmt: skip
"""Every two sources of one figure.

The batch, whose sources decide the unit of the throughput, has its own checks in `runs.batch`, and MFU, whose
disagreement is a verdict, in `report.verdicts`.
"""
