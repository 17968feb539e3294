"""A log -> doubts: figures that it prints and that cannot both be right.

Doubts about the reading itself come first, then tokens against throughput, then the pairs of `runs.cross_checks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.doubts import Doubt
from gputel.analysis.runs.cross_checks import ETA_TELLS_S, Figure, cross_checks, figure
from gputel.analysis.runs.mfu import MfuFigures, mfu_doubt, mfu_figures
from gputel.analysis.runs.printed_times import contains_others
from gputel.analysis.runs.record_gaps import FEWEST_GAPS, StepTime, printed_median, step_by_stamps
from gputel.telemetry.clock import SECOND

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData


def log_doubts(subject: RunData, mfu: MfuFigures | None = None) -> tuple[Doubt, ...]:
    """Returns the doubts about what a run printed: about its reading, then about its figures.

    `mfu` is that of a report, which knows the throughput by timestamps where the log prints none.
    """
    reading = (*_cut(subject.log), *subject.log.doubts)
    if subject.log.records.is_empty():
        return reading
    impossible = mfu_doubt(mfu or mfu_figures(subject))
    return (
        *reading,
        *_clock_jump(subject),
        *_fallen_tokens(subject.log.records),
        *subject.step_tokens.doubts,
        *cross_checks(log_figures(subject)),
        *([impossible] if impossible else []),
    )


def _cut(log: Log) -> Iterator[Doubt]:
    """Yields a doubt about a file that was not read to its end, such as a compressed one that is cut."""
    if log.fault:
        yield Doubt("reading", "cut", log.fault, "the rest of the run is missing from every figure")


def _clock_jump(subject: RunData) -> Iterator[Doubt]:
    """Yields a doubt about timestamps that are not used, as the clock was set between two of them."""
    jump = subject.log.results.jump
    if subject.recording is not None or jump is None:
        return
    fell, took = jump.seconds < 0, text.duration(abs(jump.seconds))
    where = f"line {jump.line:,}" if jump.step is None else f"step {jump.step:,}"
    yield Doubt(
        "run",
        "clock",
        f"timestamps {'fall' if fell else 'go on'} by {took} at {where}, "
        f"and are usually {text.duration(jump.usual_s)} apart",
        "the clock was set, or its time zone changed; timestamps are left out"
        + ("" if fell else ", so time in which the run stood still is missing"),
        {"seconds": jump.seconds, "usual_s": jump.usual_s, "jumps": jump.jumps},
        jump.line,
    )


def _fallen_tokens(records: pl.DataFrame) -> Iterator[Doubt]:
    """Yields a doubt about a token count that falls in records without a step, which tell no attempts apart."""
    if "tokens" not in records.columns or records["step"].null_count() < records.height:
        return
    fell = records.with_columns(before=pl.col("tokens").shift().over("phase", "attempt", "rank"))
    fell = fell.filter(pl.col("tokens") < pl.col("before"))
    if fell.is_empty():
        return
    before, after, line = fell.select("before", "tokens", "line").row(0)
    yield Doubt(
        "run",
        "tokens",
        f"tokens fall from {before:,.0f} to {after:,.0f} at line {line:,}, and no step is printed",
        "the run began again there, and its attempts are not told apart",
        {"before": before, "after": after},
        line,
    )


def log_figures(subject: RunData) -> dict[str, Figure | None]:
    """Returns the figures of `cross_checks` that a log has."""
    between = step_by_stamps(subject.log, recorded=subject.recording is not None)
    return {
        **_times_of_steps(subject, between),
        **_throughput(subject, between),
        **_time_left(subject, between),
        **_whole_times(subject),
        **_counts(subject),
        **_last_words(subject),
    }


def _times_of_steps(subject: RunData, between: StepTime | None) -> dict[str, Figure | None]:
    """Returns the median of the printed step times, and the time of a step by timestamps."""
    printed = printed_median(_of_steps_alone(subject), "dt_ms", above=0.0)
    return {
        "printed_s": Figure(printed / 1000) if printed else None,
        "stamped_s": Figure(between.seconds, between.error_s) if between else None,
    }


def _throughput(subject: RunData, between: StepTime | None) -> dict[str, Figure | None]:
    """Returns tok/s as printed and by timestamps; where step times are printed, they are checked instead."""
    records = subject.log.records
    batch, rate = subject.facts.tokens_per_step, printed_median(records, "tok_per_sec", above=0.0)
    if "dt_ms" in records.columns or between is None or batch is None or rate is None:
        return {}
    stamped = float(batch.value) / between.seconds
    return {
        "tok_per_sec": Figure(rate * subject.step_tokens.rate_scale),
        "tok_per_sec_by_stamps": Figure(stamped, stamped * between.error_s / between.seconds),
    }


def _time_left(subject: RunData, between: StepTime | None) -> dict[str, Figure | None]:
    """Returns the printed time left and that of the steps left, of the record whose ratio of both is the median.

    Steps take as long as usual, or with all that is between them: loggers may count pauses or leave them out.
    """
    records = subject.log.records
    printed = printed_median(_of_steps_alone(subject), "dt_ms", above=0.0)
    step_s = between.seconds if between else (printed or 0.0) / 1000
    if not step_s or not {"eta_min", "total_steps"} <= set(records.columns):
        return {}
    left = (pl.col("total_steps") - pl.col("step")).cast(pl.Float64)
    rows = records.select("time", "step", eta_s=60 * pl.col("eta_min"), left_s=left * step_s)
    both = rows.filter(pl.col("eta_s").is_finite() & (pl.max_horizontal("eta_s", "left_s") >= ETA_TELLS_S))
    both = both.filter(pl.col("left_s") > 0).sort(pl.col("eta_s") / pl.col("left_s"))
    if both.height < FEWEST_GAPS:
        return {}
    eta_s, left_s = both.select("eta_s", "left_s").row(both.height // 2)
    timed = rows.drop_nulls(("time", "step"))
    steps = float(timed["step"][-1] - timed["step"][0]) if timed.height else 0.0
    pauses = _passed(timed).value / steps / step_s - 1 if steps > 0 else 0.0
    return {"eta_s": Figure(eta_s), "left_s": Figure(left_s, left_s * max(pauses, 0.0))}


def _whole_times(subject: RunData) -> dict[str, Figure | None]:
    """Returns how long the records took: by timestamps, by their step times and by the log's own total time.

    Stamps of several attempts cover the time between two of them.
    """
    log = subject.log
    timed = log.records.filter(pl.col("time").is_not_null())
    if (subject.recording is None and len(log.places) > 1) or timed.height < FEWEST_GAPS:
        return {}
    elapsed = _passed(timed)
    ended = [frame["time"].drop_nulls() for frame in (timed, log.evals) if frame.height]
    begun = log.began if log.began is not None else int(timed["time"].dt.epoch("ns")[0])
    last = max(int(times.dt.epoch("ns")[-1]) for times in ended if len(times))
    return {
        "elapsed_s": elapsed,
        "steps_s": _by_step_times(timed, printed_median(_of_steps_alone(subject), "dt_ms", above=0.0)),
        **_own_clock(timed),
        "runtime_s": _runtime(log.summary),
        "whole_s": Figure((last - begun) / SECOND, elapsed.error),
    }


def _passed(timed: pl.DataFrame) -> Figure:
    times = timed["time"].dt.epoch("ns")
    return Figure((int(times[-1]) - int(times[0])) / SECOND, 1.0)


def _of_steps_alone(subject: RunData) -> pl.DataFrame:
    """Keeps the records whose printed time holds no evaluation, no save and no compilation."""
    records = subject.log.records
    alone = records.filter(~contains_others(records, subject.log))
    if alone.height == records.height:
        return alone
    return alone.filter(pl.col("line") > pl.col("line").min().over("phase", "attempt"))


def _by_step_times(timed: pl.DataFrame, each: float | None) -> Figure | None:
    """Returns the usual step time in ms, `each`, for all steps from the first record to the last."""
    steps = timed["step"].drop_nulls()
    return None if each is None or len(steps) < FEWEST_GAPS else Figure(each / 1000 * (steps[-1] - steps[0]))


def _own_clock(timed: pl.DataFrame) -> dict[str, Figure | None]:
    """Returns how much the log's total time grew, and the timestamps between the same records."""
    if "total_time_min" not in timed.columns:
        return {}
    rows = timed.filter(pl.col("total_time_min").is_finite())
    if rows.height < FEWEST_GAPS:
        return {}
    totals = rows["total_time_min"]
    return {"total_s": Figure(60 * float(totals[-1] - totals[0])), "passed_s": _passed(rows)}


