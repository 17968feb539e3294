"""A run -> doubts: figures of it that cannot both be right. A run whose figures agree has none.

`log_doubts` checks what the log prints against itself: tokens against throughput, step times and total time against
timestamps. `report_doubts` adds what was measured: FLOPs against the peak, power against its limit, the number of
GPUs, log and readings that share no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align.step_time import BLOCK
from gputel.analysis.doubts import Doubt
from gputel.analysis.report.verdicts import MFU_QUESTION, Verdict
from gputel.analysis.runs.batch import unit_factor

if TYPE_CHECKING:
    from gputel.analysis.runs import RunData

LONGER = 1.15  # times the time between records, above which a printed step time cannot be
SHORTER = 2.0  # times the printed step time, above which the time between records is not explained by it
OVER_LIMIT = 1.1  # of the power limit, as a mean over the training
BUSY = 20.0  # % utilization of a GPU that takes part
SECOND_NS = 1_000_000_000


def log_doubts(subject: RunData) -> tuple[Doubt, ...]:
    """Returns the doubts about what a run printed: about its reading, then about its figures."""
    if subject.log.records.is_empty():
        return subject.log.doubts
    between = _between_records(subject)
    return (
        *subject.log.doubts,
        *subject.step_tokens.doubts,
        *_step_time(subject, between),
        *_total_time(subject),
    )


@dataclass(frozen=True)
class Findings:
    """What a report found of a run: the overlap of log and readings, sums by kind of span, GPUs, and verdicts."""

    shared: Mapping[str, Any] | None
    totals: pl.DataFrame
    gpus: pl.DataFrame
    verdicts: Sequence[Verdict]


def report_doubts(subject: RunData, findings: Findings) -> tuple[Doubt, ...]:
    """Returns the doubts about a run, most severe first: files that do not belong together, then its figures."""
    mfu = next((verdict for verdict in findings.verdicts if verdict.question == MFU_QUESTION), None)
    doubt = mfu_doubt(mfu) if mfu else None
    return (
        *_apart(subject, findings.shared),
        *log_doubts(subject),
        *_power(subject, findings.totals),
        *_gpus(subject, findings.gpus),
        *([doubt] if doubt else []),
    )


def mfu_doubt(mfu: Verdict) -> Doubt | None:
    """Returns the doubt about an MFU that is impossible, or printed and computed differently."""
    printed, computed = mfu.facts.get("printed"), mfu.facts.get("reckoned")
    figures = {"printed": printed, "computed": computed}
    if mfu.answer.startswith("impossible"):
        evidence = (
            f"MFU would be {mfu.answer.removeprefix('impossible: ')}, and 100 % is the peak of the GPUs"
        )
        return Doubt(
            "run", "mfu", evidence, "tokens, parameters, throughput or the number of GPUs are wrong", figures
        )
    reason = mfu.facts.get("disagreement")
    if reason is None or printed is None or computed is None:
        return None
    return Doubt(
        "run",
        "mfu",
        f"the log prints an MFU of {printed:.3g} %, computed it is {computed:.3g} %",
        reason,
        figures,
    )


def _between_records(subject: RunData) -> tuple[float, float] | None:
    """Returns the median time of a step by timestamps, over blocks of steps, and its error; None of too few."""
    rows = subject.log.records.filter(pl.col("time").is_not_null() & pl.col("step").is_not_null())
    rows = rows.unique(["phase", "attempt", "step"], keep="first", maintain_order=True)
    if rows.height < 3:
        return None
    whole = subject.recording is None and bool((rows["time"].dt.epoch("ns") % SECOND_NS == 0).all())
    apart = BLOCK if whole else 1
    place = ["phase", "attempt"]
    seconds = pl.col("time").diff(apart).over(place).dt.total_nanoseconds() / 1e9
    each = rows.select(seconds / pl.col("step").diff(apart).over(place)).to_series()
    each = each.filter(each.is_finite() & (each > 0))
    median: Any = each.median() if len(each) >= 3 else None
    return None if median is None else (float(median), 1.0 / apart if whole else 0.001)


def _step_time(subject: RunData, between: tuple[float, float] | None) -> Iterator[Doubt]:
    records = subject.log.records
    if between is None:
        return
    stamped, error_s = between
    if "dt_ms" in records.columns:
        values = records.filter(pl.col("dt_ms").is_finite() & (pl.col("dt_ms") > 0))["dt_ms"]
        median: Any = values.median()
        if median is None:
            return
        printed = float(median) / 1000
        if printed > LONGER * stamped + error_s or stamped > SHORTER * printed + error_s:
            yield Doubt(
                "run",
                "step-time",
                f"a step takes {text.duration(printed)} as printed, and {text.duration(stamped)} by timestamps",
                _why_of_time(stamped / printed),
                {"printed_s": printed, "stamped_s": stamped},
            )
    elif "tok_per_sec" in records.columns and subject.facts.tokens_per_step:
        tokens = float(subject.facts.tokens_per_step.value)
        rates = records.filter(pl.col("tok_per_sec").is_finite() & (pl.col("tok_per_sec") > 0))["tok_per_sec"]
        rate: Any = rates.median()
        factor = None if rate is None else unit_factor(tokens / stamped / float(rate))
        if factor is not None and stamped > 10 * error_s:
            yield Doubt(
                "run",
                "tok-per-sec",
                f"the log prints {float(rate):,.4g} tok/s, and {tokens:,.0f} tokens in "
                f"{text.duration(stamped)} are {tokens / stamped:,.4g} tok/s",
                "it is printed per GPU, or in another unit",
                {"printed": float(rate), "by_stamps": tokens / stamped, "factor": factor},
            )


def _why_of_time(ratio: float) -> str:
    factor = unit_factor(ratio)
    if factor in (1000.0, 0.001):
        return "seconds and milliseconds are mixed up"
    if factor is not None and factor > 1:
        return "it is printed for one of several micro-batches"
    return (
        "it covers several steps"
        if ratio < 1
        else "it leaves out part of each step, such as waiting for data"
    )


def _total_time(subject: RunData) -> Iterator[Doubt]:
    """A total time may leave out steps, but cannot be longer than the log."""
    records = subject.log.records
    if "total_time_min" not in records.columns or (subject.recording is None and len(subject.log.places) > 1):
        return
    rows = records.filter(pl.col("time").is_not_null() & pl.col("total_time_min").is_finite())
    if rows.height < 3:
        return
    totals, times = rows["total_time_min"], rows["time"].dt.epoch("ns")
    grown, passed = 60 * float(totals[-1] - totals[0]), (int(times[-1]) - int(times[0])) / SECOND_NS
    if grown > LONGER * passed + 1:
        yield Doubt(
            "run",
            "total-time",
            f"the log's own time grows by {text.duration(grown)} within {text.duration(passed)} of timestamps",
            "its unit is another, or lines of several runs are mixed",
            {"printed_s": grown, "stamped_s": passed},
        )


def _apart(subject: RunData, shared: Mapping[str, Any] | None) -> Iterator[Doubt]:
    if shared is None or shared["shared_s"] or subject.recording is not None:
        return
    offset_s = shared["offset_s"]
    likely = "one of them is of another run" if offset_s is None else "one of them is in another time zone"
    hint = "name the shift by --offset" if offset_s is None else f"add --offset={offset_s / 3600:g}h"
    yield Doubt(
        "run",
        "overlap",
        f"the log is of {_stretch(shared['log'])}, the readings of {_stretch(shared['gpu'])}: they share no time",
        f"{likely}; {hint}",
        {"shared_s": 0.0, "offset_s": offset_s},
    )


def _stretch(edges: list[str]) -> str:
    return " to ".join(str(edge)[:19].replace("T", " ") for edge in edges)


def _power(subject: RunData, totals: pl.DataFrame) -> Iterator[Doubt]:
    """Compares the mean power of the training with what the limit allows."""
    limit = subject.facts.power_limit_w
    train = totals.filter(pl.col("kind") == "train")
    mean = train["power_mean_w"][0] if train.height and "power_mean_w" in train.columns else None
    if limit is None or mean is None or mean <= OVER_LIMIT * float(limit.value):
        return
    yield Doubt(
        "run",
        "power",
        f"the GPUs drew {mean:,.0f} W on average, and their limit is {float(limit.value):,.0f} W",
        "the readings are in another unit, or of more GPUs than the limit",
        {"power_mean_w": mean, "power_limit_w": float(limit.value)},
    )


def _gpus(subject: RunData, gpus: pl.DataFrame) -> Iterator[Doubt]:
    """Compares the printed number of ranks with the GPUs that were measured, and that were busy."""
    ranks = subject.log.config.get("world_size")
    if not isinstance(ranks, (int, float)) or gpus.is_empty():
        return
    measured, busy = gpus.height, None
    if "util" in gpus.columns and not gpus["util"].null_count():
        busy = gpus.filter(pl.col("util") > BUSY).height
    if measured < ranks:
        words, likely = (
            f"the readings are of {measured}",
            "other nodes were not recorded: energy is that of a part",
        )
    elif busy is not None and busy > ranks:
        words, likely = f"{busy} GPUs were busy", "other jobs ran beside it: energy is not its own"
    else:
        return
    yield Doubt("run", "gpus", f"the log prints {ranks:,.0f} ranks, and {words}", likely,
                {"ranks": float(ranks), "measured": float(measured)})  # fmt: skip
