"""The first lines of a report: how the run went, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from gputel.analysis import text
from gputel.analysis.align import uncertainty
from gputel.analysis.align.join import WHOLE
from gputel.analysis.document import FactList, rows
from gputel.analysis.documents.parse import best_evaluation, best_of
from gputel.analysis.logs import summary
from gputel.analysis.logs.attempts import retained
from gputel.analysis.logs.summary import figures
from gputel.analysis.report.phases import printed_rates
from gputel.analysis.report.verdicts import MFU_QUESTION, UNKNOWN

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log
    from gputel.analysis.logs.outcome import LogEvent
    from gputel.analysis.report.run_report import Report


def headline(report: Report, price: float | None) -> FactList:
    """How the run went and what it took, in a few lines."""
    log = report.subject.log
    return FactList(
        {
            "run": _status(report),
            "hung": "\n".join(f"{each.line}; see {each.folder}" for each in report.incidents),
            "not seen": "\n".join(report.unseen),
            "ended by": _ended_by(log.cause) if log.cause else None,
            "loss": _loss(report),
            "speed": _speed(report),
            "energy": _energy_used(report),
            "peaks": _peaks(report),
            "cost": _cost(report, price),
        }
    )


def _ended_by(cause: LogEvent) -> str:
    """`line 34: KeyboardInterrupt (SIGINT, which Ctrl-C sends)`: Python's word for it does not say who."""
    if not cause.kind and not cause.fatal:  # where it ends is not what ended it
        return f"unknown: {cause.text}" + (f", in line {cause.line:,}" if cause.line else "")
    where = f"line {cause.line}: " if cause.line else ""
    who = " (SIGINT, which Ctrl-C sends)" if "KeyboardInterrupt" in cause.text else ""
    return f"{where}{cause.text}{who}"


def _status(report: Report) -> str:
    """`d16: completed, 4 h 19 min`; readings without a log have no status."""
    subject, seconds = report.subject, _seconds(report)
    spoke = subject.log.lines != 0 or subject.log.records.height
    is_table = subject.log.telemetry is not None and subject.log.records.is_empty()
    says = spoke or subject.log.status != "unknown"  # a recorder knows how a silent command ended
    status = subject.log.status if says and not is_table else None
    took = text.duration(seconds, error=uncertainty.elapsed_error(report.placed)) if seconds else None
    parts = [part for part in (status, took) if part]
    return f"{subject.name}: {', '.join(parts)}" if parts else subject.name


def _loss(report: Report) -> str | None:
    """`2.4179 last; best validation 0.7533 bpb`, of the last phase: what led to its end."""
    phases = summary.run(report.subject.log)["phases"]
    if not phases:
        return None
    last, best = phases[-1]["metrics"].get("loss", {}).get("last"), _best(report.subject.log, phases)
    parts = [
        f"{text.number(last)} last" if last is not None else None,
        f"best validation {best}" if best else None,
    ]
    return _joined(parts, "; ")


def _best(log: Log, phases: Sequence[Mapping[str, Any]]) -> str | None:
    """`1.1375 loss of attempt 3; attempt 1 had 0.7478 before steps began again` where the best was left behind."""
    phase = phases[-1]["phase"]
    kept = retained(log.evals.filter(phase=phase), log)
    evals = {
        name: figures(rows["value"], rows["step"])
        for (name,), rows in kept.group_by("name", maintain_order=True)
    }
    best = best_of(evals)
    if best is None:
        return None
    name, extreme = best
    had = {
        each["attempt"]: value
        for each in phases
        if each["phase"] == phase and (value := each["evals"].get(name, {}).get(extreme)) is not None
    }
    first = min(had, key=lambda attempt: had[attempt] if extreme == "min" else -had[attempt])
    value, shown = evals[name][extreme], best_evaluation(evals)
    if had[first] == value:
        return shown
    of = kept.filter((pl.col("name") == name) & (pl.col("value") == value))["attempt"][-1]
    which = "" if of == first else f" of attempt {of}"
    return f"{shown}{which}; attempt {first} had {had[first]:.4f} before steps began again"