def _runtime(summary: Mapping[str, float | str]) -> Figure | None:
    minutes, seconds = _number(summary, "total_time_min"), _number(summary, "train_runtime")
    known = seconds if minutes is None else 60 * minutes
    return None if known is None else Figure(known)


def _counts(subject: RunData) -> dict[str, Figure | None]:
    """Returns steps, tokens and ranks, as counted and as announced."""
    log, batch = subject.log, subject.facts.tokens_per_step
    numbered = log.records.filter(pl.col("step").is_not_null())
    figures: dict[str, Figure | None] = {}
    if numbered.height:
        announced, total = numbered, None
        if "total_steps" in numbered.columns and numbered["total_steps"].count():
            has_total = pl.col("total_steps").is_not_null().any().over("phase", "attempt")
            announced, total = numbered.filter(has_total), numbered["total_steps"].max()
        total = total or log.config.get("total_steps")
        figures |= {"last_step": figure(announced["step"].max()), "total_steps": figure(total)}
    if batch and "tokens" in numbered.columns and len(log.places) == 1:
        figures |= _tokens(numbered.filter(pl.col("tokens").is_not_null()), float(batch.value))
    ranks = log.records["rank"].drop_nulls().n_unique()
    return {**figures, "printing": figure(ranks or None), "ranks": figure(log.config.get("world_size"))}


