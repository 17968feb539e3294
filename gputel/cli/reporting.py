"""What `gputel report` prints for people; every figure comes from `analysis.reported`. It fits 80 columns."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.cli import show, sources
from gputel.cli.recorded import MIB, SHORT
from gputel.telemetry.errors import GputelError

if TYPE_CHECKING:
    from gputel.analysis.report import Report
    from gputel.analysis.runs import RunData

KEPT = "\N{NO-BREAK SPACE}"
WORDS = {
    "start": "start",
    "train": "training",
    "eval": "evaluation",
    "checkpoint": "checkpoints",
    "idle": "idle",
}


def subject(run: str | None, gpu: Path | None, log: Path | None, offset_s: float) -> RunData:
    """What the arguments name; a run, or a table and a log."""
    from gputel.analysis import runs

    if gpu and log and not run:
        return runs.from_table_and_log(gpu, log, offset_s)
    if gpu or log or offset_s:
        raise GputelError(
            "gputel report", "--gpu and --log go together, and without RUN", "name both", exit_code=2
        )
    return sources.one_subject(run or "latest")


def print_report(told: Report) -> None:
    from gputel.analysis import report

    answer = report.answer(told)
    if answer["caution"]:
        show.say(show.folded(answer["caution"]))
    facts = {name: said for name, said in _run(told, answer).items() if said}
    width = max(len(name) for name in facts) + 2
    for name, said in facts.items():
        _wrapped(name, said, width, units=name != "command")
    _time(answer)
    _phases(answer)
    _gpus(answer)
    _sensors(answer)
    if told.readings is None and told.subject.log.is_empty:
        show.say("nothing was printed, and nothing was sampled")
        return
    _verdicts(answer)
    show.note(_next(told))


def _run(told: Report, answer: dict[str, Any]) -> dict[str, str | None]:
    from gputel.analysis.report.checkup import counted

    recording = told.subject.recording
    described = recording.descriptions if recording else []
    known = {name: fact["value"] for name, fact in answer["facts"].items()}
    gpus = [gpu for facts in described for gpu in facts.get("gpus") or []]
    tags = (described[0].get("tags") or {}) if described else {}
    return {
        "run": _name(told, answer),
        "command": told.subject.command,
        "tags": ", ".join(f"{key}={value}" for key, value in tags.items()) or None,
        "ended by": answer["cause"] and f"line {answer['cause']['line']}: {answer['cause']['text']}",
        "model": _model(known),
        "GPUs": counted(_once(gpus)) if gpus else _named(known),
        "clock": _clock(told, answer["clock"]),
        "overlap": _overlap(answer["overlap"]) if recording is None else None,
        "events": ", ".join(f"{count:,} {kind}" for kind, count in answer["events"].items()) or None,
    }


def conclude(told: Report) -> int:
    """A table and a log that have nothing in common are a failure."""
    apart = told.subject.readings is not None and told.shared is not None and not told.shared["shared_s"]
    return 1 if apart else 0


def _name(told: Report, answer: dict[str, Any]) -> str:
    """`d16: completed, 4 h 19 min`; of readings alone there is nothing to complete."""
    seconds = sum(told.totals["duration_s"].to_list())
    if told.subject.recording and told.subject.recording.duration_s is not None:
        seconds = told.subject.recording.duration_s
    status = answer["status"] if told.subject.log.lines and told.subject.log.telemetry is None else None
    said = [part for part in (status, text.duration(seconds) if seconds else None) if part]
    return f"{answer['run']}: {', '.join(said)}" if said else answer["run"]


def _once(gpus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A GPU that several segments have seen is one."""
    return list({gpu.get("uuid") or str(gpu): gpu for gpu in gpus}.values())


def _model(known: dict[str, Any]) -> str | None:
    said = [
        f"depth {known['depth']:.0f}" if "depth" in known else None,
        f"{text.count(known['parameters'])} parameters" if "parameters" in known else None,
        f"{text.count(known['tokens_per_step'])} tokens a step" if "tokens_per_step" in known else None,
    ]
    return ", ".join(part for part in said if part) or None


def _named(known: dict[str, Any]) -> str | None:
    if "gpus" not in known:
        return None
    return f"{known['gpus']:.0f}" + (f" x {known['gpu']}" if "gpu" in known else "")


def _clock(told: Report, clock: dict[str, Any]) -> str | None:
    if told.subject.log.telemetry is not None and told.readings is None:
        return "the readings do not say when they were taken"
    if told.subject.log.records.is_empty():
        return None
    if clock["how"] is None:
        return "nothing says when its lines were written"
    sure = clock["uncertainty_s"]
    if sure is None:
        return f"{clock['how']}; how far off that is cannot be told"
    return f"{clock['how']}, within {sure:.3g} s" if sure else str(clock["how"])


def _overlap(overlap: dict[str, Any] | None) -> str | None:
    if overlap is None:
        return None
    if overlap["shared_s"]:
        return f"{text.duration(overlap['shared_s'])}, {100 * overlap['share']:.1f} % of the log"
    said = f"none: the log is of {_span(overlap['log'])}, the readings of {_span(overlap['gpu'])}"
    if overlap["offset_s"] is None:
        return said
    return f"{said}; if that is a time zone, add --offset={overlap['offset_s'] / 3600:g}h"


def _span(edges: list[str]) -> str:
    return " to ".join(edge[:19].replace("T", " ") for edge in edges)


def _time(answer: dict[str, Any]) -> None:
    """Where the time and the energy went."""
    if not answer["time"]:
        return
    rows = [
        (
            WORDS[row["kind"]],
            text.duration(row["duration_s"]),
            _percent(row["share"]),
            _joules(_best(row)),
            _percent(row["energy_share"]),
            _rounded(row["power_mean_w"], "W"),
            _rounded(row["util"], "%"),
        )
        for row in answer["time"]
    ]
    names = ("", "time", "share", "energy", "share", "power", "in use")
    what = "time and the energy" if any(_best(row) is not None for row in answer["time"]) else "time"
    _titled(f"where the {what} went{_in_all(answer['time'])}", names, rows)


