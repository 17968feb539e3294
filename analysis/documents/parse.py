"""Logs -> the page of `gputel parse`: the table of runs, their curves by step and by time, evaluations, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputel.analysis.compare import select
from gputel.analysis.compare.curves import rows_of, run_phase
from gputel.analysis.document import Document, Panel, Section, Table
from gputel.analysis.documents.panels import gpus, metrics
from gputel.analysis.documents.panels.metrics import RunCurve
from gputel.analysis.runs import RunData

if TYPE_CHECKING:
    from gputel.analysis.logs.log import Log

MAIN = ("loss", "tok_per_sec", "mfu", "grad_norm", "lr", "lrm", "dt_ms")
BY = ("step", "tokens", "time")
MOST_OTHERS = 12
MOST_EVENTS = 500


def parse_document(logs: Sequence[Log], runs: Table | None = None) -> Document:
    """`runs` is a table to stand first, a line per attempt of each phase."""
    subjects = [
        RunData(log, readings=log.telemetry.rows if log.telemetry else None)
        for log in logs
        if not log.is_empty
    ]
    names = select.names(subjects)
    lines = [
        line for tint, own in enumerate(zip(subjects, names, strict=True)) for line in lines_of(*own, tint)
    ]
    sections = [
        *([Section(items=(runs,))] if runs else []),
        *curves(lines),
        *_gpus(subjects, names),
        *_details(subjects, names),
    ]
    return Document(
        title=", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "nothing",
        sections=sections,
        about=_about(subjects),
        caution=_caution(subjects, names),
        runs=list(dict.fromkeys(line.run for line in lines)),
    )


def lines_of(subject: RunData, name: str, tint: int = 0) -> list[RunCurve]:
    """A curve per phase that numbered its steps."""
    phases = list(dict.fromkeys(phase for phase, _ in subject.log.places))
    return [
        RunCurve(run_phase(subject, name if len(phases) == 1 else f"{name}, {phase}", phase), name, tint)
        for phase in phases
        if rows_of(subject, phase).height
    ]


def curves(lines: Sequence[RunCurve]) -> list[Section]:
    if not lines:
        return []
    found = list(metrics.names(lines))
    evaluated = [name for name in found if metrics.is_evaluation(name, lines)]
    others = [name for name in found if name not in MAIN and name not in evaluated]
    main = [panel for name in MAIN if (panel := metrics.metric_panel(name, lines, BY))]
    by_time = [also for panel in main if panel.name == "loss" and (also := metrics.only_by("time", panel))]
    sections = [
        Section("Training", [*main[:1], *by_time, *main[1:]]),
        Section("Evaluation", _panels([n for n in evaluated if _is_curve(n, lines)], lines)),
        Section("Other metrics", _panels(others, lines)),
    ]
    return [section for section in sections if section.items]


def _panels(names: Sequence[str], lines: Sequence[RunCurve]) -> list[Panel]:
    return [panel for name in names[:MOST_OTHERS] if (panel := metrics.metric_panel(name, lines, BY))]


def _is_curve(name: str, lines: Sequence[RunCurve]) -> bool:
    """Evaluated at two steps of a run; a benchmark at the end of it is a number, and stands in the table."""
    return any(
        line.track.subject.log.evals.filter(name=name)["step"].drop_nulls().n_unique() > 1 for line in lines
    )


def _gpus(subjects: Sequence[RunData], names: Sequence[str]) -> list[Section]:
    return [
        Section(f"GPUs of {name}", gpus.panels(own.gpu, link=name), wide=True)
        for own, name in zip(subjects, names, strict=True)
        if own.gpu is not None and own.gpu["time"].count()
    ]


def _details(subjects: Sequence[RunData], names: Sequence[str]) -> list[Section]:
    last, events = [], []
    for subject, name in zip(subjects, names, strict=True):
        for key, own in subject.log.evals.group_by("name", maintain_order=True):
            row = own.row(-1, named=True)
            last.append((name, key[0], row["step"], row["value"], len(own)))
        for row in subject.log.events.filter(subject.log.events["kind"] != "eval").iter_rows(named=True):
            events.append((name, row["kind"], row["step"], row["line"], row["text"]))
    tables = [
        Table(
            "Evaluations: the last of each",
            ("run", "name", "step", "value", "count"),
            last,
            folded=len(last) > 12,
        ),
        Table(
            "Events",
            ("run", "event", "after step", "line", "text"),
            events[:MOST_EVENTS],
            note=f"The first {MOST_EVENTS} of {len(events):,}." if len(events) > MOST_EVENTS else "",
            folded=len(events) > 12,
        ),
    ]
    return (
        [Section("Details", [table for table in tables if table.rows])] if any(t.rows for t in tables) else []
    )


def _about(subjects: Sequence[RunData]) -> str:
    rows = sum(subject.log.records.height for subject in subjects)
    formats = ", ".join(dict.fromkeys(subject.log.format or "unknown format" for subject in subjects))
    return f"{len(subjects)} {'log' if len(subjects) == 1 else 'logs'}, {rows:,} records; {formats}"


def _caution(subjects: Sequence[RunData], names: Sequence[str]) -> str | None:
    """One sentence where all runs share it, else each with the runs that it is true of."""
    of: dict[str, list[str]] = {}
    for subject, name in zip(subjects, names, strict=True):
        if subject.caution:
            of.setdefault(subject.caution, []).append(name)
    told = [
        f"{caution} ({', '.join(own)})" if len(own) < len(names) else caution for caution, own in of.items()
    ]
    return "; ".join(told) or None
