"""Logs -> their document: the table of runs, curves by step and by time, evaluations, events.

The table alone needs few imports, for `gputel parse` in a terminal; what draws is imported where it is used.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gputel.analysis import runs, text
from gputel.analysis.columns import better
from gputel.analysis.document import Document, Panel, Section, Table
from gputel.analysis.documents import line_kinds

if TYPE_CHECKING:
    from gputel.analysis.documents.panels.metrics import RunCurve
    from gputel.analysis.logs.log import Log
    from gputel.analysis.runs import RunData

COLUMNS = (
    "run", "format", "phase", "records", "first loss", "last loss", "best validation", "tok/s", "MFU", "time",
    "status",
)  # fmt: skip
MEANING = (
    "tok/s and MFU are means of the printed values; time is the log's own count, else from its timestamps."
)
MAIN = ("loss", "tok_per_sec", "mfu", "grad_norm", "lr", "lrm", "dt_ms")
BY = ("step", "epoch", "tokens", "time", "flops")
EVERY_AXIS = (*BY, "energy", "cost")
MOST_OTHERS = 200  # metrics; what a page leaves out, it counts
MOST_EVENTS = 500
MOST_DOUBTS = 3  # that the first line names
MOST_OPEN = 12  # rows of a table that a page shows before it is asked to
HIGH_IS_BETTER = re.compile("map50_95|acc|core|hellaswag", re.IGNORECASE)


def parse_document(logs: Sequence[Log], *, drawn: bool = True) -> Document:
    """Shows every log in which something was found. `drawn=False` gives the table of runs alone, for a terminal."""
    subjects = [runs.of_log(log) for log in logs if not log.is_empty]
    names = _names(subjects)
    lines = (
        [
            line
            for tint, pair in enumerate(zip(subjects, names, strict=True))
            for line in lines_of(*pair, tint)
        ]
        if drawn
        else []
    )
    sections = [Section(items=(_runs(subjects, names),))] if subjects else []
    sections += line_kinds.section(subjects, names)
    if drawn:
        sections += [*curves(lines), *_gpus(subjects, names), *_details(subjects, names)]
    return Document(
        title=", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "nothing",
        sections=sections,
        about=_about(subjects),
        caution=_caution(subjects, names),
        doubts=_doubts(subjects, names),
        runs=list(dict.fromkeys(line.run for line in lines)),
    )


def lines_of(subject: RunData, name: str, tint: int = 0, price: float | None = None) -> list[RunCurve]:
    """A curve for each phase that numbers its steps; `price` is dollars per GPU hour."""
    from gputel.analysis.compare.axes import Prices
    from gputel.analysis.compare.curves import rows_of, run_phase
    from gputel.analysis.documents.panels.metrics import RunCurve

    phases, prices = list(dict.fromkeys(phase for phase, _ in subject.log.places)), Prices(price)
    names = [name if len(phases) == 1 else f"{name}, {phase}" for phase in phases]
    return [
        RunCurve(run_phase(subject, phase_name, phase, prices), name, tint)
        for phase_name, phase in zip(names, phases, strict=True)
        if rows_of(subject, phase).height
    ]


def curves(lines: Sequence[RunCurve], axes: Sequence[str] = BY) -> list[Section]:
    """Training, evaluations and other metrics, each a section; none where nothing can be drawn."""
    from gputel.analysis.documents.panels import metrics

    if not lines:
        return []
    names = list(metrics.names(lines))
    evaluated = [name for name in names if metrics.is_evaluation(name, lines)]
    others = [name for name in names if name not in MAIN and name not in evaluated]
    main = [panel for name in MAIN if (panel := metrics.metric_panel(name, lines, axes))]
    by_time = [also for panel in main if panel.name == "loss" and (also := metrics.by_time(panel))]
    sections = [
        Section("Training", [*main[:1], *by_time, *main[1:]]),
        Section("Evaluation", _panels([n for n in evaluated if _is_curve(n, lines)], lines, axes)),
        Section("Other metrics", _panels(others, lines, axes), _left_out(others)),
    ]
    return [section for section in sections if section.items]


def _left_out(metrics: Sequence[str]) -> str:
    more = len(metrics) - MOST_OTHERS
    return f"{more:,} more metrics are not drawn; --csv has them." if more > 0 else ""


def _panels(names: Sequence[str], lines: Sequence[RunCurve], axes: Sequence[str]) -> list[Panel]:
    from gputel.analysis.documents.panels import metrics

    return [panel for name in names[:MOST_OTHERS] if (panel := metrics.metric_panel(name, lines, axes))]


def _is_curve(name: str, lines: Sequence[RunCurve]) -> bool:
    """Whether a run has it at two steps; a benchmark at the end of a run is one number, shown in a table."""
    return any(
        line.track.subject.log.evals.filter(name=name)["step"].drop_nulls().n_unique() > 1 for line in lines
    )


def _gpus(subjects: Sequence[RunData], names: Sequence[str]) -> list[Section]:
    from gputel.analysis.documents.panels import gpus

    return [
        Section(f"GPUs of {name}", gpus.panels(own.gpu, link=name), wide=True)
        for own, name in zip(subjects, names, strict=True)
        if own.gpu is not None and own.gpu["time"].count()
    ]


def _details(subjects: Sequence[RunData], names: Sequence[str]) -> list[Section]:
    last, events = [], []
    for subject, name in zip(subjects, names, strict=True):
        for key, rows in subject.log.evals.group_by("name", maintain_order=True):
            row = rows.row(-1, named=True)
            last.append((name, key[0], row["step"], row["value"], len(rows)))
        for row in subject.log.events.filter(subject.log.events["kind"] != "eval").iter_rows(named=True):
            events.append((name, row["kind"], row["step"], row["line"], row["text"]))
    tables = [
        Table(
            "Evaluations: the last of each",
            ("run", "name", "step", "value", "count"),
            last,
            folded=len(last) > MOST_OPEN,
        ),
        Table(
            "Events",
            ("run", "event", "after step", "line", "text"),
            events[:MOST_EVENTS],
            note=f"The first {MOST_EVENTS} of {len(events):,}." if len(events) > MOST_EVENTS else "",
            folded=len(events) > MOST_OPEN,
        ),
        line_kinds.table(subjects, names),
    ]
    filled = [table for table in tables if table.rows]
    return [Section("Details", filled)] if filled else []


def _names(subjects: Sequence[RunData]) -> list[str]:
    """Their own names; runs of one name are told apart by their folders."""
    names = [subject.name for subject in subjects]
    if len(set(names)) == len(names):
        return names
    from gputel.analysis.compare import select

    return select.names(subjects)


def _about(subjects: Sequence[RunData]) -> str:
    if not subjects:
        return ""
    rows = sum(subject.log.records.height for subject in subjects)
    formats = ", ".join(dict.fromkeys(subject.log.format or "unknown format" for subject in subjects))
    return f"{text.counted(len(subjects), 'log')}, {text.counted(rows, 'record')}; {formats}"


def _caution(subjects: Sequence[RunData], names: Sequence[str]) -> str | None:
    """A caution that all runs share stands alone, any other after the names of its runs."""
    by_caution: defaultdict[str, list[str]] = defaultdict(list)
    for subject, name in zip(subjects, names, strict=True):
        if subject.caution:
            by_caution[subject.caution].append(name)
    cautions = [
        f"{text.names(runs)}: {caution}" if len(runs) < len(names) else caution
        for caution, runs in by_caution.items()
    ]
    return "; ".join(cautions) or None


def _doubts(subjects: Sequence[RunData], names: Sequence[str]) -> list[str]:
    """Lists the doubts, each after the name of its run if there are several."""
    from gputel.analysis.runs.log_doubts import log_doubts

    doubts = [
        doubt.text if len(names) == 1 else f"{name}: {doubt.text}"
        for subject, name in zip(subjects, names, strict=True)
        for doubt in log_doubts(subject)
    ]
    more = len(doubts) - MOST_DOUBTS
    return [*doubts[:MOST_DOUBTS], f"{more} more doubts; --json lists them"] if more > 0 else doubts


def _runs(subjects: Sequence[RunData], names: Sequence[str]) -> Table:
    """A row per attempt of each phase; a log without any has one row too."""
    rows = [[name, *row] for subject, name in zip(subjects, names, strict=True) for row in _rows(subject.log)]
    return Table("", COLUMNS, rows, note=MEANING)


def _rows(log: Log) -> Iterator[list[str | None]]:
    from gputel.analysis.logs import summary

    run = summary.run(log)
    *phases, last = run["phases"] or [None]
    for phase in phases:
        yield [log.format, *_phase(phase), None]
    figures = _phase(last) if last else _readings(run["telemetry"])
    yield [log.format, *figures, log.status]


def _readings(telemetry: Mapping[str, Any] | None) -> list[str | None]:
    """The cells of a log without phases: how many readings of GPUs it has."""
    rows = f"{telemetry['rows']:,} readings" if telemetry else None
    return [None, rows, *[None] * (len(COLUMNS) - 5)]


def _phase(phase: Mapping[str, Any]) -> list[str | None]:
    metrics = phase["metrics"]
    loss = metrics.get("loss", {})
    return [
        phase["phase"] if phase["attempt"] == 1 else f"{phase['phase']} #{phase['attempt']}",
        text.step(phase["records"]),
        _number(loss.get("first")),
        _number(loss.get("last")),
        best_evaluation(phase["evals"]),
        _number(metrics.get("tok_per_sec", {}).get("mean"), 0),
        _number(metrics.get("mfu", {}).get("mean"), 1),
        None if phase["duration_s"] is None else text.duration(phase["duration_s"]),
    ]


def _number(value: float | None, decimals: int | None = None) -> str | None:
    """None stays None: a page and a terminal each have their own sign for it."""
    return None if value is None else text.number(float(value), decimals)


def best_evaluation(evals: Mapping[str, Any]) -> str | None:
    """The value and the name that `best_of` finds."""
    found = best_of(evals)
    return None if found is None else f"{evals[found[0]][found[1]]:.4f} {found[0].removeprefix('val_')}"


def best_of(evals: Mapping[str, Any]) -> tuple[str, Literal["min", "max"]] | None:
    """The lowest validation loss; of a log without one, another evaluation, accuracies first."""
    for name in ("val_loss", "val_bpb"):
        if name in evals and evals[name]["min"] is not None:
            return name, "min"
    named = sorted(evals, key=lambda name: not HIGH_IS_BETTER.search(name))
    first = next((name for name in named if evals[name]["max"] is not None), None)
    return None if first is None else (first, "min" if better(first) == "lower" else "max")