def _tokens(counted: pl.DataFrame, batch: float) -> dict[str, Figure | None]:
    """Returns steps x batch, and how much the printed count grew: rounded by less than it grows at once."""
    if counted.height < FEWEST_GAPS:
        return {}
    at_once: Any = counted["tokens"].diff().max()
    grown, steps = (float(counted[name][-1] - counted[name][0]) for name in ("tokens", "step"))
    return {
        "tokens": Figure(grown, float(at_once)) if grown > 0 else None,
        "tokens_by_steps": Figure(steps * batch),
    }


def _last_words(subject: RunData) -> dict[str, Figure | None]:
    """Returns what the end of a log sums up, and the same of its lines."""
    log = subject.log
    runtime, rate = _number(log.summary, "train_runtime"), _number(log.summary, "train_steps_per_second")
    losses = _losses_of_last_training(log.records)
    steps = log.records["step"].drop_nulls()
    best = _number(log.summary, "min_val")
    minima = (
        log.evals.filter(pl.col("value").is_finite()).group_by("name").agg(pl.col("value").min())["value"]
    )
    return {
        "steps_by_summary": None
        if runtime is None or rate is None
        else Figure(runtime * rate, 0.0005 * runtime),
        "steps": figure(steps.max()) if len(steps) else None,
        "summary_loss": figure(log.summary.get("train_loss")) if runtime is not None else None,
        "mean_loss": figure(losses.mean()) if len(losses) else None,
        "best_printed": figure(best),
        "best_read": Figure(min(minima, key=lambda value: abs(value - best)))
        if best is not None and len(minima)
        else None,
    }


def _losses_of_last_training(records: pl.DataFrame) -> pl.Series:
    """The losses since the epoch last fell: of several trainings in one log, the last one is summed up."""
    if "loss" not in records.columns:
        return pl.Series([], dtype=pl.Float64)
    if "epoch" in records.columns:
        trainings = (pl.col("epoch").diff() < 0).fill_null(value=False).cum_sum()
        records = records.filter(trainings == trainings.max())
    return records.filter(pl.col("loss").is_finite())["loss"]


def _number(summary: Mapping[str, float | str], name: str) -> float | None:
    value = summary.get(name)
    return float(value) if isinstance(value, (int, float)) else None