def _speed(report: Report) -> str | None:
    """`5,211,066 tok/s, 100.3 ±0.1 ms/step, MFU 44 %`, of the last phase; without times, the printed rate."""
    if report.phases.is_empty():
        printed = printed_rates(report.subject)["tok_per_sec_printed"]
        return (
            None
            if printed.is_empty() or printed[-1] is None
            else f"{text_of_rate(printed[-1])} tok/s as printed"
        )
    row = list(rows(report.phases))[-1]
    rate = tok_per_sec(row) or text_of_rate(row.get("tok_per_sec_printed"))
    step = step_ms(row)
    mfu = next((verdict.answer for verdict in report.verdicts if verdict.question == MFU_QUESTION), UNKNOWN)
    parts = [
        None if rate is None else f"{rate} tok/s",
        None if step is None else f"{step} ms/step",
        None if mfu == UNKNOWN else f"MFU {mfu}",
    ]
    return _joined(parts)


def _energy_used(report: Report) -> str | None:
    energies = [energy for row in rows(report.totals) if (energy := energy_of(row)) is not None]
    tokens = [cell for row in rows(report.phases) if (cell := j_per_token(row)) is not None]
    error = uncertainty.whole_energy_error(report.totals, report.placed)
    parts = [text.energy(sum(energies), error) + over_measured(report)] if energies else []
    parts += [f"{tokens[-1]} J/token in training"] if tokens else []
    return _joined(parts)


def over_measured(report: Report) -> str:
    """` over 66 % of the time` where part of it has no readings of power, else nothing."""
    spans = [row for row in rows(report.totals) if row["duration_s"]]
    seconds = sum(row["duration_s"] for row in spans)
    share = sum(row["duration_s"] * (row["measured"] or 0.0) for row in spans) / seconds if seconds else 1.0
    return "" if share >= WHOLE else f" over {100 * share:.0f} % of the time"


def _peaks(report: Report) -> str | None:
    """The fullest memory and the hottest GPU."""
    gpu_rows = list(rows(report.gpus))
    memory = [row["mem_peak_mib"] for row in gpu_rows if row.get("mem_peak_mib") is not None]
    heat = [row["temp_peak_c"] for row in gpu_rows if row.get("temp_peak_c") is not None]
    parts = [f"{text.mebibytes(max(memory))} memory"] if memory else []
    parts += [f"{text.number(max(heat), 0)} °C"] if heat else []
    return _joined(parts)


def _joined(parts: Sequence[str | None], between: str = ", ") -> str | None:
    return between.join(part for part in parts if part) or None


def _cost(report: Report, price: float | None) -> str | None:
    gpus_used, seconds = report.subject.facts.gpus, _seconds(report)
    if price is None:
        return None
    if gpus_used is None or not seconds:
        return "unknown: " + ("how many GPUs it used" if seconds else "how long it took")
    count = float(gpus_used.value)
    hours, error = count * seconds / 3600, count * uncertainty.elapsed_error(report.placed) / 3600
    return f"{text.money(hours * price, error * price)}: {hours:.3g} GPU hours at {text.money(price)}"


def _seconds(report: Report) -> float:
    """How long the run took: as recorded, else by its log."""
    recording = report.subject.recording
    if recording and recording.duration_s is not None:
        return recording.duration_s
    return float(sum(report.totals["duration_s"].to_list()))


def energy_of(row: Mapping[str, Any]) -> float | None:
    """The driver's counter where there is one, since it misses nothing between two samples."""
    counter: float | None = row["energy_counter_j"]
    return row["energy_j"] if counter is None else counter


def step_ms(row: Mapping[str, Any]) -> str | None:
    """Milliseconds of a step, with their error."""
    if row["step_s"] is None:
        return None
    return text.with_error(1000 * row["step_s"], 1000 * row["step_error_s"], 2)


def tok_per_sec(row: Mapping[str, Any]) -> str | None:
    """Tokens per second of elapsed time, with their error."""
    rate = row["tok_per_sec"]
    return None if rate is None else text.with_error(rate, row["tok_per_sec_error"], 0)


def text_of_rate(rate: float | None) -> str | None:
    return None if rate is None else text.number(rate, 0)


def j_per_token(row: Mapping[str, Any]) -> str | None:
    """Joules of a token to four digits, fewer where the error says so."""
    joules = row["j_per_token"]
    return None if joules is None else text.four_digits(joules, row["j_per_token_error"])