def _in_all(rows: list[dict[str, Any]]) -> str:
    """`: 35.9 s, 43.4 kJ`"""
    joules = [own for row in rows if (own := _best(row)) is not None]
    sums = [text.duration(sum(row["duration_s"] for row in rows))]
    return ": " + ", ".join(sums + ([text.energy(sum(joules))] if joules else []))


def _phases(answer: dict[str, Any]) -> None:
    rows = [
        (
            row["phase"],
            text.step(row["steps"]),
            _seconds(row["step_s"]),
            row["tok_per_sec"] and text.number(row["tok_per_sec"], 0),
            row["tok_per_sec_printed"] and text.number(row["tok_per_sec_printed"], 0),
            _joules(row["j_per_step"]),
            row["j_per_token"] and text.energy(row["j_per_token"]),
        )
        for row in answer["phases"]
    ]
    if rows:
        rates = any(row["tok_per_sec"] for row in answer["phases"])
        how = ": tok/s by the time that passed, and as printed (mean)" if rates else ""
        _titled(
            f"training, by phase{how}",
            ("phase", "steps", "a step", "tok/s", "printed", "energy a step", "a token"),
            rows,
        )


def _gpus(answer: dict[str, Any]) -> None:
    """Both energies and how far the integral lies from the counter."""
    rows = [
        (
            row["gpu"] if row.get("node") is None else f"{row['node']}/{row['gpu']}",
            _rounded(row["power_mean_w"], "W"),
            _rounded(row["power_peak_w"], "W"),
            _joules(row["energy_j"]),
            _joules(row["energy_counter_j"]),
            _apart(row),
            _rounded(row["temp_peak_c"], "°C"),
            row["mem_peak_mib"] and text.size(row["mem_peak_mib"] * MIB),
        )
        for row in answer["gpus"]
    ]
    if rows:
        names = ("GPU", "power", "peak", "integral", "counter", "apart", "peak", "memory")
        over = "the training" if answer["phases"] else text.duration(answer["gpus"][0]["duration_s"])
        _titled(f"GPUs over {over}", names, rows)


def _apart(row: dict[str, Any]) -> str | None:
    """Of too few refreshes it says little: each energy may be wrong by one at either end."""
    from gputel.analysis.runs.sensors import FEW_REFRESHES

    off, refreshes = row["energy_difference"], row["refreshes"]
    return None if off is None or (refreshes or 0) < FEW_REFRESHES else f"{100 * off:+.1f} %"


def _sensors(answer: dict[str, Any]) -> None:
    """`power refreshed 9.9 Hz`: of the first GPU, since those of one machine are alike."""
    found = next(iter(answer["refresh_hz"].values()), None)
    if not found:
        return
    sampling = (answer["recording"] or {}).get("sampling")
    polled = f"polled {sampling['polled_hz']:.1f} Hz; " if sampling and sampling["polled_hz"] else ""
    known = [f"{SHORT[name]} {hz:.1f} Hz" for name, hz in found.items() if hz is not None]
    unknown = [SHORT[name] for name, hz in found.items() if hz is None]
    said = [f"{polled}refreshed: {', '.join(known)}"] if known else []
    said += [f"indeterminate: {', '.join(unknown)}"] if unknown else []
    if answer["read"] == "whole seconds":
        said.append("steps are read from whole seconds")
    show.say("")
    _wrapped("sensors", "; ".join(said))


def _verdicts(answer: dict[str, Any]) -> None:
    show.say("")
    for verdict in answer["verdicts"]:
        _wrapped(verdict["question"], verdict["answer"])
        for line in verdict["evidence"]:
            _wrapped("", line)


def _next(told: Report) -> str:
    recording = told.subject.recording
    name = recording.path if recording else told.subject.log.source
    if told.subject.log.telemetry is not None:
        return f"next: gputel report --gpu {name} --log LOG"
    if told.subject.readings is not None or str(name) == "-":
        return "next: gputel parse LOG"
    if told.subject.log.records.is_empty():
        return f"next: gputel info {name}" if recording else f"next: gputel parse {name}"
    return f"next: gputel compare {name} OTHER, gputel report {name} --json"


def _titled(title: str, names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Without the columns that have nothing to say."""
    told = [i for i in range(len(names)) if not i or any(row[i] is not None for row in rows)]
    show.say(f"\n{title}")
    show.table([names[i] for i in told], [[row[i] for i in told] for row in rows])


def _wrapped(name: str, words: str, indent: int = 13, *, units: bool = True) -> None:
    """Folded under its own text on a terminal, whole lines elsewhere; `units` stay with their numbers."""
    width = show.columns_of(sys.stdout)
    first, rest = f"{name:<{indent}}", " " * indent
    whole = re.sub(r"(?<=\d) (?=[%\w°]{1,8}\b|%)", KEPT, words) if units else words
    folded = textwrap.wrap(whole, max(width - indent, 30), break_on_hyphens=False)
    for number, line in enumerate(folded):
        show.say((rest if number else first) + line.replace(KEPT, " "))


def _best(row: dict[str, Any]) -> float | None:
    """The driver's counter where there is one, for it misses nothing between two samples."""
    counter: float | None = row["energy_counter_j"]
    return row["energy_j"] if counter is None else counter


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else text.duration(seconds, decimals=3)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _rounded(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{text.number(value, 0)} {unit}"


def _joules(joules: float | None) -> str | None:
    return None if joules is None else text.energy(joules)
