"""A run -> a row of the catalogue: facts with fixed names and types, its settings, and figures of every metric."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputel.analysis import text
from gputel.analysis.catalogue import gpu_facts
from gputel.analysis.catalogue.gpu_facts import HOUR_S
from gputel.analysis.runs.paths import PAGES
from gputel.telemetry import run_folder, source_code
from gputel.telemetry.secrets import mask, mask_value

if TYPE_CHECKING:
    import polars as pl

    from gputel.analysis.logs.log import Log
    from gputel.analysis.report.gpu_totals import GpuTotals
    from gputel.analysis.runs import RunData
    from gputel.analysis.runs.recording import Recording

FACTS_VERSION = 9
DERIVED = ("facts.json", *PAGES, ".lock")
COMMON_NAMES = frozenset(
    "log logs out output stdout stderr console train training metrics result results progress".split()
)
"""Names of logs that say nothing: the folder's name tells such a run from the others."""
FIGURES = ("count", "first", "last", "min", "min_step", "max", "max_step")

TYPED = (
    ("text", "run path kept_by format"),
    ("whole", "segments nodes"),
    ("time", "started ended"),
    ("number", "duration_s downtime_s gpu_hours cost"),
    ("text", "status cause"),
    ("whole", "exit_code"),
    ("text", "simulated host gpu gpu_name driver command commit branch diff"),
    ("whole", "gpus dirty steps total_steps tokens parameters depth"),
    ("number", "loss loss_min val_loss val_loss_min"),
    ("whole", "val_loss_min_step"),
    (
        "number",
        "val_bpb_min lr tok_per_sec dt_ms mfu energy_j energy_counter_j measured power_mean_w power_max_w",
    ),
    ("number", "temp_max_c mem_max_mib util throttled_s gap_s j_per_token"),
    ("whole", "alarms xid rejects"),
    ("text", "alarm_kinds verdict"),
    ("whole", "bytes bytes_gpu lines"),
)
FACTS: Mapping[str, str] = {name: kind for kind, names in TYPED for name in names.split()}
"""Every fact and its type. A run that lacks one has null; times are texts of the form 2026-11-22T10:00:00.000Z."""

MOST = sys.float_info.max
LARGEST = 2**63  # from here on a database holds no whole number

TAGS, PACKAGES, CONFIG, ENVIRONMENT = "tag", "package", "config", "env"


@dataclass(frozen=True)
class CatalogueRow:
    """One run. `settings` are by prefixed name, such as `config.lr`; `metrics` have the figures of FIGURES."""

    facts: dict[str, Any]
    settings: dict[str, float | str] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"facts": self.facts, "settings": self.settings, "metrics": self.metrics}


def computed(path: Path, gpus: Sequence[GpuTotals] | None = None) -> CatalogueRow | None:
    """Reads the run itself and computes its row; `gpus` are a recording's totals, if they were made already."""
    from gputel.analysis.runs import read_run

    subject = read_run(path)
    if subject.recording is None and not (subject.log.records.height or subject.log.evals.height):
        return None
    log = subject.log
    facts: dict[str, Any] = dict.fromkeys(FACTS)
    facts |= _which(subject, path) | _of_log(log) | _of_figures(subject)
    if subject.recording is not None:
        facts |= _of_recording(subject, subject.recording) | {"verdict": _verdict(subject)}
        facts |= gpu_facts.of_recording(subject.recording, gpus)
        facts |= gpu_facts.spent(subject.recording, facts["gpus"])
    else:
        facts |= gpu_facts.of_readings(subject) | _of_provenance(subject)
        if facts["gpus"] and facts["duration_s"]:
            facts["gpu_hours"] = facts["gpus"] * facts["duration_s"] / HOUR_S
    if facts["energy_j"] and facts["tokens"]:
        facts["j_per_token"] = facts["energy_j"] / facts["tokens"]
    stated = settings(subject)
    if facts["lr"] is None:
        facts["lr"] = _stated_rate(stated)
    return row(facts, stated, dict(_metrics(log)))


def _which(subject: RunData, path: Path) -> dict[str, Any]:
    from gputel.analysis import stores

    kind = stores.kind(path)
    kept_by = "recording" if subject.recording else (subject.log.format or "log") if kind else "log"
    file, _ = stores.split(path)
    size = bytes_below(path) if path.is_dir() else file.stat().st_size if file.is_file() else None
    is_common = file.is_file() and subject.name.lower() in COMMON_NAMES
    above = file.resolve().parent
    above = above.parent if above.name == subject.name else above  # some stores are named by their folder
    return {
        "run": f"{above.name}/{subject.name}" if is_common else subject.name,
        "path": str(path),
        "kept_by": kept_by,
        "format": subject.log.format,
        "bytes": size,
    }


def bytes_below(folder: Path) -> int:
    """The bytes of all files below a folder but for those that gputel derives from the others."""
    count = 0
    for place, _, names in os.walk(folder):
        kept = (name for name in names if not name.endswith(DERIVED))
        count += sum(os.lstat(os.path.join(place, name)).st_size for name in kept)  # noqa: PTH118
    return count


def _of_log(log: Log) -> dict[str, Any]:
    from gputel.analysis.logs import summary

    run_facts = summary.run(log)
    phases = run_facts["phases"]
    longest = max(phases, key=lambda phase: phase["records"], default=None)
    last = longest and next(phase for phase in reversed(phases) if phase["phase"] == longest["phase"])
    from_zero = longest is not None and summary.counts_from_zero(
        log.records.filter(phase=longest["phase"]), log.events
    )
    lengths = [phase["duration_s"] for phase in phases if phase["duration_s"] is not None]
    return {
        "started": run_facts["started"],
        "ended": run_facts["ended"],
        "duration_s": sum(lengths) if lengths else None,
        "status": log.status,
        "cause": mask(log.cause.text) if log.cause else None,
        "steps": None if last is None or last["last_step"] is None else last["last_step"] + from_zero,
        "total_steps": None if last is None else last["total_steps"],
        "lines": log.lines,
        "rejects": len(log.rejects),
    }


def _of_figures(subject: RunData) -> dict[str, Any]:
    from gputel.analysis.logs.attempts import retained
    from gputel.analysis.runs.record_gaps import printed_median

    log, known = subject.log, subject.facts
    found = dict(_metrics(log))
    step = known.tokens_per_step.value if known.tokens_per_step else None
    steps = retained(log.steps, log).height
    gpu = str(known.gpu.value) if known.gpu else None
    return {
        "gpu": _family(gpu),
        "gpu_name": gpu,
        "gpus": known.gpus.value if known.gpus else None,
        "depth": known.depth.value if known.depth else None,
        "parameters": known.parameters.value if known.parameters else None,
        "tokens": found.get("tokens", {}).get("last") or (step * steps if step and steps else None),
        "loss": found.get("loss", {}).get("last"),
        "loss_min": found.get("loss", {}).get("min"),
        "val_loss": found.get("val_loss", {}).get("last"),
        "val_loss_min": found.get("val_loss", {}).get("min"),
        "val_loss_min_step": found.get("val_loss", {}).get("min_step"),
        "val_bpb_min": found.get("val_bpb", {}).get("min"),
        "lr": found.get("lr", {}).get("max"),
        **{name: printed_median(log.records, name) for name in ("tok_per_sec", "dt_ms", "mfu")},
    }


def _stated_rate(settings: Mapping[str, Any]) -> float | None:
    """The learning rate among the settings: the outermost; None of several such as `actor.lr`, `critic.lr`."""
    from gputel.analysis.logs.names import Vocabulary
    from gputel.analysis.stores import points

    vocabulary = Vocabulary()
    rates: dict[int, set[float]] = {}
    for key, value in settings.items():
        kind, *parts = re.split("[./]", key)
        found = vocabulary.field(parts[-1].encode(), b"") if parts and kind in (CONFIG, TAGS) else None
        rate = points.setting(value) if found is not None and found.column == "lr" else None
        if isinstance(rate, (int, float)):
            rates.setdefault(len(parts), set()).add(rate)
    outermost = rates[min(rates)] if rates else set()
    return outermost.pop() if len(outermost) == 1 else None


def _family(name: str | None) -> str | None:
    """`H100` of NVIDIA H100 80GB HBM3."""
    from gputel.trainer.gpus import find_gpu

    model = find_gpu(name) if name else None
    return model.name if model else name


def _of_recording(subject: RunData, recording: Recording) -> dict[str, Any]:
    segments, events = recording.folder.segments, recording.events
    first, last = recording.descriptions[0], recording.descriptions[-1]
    started, ended = run_folder.wall_ns(first, "started"), run_folder.wall_ns(last, "ended")
    git = first.get("git") or {}
    alarms = [str(event.get("rule") or event.get("name") or "") for event in _alarms(events)]
    driver = first.get("driver")
    return {
        "segments": len(segments),
        "nodes": len({segment.node for segment in segments}),
        "started": None if started is None else text.moment(started),
        "ended": None if ended is None else text.moment(ended),
        "duration_s": recording.duration_s,
        "downtime_s": recording.downtime_s,
        "exit_code": last.get("exit_code"),
        "simulated": recording.simulated,
        "host": (first.get("host") or {}).get("name"),
        "driver": driver.get("version") if isinstance(driver, dict) else driver,
        "command": subject.command,
        "commit": git.get("commit"),
        "branch": git.get("branch"),
        "dirty": git.get("dirty"),
        "diff": source_code.describe(segments[0].path).get("diff") or None,
        "alarms": len(alarms),
        "alarm_kinds": " ".join(sorted({kind for kind in alarms if kind})) or None,
        "xid": int((events["kind"] == "xid").sum()),
    }


def _of_provenance(subject: RunData) -> dict[str, Any]:
    """Where and how a run ran, where another tool noted it."""
    noted = subject.log.provenance
    if noted is None:
        return {}
    found = {"host": noted.host, "command": subject.command, "commit": noted.commit}
    return found | ({"gpu": _family(noted.gpu), "gpu_name": noted.gpu} if noted.gpu else {})


def _verdict(subject: RunData) -> str | None:
    """The bottleneck of a recorded run, as its report has it; None with simulated GPUs."""
    from gputel.analysis.report.bottleneck import bottleneck_verdict
    from gputel.analysis.report.run_report import measured_run
    from gputel.analysis.report.verdicts import UNKNOWN

    if subject.recording is None or subject.recording.simulated or subject.log.records.is_empty():
        return None
    answer = bottleneck_verdict(measured_run(subject).case).answer
    return None if answer == UNKNOWN else answer


def _alarms(events: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for kind, facts in events.select("kind", "facts").iter_rows():
        if kind == "alarm":
            parsed = json.loads(facts)
            yield parsed if isinstance(parsed, dict) else {}


def settings(subject: RunData) -> dict[str, Any]:
    """Settings by prefixed name: printed configuration, recorded tags, environment and packages."""
    found: dict[str, Any] = {f"{CONFIG}.{name}": value for name, value in subject.log.config.items()}
    for description in subject.recording.descriptions if subject.recording else ():
        found |= {f"{TAGS}.{name}": value for name, value in (description.get("tags") or {}).items()}
        found |= {f"{ENVIRONMENT}.{name}": value for name, value in (description.get("env") or {}).items()}
        found |= {f"{PACKAGES}.{name}": value for name, value in (description.get("packages") or {}).items()}
    return {
        name: mask_value(name.partition(".")[2], value) if isinstance(value, str) else value
        for name, value in found.items()
    }


def _usable(items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float | str]]:
    for name, value in items:
        if isinstance(value, str):
            yield _text(name), _text(value)
        elif isinstance(value, bool):
            yield _text(name), str(value).lower()
        elif isinstance(value, (int, float)):
            if -MOST <= value <= MOST:
                yield _text(name), float(value) if abs(value) >= LARGEST else value
        elif value is not None:
            yield _text(name), _text(str(value))


def _metrics(log: Log) -> Iterator[tuple[str, dict[str, Any]]]:
    """Figures of every metric and evaluation over all steps that led to the run's end, as parse's of a phase."""
    import polars as pl

    from gputel.analysis.logs import summary
    from gputel.analysis.logs.attempts import retained

    rows, evals = retained(log.measured, log), retained(log.evals, log)
    for name in log.metrics_in(rows):
        yield name, summary.figures(rows[name].cast(pl.Float64), rows["step"])
    for name in dict.fromkeys(evals["name"].to_list()):
        rows = evals.filter(pl.col("name") == name)
        yield name, summary.figures(rows["value"], rows["step"])


def row(facts: Mapping[str, Any], settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> CatalogueRow:
    """A row in which every cell has its type; what has another, or no database can hold, is null."""
    known = facts.get
    typed = {name: None if (value := known(name)) is None else cell(value) for name, cell in CELLS.items()}
    figures = {
        _text(name): {key: _sql_number(figure) for key in FIGURES if (figure := each.get(key)) is not None}
        for name, each in metrics.items()
    }
    return CatalogueRow(typed, dict(_usable(settings.items())), figures)


def _words(value: Any) -> str:
    return _text(str(value))


def _sql_whole(value: Any) -> int | None:
    is_number = isinstance(value, (int, float))
    return int(value) if is_number and -LARGEST <= value < LARGEST else None


def _sql_number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float))
    return float(value) if is_number and -MOST <= value <= MOST else None


OF_KIND: Mapping[str, Callable[[Any], Any]] = {
    "text": _words,
    "time": _words,
    "whole": _sql_whole,
    "number": _sql_number,
}
CELLS = {name: OF_KIND[kind] for name, kind in FACTS.items()}


def _text(text: str) -> str:
    """The text as a database can hold it: arguments of a command may have bytes that are no text."""
    return text if text.isascii() else text.encode(errors="replace").decode()
